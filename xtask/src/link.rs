//! `cargo xtask link`: links the two shared objects that programs load.
//!
//! rustc passes its own version script for a `cdylib`, which conflicts with ours. So cargo builds
//! one static library, and this code links it. `libsoftband.so` holds all code and state. It
//! exports exactly the listed symbols, without versions: preloaded, they replace every version.
//! `libibverbs.so.1` holds only jumps, with the versions of Debian's library. It serves programs
//! that find their libraries by `LD_LIBRARY_PATH`.

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One line of `crates/libibverbs/versions.txt`.
#[derive(Clone, Debug)]
pub(crate) struct VersionedSymbol {
    pub(crate) name: String,
    pub(crate) version: String,
    is_default: bool,
    target: String,
}

const USAGE: &str = "usage: cargo xtask link [--archive FILE] --out DIR";

/// Runs `cargo xtask link [--archive FILE] --out DIR`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut archive = None;
    let mut out = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--archive" => archive = Some(PathBuf::from(rest.next().context("--archive takes a file")?)),
            "--out" => out = Some(PathBuf::from(rest.next().context("--out takes a folder")?)),
            other => bail!("cargo xtask link does not know {other}; {USAGE}"),
        }
    }
    let out = out.with_context(|| format!("--out is missing; {USAGE}"))?;
    link(&archive.map_or_else(build, Ok)?, &out)
}

/// Builds the static library without optimization. Returns its path.
pub(crate) fn build() -> Result<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    must_succeed(Command::new(cargo).current_dir(root()).args(["build", "--package", "softband-preload"]))?;
    Ok(target_directory().join("debug/libsoftband_preload.a"))
}

/// Links both shared objects from the static library into `out`/lib.
pub(crate) fn link(archive: &Path, out: &Path) -> Result<()> {
    ensure!(cfg!(all(target_os = "linux", target_arch = "x86_64")), "the shared objects are made for Linux on x86-64 only");
    let lib = out.join("lib");
    let work = target_directory().join("link");
    std::fs::create_dir_all(&lib)?;
    std::fs::create_dir_all(&work)?;
    link_preload(archive, &lib, &work)?;
    link_versioned(&lib, &work)
}

/// Returns the symbols that `libsoftband.so` replaces: those of libibverbs and of the C library.
pub(crate) fn preload_symbols() -> Result<BTreeSet<String>> {
    let mut all = verbs_symbols()?;
    all.extend(libc_symbols()?);
    Ok(all)
}

fn verbs_symbols() -> Result<BTreeSet<String>> {
    symbol_list(&root().join("crates/libibverbs/symbols.txt"))
}

fn libc_symbols() -> Result<BTreeSet<String>> {
    let list = root().join("crates/shim/symbols.txt");
    if list.exists() { symbol_list(&list) } else { Ok(BTreeSet::new()) }
}

fn symbol_list(path: &Path) -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect())
}

/// Returns the exports of the versioned library.
pub(crate) fn versioned_symbols() -> Result<Vec<VersionedSymbol>> {
    let path = root().join("crates/libibverbs/versions.txt");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [name, version, binding, target] => {
                Ok(VersionedSymbol { name: name.into(), version: version.into(), is_default: binding == "default", target: target.into() })
            }
            _ => bail!("{}: not four words: {line}", path.display()),
        })
        .collect()
}

/// Returns the name by which the jumps of the versioned library find `symbol`, even if others
/// define the plain name.
fn alias(symbol: &str) -> String {
    format!("softband_{symbol}")
}

const HELPERS: [&str; 7] = [
    "softband_unsupported_status",
    "softband_unsupported_object",
    "softband_unsupported_call",
    "softband_nothing",
    "softband_compute_ps",
    "softband_compute_ahead_ps",
    "softband_thread_cpu_ns",
];

/// Returns the C compiler of the variable `CC`, with its options, or `cc`.
fn compiler() -> Command {
    let words = std::env::var("CC").unwrap_or_default();
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("cc"));
    command.args(words);
    command
}

fn link_preload(archive: &Path, lib: &Path, work: &Path) -> Result<()> {
    let symbols = preload_symbols()?;
    let mut script = String::from("{\n  global:\n");
    for symbol in &symbols {
        let _ = writeln!(script, "    {symbol};\n    {};", alias(symbol));
    }
    for helper in HELPERS {
        let _ = writeln!(script, "    {helper};");
    }
    script.push_str("  local: *;\n};\n");
    let map = work.join("libsoftband.map");
    std::fs::write(&map, script)?;

    let mut cc = compiler();
    cc.args(["-shared", "-Wl,-soname,libsoftband.so", "-Wl,-Bsymbolic", "-Wl,-z,now", "-Wl,-z,nodelete", "-Wl,--gc-sections"]);
    cc.arg(format!("-Wl,--version-script={}", map.display()));
    cc.args(["-Wl,--no-undefined", "-Wl,--no-undefined-version"]);
    cc.arg("-o").arg(lib.join("libsoftband.so")).arg(with_aliases(archive, &symbols, work)?);
    cc.args(["-lgcc_s", "-lpthread", "-ldl", "-lm", "-lc"]);
    must_succeed(&mut cc)
}

/// Joins the objects of `archive` into one, with the alias of each symbol. Returns its path. Zig's
/// compiler refuses `--defsym`, so the system's linker does this part, which needs no C library.
fn with_aliases(archive: &Path, symbols: &BTreeSet<String>, work: &Path) -> Result<PathBuf> {
    let joined = work.join("libsoftband.o");
    let mut ld = Command::new("ld");
    ld.args(["-r", "--unique"]).args(symbols.iter().map(|symbol| format!("--defsym={}={symbol}", alias(symbol))));
    ld.arg("-o").arg(&joined).arg("--whole-archive").arg(archive);
    must_succeed(&mut ld)?;
    Ok(joined)
}

fn link_versioned(lib: &Path, work: &Path) -> Result<()> {
    let symbols = versioned_symbols()?;
    let assembler = work.join("libibverbs.S");
    std::fs::write(&assembler, jumps(&symbols, &libc_symbols()?)?)?;
    let map = work.join("libibverbs.map");
    std::fs::write(&map, version_nodes(&symbols))?;
    let mut cc = compiler();
    cc.args(["-shared", "-nostdlib", "-Wl,-soname,libibverbs.so.1", "-Wl,-z,now", "-Wl,-z,noexecstack", "-Wl,-rpath,$ORIGIN"]);
    cc.arg(format!("-Wl,--version-script={}", map.display())).arg("-Wl,--no-undefined");
    cc.arg("-o").arg(lib.join("libibverbs.so.1")).arg(&assembler);
    // By name and not by path, because the dynamic linker looks for this name.
    cc.arg("-L").arg(lib).args(["-Wl,--no-as-needed", "-lsoftband"]);
    must_succeed(&mut cc)
}

/// Returns the assembly of the versioned symbols as jumps, and of the C library's symbols as
/// unversioned jumps. Without preloading, this library precedes the C library in the lookup order,
/// and `libsoftband.so` follows it.
fn jumps(symbols: &[VersionedSymbol], libc: &BTreeSet<String>) -> Result<String> {
    let mut text = String::from("\t.section .note.GNU-stack,\"\",@progbits\n\t.text\n");
    let jump = |text: &mut String, label: &str, target: &str| {
        let _ = write!(
            text,
            "\t.globl {label}\n\t.type {label}, @function\n\t.p2align 4\n{label}:\n\tjmp *{target}@GOTPCREL(%rip)\n\t.size {label}, .-{label}\n"
        );
    };
    for (number, symbol) in symbols.iter().enumerate() {
        let label = format!("entry_{number}");
        if let Some(bytes) = symbol.target.strip_prefix("data:") {
            let bytes: usize = bytes.parse().with_context(|| format!("{}: bad size", symbol.name))?;
            let _ =
                write!(text, "\t.bss\n\t.globl {label}\n\t.type {label}, @object\n\t.size {label}, {bytes}\n{label}:\n\t.zero {bytes}\n\t.text\n");
        } else if symbol.target == "=" {
            jump(&mut text, &label, &alias(&symbol.name));
        } else if symbol.target.starts_with("softband_unsupported_") {
            refusal(&mut text, &label, symbol);
        } else {
            jump(&mut text, &label, &symbol.target);
        }
        let binding = if symbol.is_default { "@@" } else { "@" };
        let _ = writeln!(text, "\t.symver {label}, {}{binding}{}, remove", symbol.name, symbol.version);
    }
    for symbol in libc {
        jump(&mut text, symbol, &alias(symbol));
    }
    Ok(text)
}

/// Writes a jump that replaces the caller's first argument by the symbol's name. The target reports
/// this name and uses no other argument.
fn refusal(text: &mut String, label: &str, VersionedSymbol { name, version, target, .. }: &VersionedSymbol) {
    let _ = write!(
        text,
        "\t.section .rodata\n{label}_name:\n\t.asciz \"{name}@{version}\"\n\t.text\n\
         \t.globl {label}\n\t.type {label}, @function\n\t.p2align 4\n\
         {label}:\n\tleaq {label}_name(%rip), %rdi\n\tjmp *{target}@GOTPCREL(%rip)\n\t.size {label}, .-{label}\n"
    );
}

/// Returns the version nodes. Each version inherits from its predecessor; the private version
/// stands alone.
fn version_nodes(symbols: &[VersionedSymbol]) -> String {
    let number = |version: &str| -> Option<(u32, u32)> {
        let (major, minor) = version.strip_prefix("IBVERBS_")?.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    let versions: BTreeSet<_> = symbols.iter().map(|symbol| (number(&symbol.version), symbol.version.as_str())).collect();
    let mut text = String::new();
    let mut parent = String::new();
    for (number, version) in versions {
        if number.is_some() {
            let _ = writeln!(text, "{version} {{ }}{parent};");
            parent = format!(" {version}");
        } else {
            let _ = writeln!(text, "{version} {{ }};");
        }
    }
    text
}

/// Runs a command. Fails if the command fails.
pub(crate) fn must_succeed(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))?;
    ensure!(status.success(), "{} failed ({status})", command.get_program().to_string_lossy());
    Ok(())
}

/// Returns the root of the checkout.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the checkout").to_owned()
}

/// Returns cargo's target directory.
pub(crate) fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
