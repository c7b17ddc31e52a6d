//! The layer between a program and its MPI, compiled from `tools/mpirecord` for the MPI at hand.

use crate::home;
use anyhow::{Context, bail};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

const NAME: &str = "libsoftband-mpirecord.so";
/// Options beside those of the MPI's own compiler.
const OPTIONS: [&str; 5] = ["-std=gnu11", "-O2", "-fPIC", "-w", "-c"];
/// Options of the linker. Each function of the MPI is found at its first call, since programs
/// without MPI load the layer too.
const LINK_OPTIONS: [&str; 4] = ["-shared", "-Wl,-z,lazy", "-pthread", "-ldl"];

/// Compiles the layer with `mpicc`, unless the same sources and the same MPI did it before. Returns
/// its path.
pub(crate) fn build(mpicc: &str) -> anyhow::Result<PathBuf> {
    let sources = sources()?;
    let folder = cache()?.join(format!("mpirecord-{:016x}", digest(mpicc, &sources)?));
    let library = folder.join(NAME);
    if library.is_file() {
        return Ok(library);
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // Another command may compile at the same time.
    let place = |name: &str| folder.join(format!("{name}.{}", std::process::id()));
    let mut objects = Vec::new();
    for source in sources.iter().filter(|path| path.extension().is_some_and(|ending| ending == "c")) {
        let object = place(&format!("{}.o", source.file_stem().unwrap_or_default().to_string_lossy()));
        compile(mpicc, words(mpicc)?.args(OPTIONS).arg("-o").arg(&object).arg(source))?;
        objects.push(object);
    }
    let part = place(NAME);
    let linked = compile("cc", Command::new("cc").arg("-o").arg(&part).args(&objects).args(LINK_OPTIONS));
    objects.iter().for_each(|object| drop(std::fs::remove_file(object)));
    linked?;
    std::fs::rename(&part, &library).with_context(|| format!("cannot write {}", library.display()))?;
    Ok(library)
}

fn compile(name: &str, command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().map_err(|error| missing(name, &error))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("{name} cannot compile the recording layer:\n{}\n  help: name the compiler of the program's MPI with --mpicc", text.trim_end());
    }
    Ok(())
}

fn words(mpicc: &str) -> anyhow::Result<Command> {
    let mut words = mpicc.split_whitespace();
    let Some(first) = words.next() else { bail!("--mpicc names no compiler\n  help: name the compiler of the program's MPI, such as mpicc") };
    let mut command = Command::new(first);
    command.args(words);
    Ok(command)
}

fn missing(mpicc: &str, error: &std::io::Error) -> anyhow::Error {
    anyhow::anyhow!(
        "cannot run {mpicc}, which compiles the recording layer: {error}\n  help: install the development files of the program's MPI \
         (Debian: libmpich-dev or libopenmpi-dev), or name its compiler with --mpicc"
    )
}

/// Returns the sources of the layer, in the order of their names.
fn sources() -> anyhow::Result<Vec<PathBuf>> {
    let folder = home::home()?.join("tools/mpirecord");
    let mut found: Vec<PathBuf> = std::fs::read_dir(&folder)
        .map_err(|error| anyhow::anyhow!("no sources of the recording layer in {}: {error}\n  help: run `make build`", folder.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "c" || ending == "h"))
        .collect();
    found.sort();
    if found.is_empty() {
        bail!("no sources of the recording layer in {}\n  help: run `make build`", folder.display());
    }
    Ok(found)
}

/// Returns a digest of the sources and of the command that the MPI's compiler stands for.
fn digest(mpicc: &str, sources: &[PathBuf]) -> anyhow::Result<u64> {
    let mut hasher = DefaultHasher::new();
    let shown = words(mpicc)?.arg("-show").output().map_err(|error| missing(mpicc, &error))?;
    shown.stdout.hash(&mut hasher);
    mpicc.hash(&mut hasher);
    for source in sources {
        std::fs::read(source).with_context(|| format!("cannot read {}", source.display()))?.hash(&mut hasher);
    }
    Ok(hasher.finish())
}

/// Returns the folder for compiled layers of this user.
fn cache() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let Some(folder) = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache"))) else {
        bail!("no folder for the compiled recording layer\n  help: set HOME or XDG_CACHE_HOME");
    };
    Ok(folder.join("softband"))
}

/// Returns `LD_PRELOAD` with the layer before the user's own libraries. The engine puts Softband's
/// library behind them.
pub(super) fn preload(layer: &Path) -> (String, String) {
    let others = std::env::var("LD_PRELOAD").unwrap_or_default();
    ("LD_PRELOAD".into(), format!("{} {others}", layer.display()).trim_end().to_owned())
}
