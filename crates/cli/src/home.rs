//! Location of the installation: the folder that holds `lib/`, `catalog/`, `fabrics/` and `studies/`.

use crate::{fabric_list, fabric_loops, own_parts};
use anyhow::{Context, bail};
use softband_catalog::{Catalog, LoadOptions, LoadedFabric, UsualParts};
use std::path::{Path, PathBuf};

/// Variable that names another installation.
const HOME: &str = "SOFTBAND_HOME";

/// Returns the installation's folder: from `SOFTBAND_HOME`, or above this binary, or the checkout
/// of the build.
pub(crate) fn home() -> anyhow::Result<PathBuf> {
    if let Ok(home) = std::env::var(HOME) {
        return Ok(PathBuf::from(home));
    }
    let binary = std::env::current_exe().and_then(std::fs::canonicalize).context("cannot find the path of this binary")?;
    match binary.ancestors().skip(1).find(|folder| folder.join("catalog/hca").is_dir()) {
        Some(home) => Ok(home.to_path_buf()),
        None => bail!("no catalog/ above {}\n  help: set {HOME} to the folder that holds lib/ and catalog/", binary.display()),
    }
}

/// Returns the folder of the libraries for programs.
pub(crate) fn libraries() -> anyhow::Result<PathBuf> {
    let home = home()?;
    let places = [home.join("lib"), home.join("target/dist/lib")];
    let found = places.iter().find(|place| place.join("libsoftband.so").is_file());
    found.cloned().with_context(|| format!("no libsoftband.so in {}\n  help: run `make build`", places[0].display()))
}

/// Returns the catalogue of parts, including the parts beside `fabric`, and prints its warnings.
/// Default parts come from the default fabric; without it, files must name all parts.
pub(crate) fn catalog(fabric: Option<&Path>) -> anyhow::Result<Catalog> {
    let home = home()?;
    let own = own_parts::folders(fabric)?;
    let mut catalog =
        Catalog::load_with(&home.join("catalog"), &own).map_err(|error| anyhow::anyhow!("the catalogue is not usable\n{}", error.to_text()))?;
    own_parts::say(catalog.warnings());
    let default = home.join("fabrics").join(DEFAULT_FABRIC).with_extension("toml");
    let loaded = softband_catalog::load_fabric(&default, &catalog, &LoadOptions::default());
    catalog.set_usual_parts(loaded.ok().and_then(|loaded| UsualParts::of(&loaded.spec)));
    Ok(catalog)
}

/// Returns the path of a fabric, given by path or by its name in the installation (`cables/sdr-cx4`
/// finds `fabrics/cables/sdr-cx4.toml`).
pub(crate) fn fabric_path(given: &Path) -> anyhow::Result<PathBuf> {
    if given.is_file() {
        return Ok(given.to_path_buf());
    }
    let home = home()?;
    // A name may contain dots (`sockets/leininger-2.6.9`).
    let whole = format!("{}.toml", given.display());
    let places = [home.join(given), home.join("fabrics").join(given), home.join("fabrics").join(whole)];
    match places.iter().find(|place| place.is_file()) {
        Some(found) => Ok(found.clone()),
        None if given.is_dir() => {
            bail!("{} is a folder, not a fabric file\n  help: name a file in it, or a fabric of `softband fabric list`", given.display())
        }
        None if given.symlink_metadata().is_ok_and(|data| data.is_symlink()) => {
            bail!("{} is a link to nothing that can be read\n  help: mend the link, or name another fabric file", given.display())
        }
        None if given.exists() => {
            bail!(
                "{} is not a regular file, and a fabric is read more than once\n  help: write the fabric into a file, and name that",
                given.display()
            )
        }
        None => {
            let names = fabric_list::names();
            let meant = softband_catalog::closest(given.to_string_lossy().trim_end_matches(".toml"), names.iter().map(String::as_str));
            let meant = meant.map_or_else(String::new, |name| format!("did you mean `{name}`? "));
            bail!(
                "no fabric file {}, neither here nor in {}\n  help: {meant}`softband fabric list` names those of the installation",
                given.display(),
                home.join("fabrics").display()
            )
        }
    }
}

/// The fabric of commands that name none.
pub(crate) const DEFAULT_FABRIC: &str = "default";

/// Returns the most hosts that the default fabric can have.
pub(crate) fn room_of_default() -> anyhow::Result<usize> {
    load_fabric(Path::new(DEFAULT_FABRIC), false).map(|(_, loaded)| room_of(&loaded))
}

fn room_of(loaded: &LoadedFabric) -> usize {
    loaded.spec.switches.first().map_or(loaded.spec.hosts.len(), |switch| usize::from(switch.part.ports))
}

/// Returns the default fabric with `hosts` hosts.
pub(crate) fn load_default(hosts: usize) -> anyhow::Result<(PathBuf, LoadedFabric)> {
    let (path, loaded) = load_fabric(Path::new(DEFAULT_FABRIC), false)?;
    let room = room_of(&loaded);
    if hosts > room {
        bail!(
            "the switch of the default fabric has ports for {}, not {hosts}\n  help: name a fabric file with more, or fewer programs",
            crate::output::count(room, "host", "hosts")
        );
    }
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let grown = softband_catalog::with_hosts(&text, hosts).map_err(|what| anyhow::anyhow!("{} cannot grow: {what}", path.display()))?;
    let name = format!("{} with {}", path.display(), crate::output::count(hosts as u64, "host", "hosts"));
    let loaded = softband_catalog::parse_fabric(&name, &grown, &catalog(Some(&path))?, &LoadOptions::default()).map_err(crate::output::diagnostic)?;
    Ok((path, loaded))
}

/// Reads and checks a fabric. Prints warnings to standard error.
pub(crate) fn load_fabric(given: &Path, allow_out_of_spec: bool) -> anyhow::Result<(PathBuf, LoadedFabric)> {
    let (path, loaded, _) = load_and_count(given, allow_out_of_spec)?;
    Ok((path, loaded))
}

/// Reads and checks a fabric in the same way, and returns the number of warnings as well.
pub(crate) fn load_and_count(given: &Path, allow_out_of_spec: bool) -> anyhow::Result<(PathBuf, LoadedFabric, usize)> {
    let path = fabric_path(given)?;
    let options = LoadOptions { allow_out_of_spec };
    let catalog = catalog(Some(&path))?;
    let loaded = softband_catalog::load_fabric(&path, &catalog, &options).map_err(crate::output::diagnostic)?;
    for warning in &loaded.warnings {
        eprintln!("{}", warning.to_text());
    }
    let found = [warn_of_hosts_apart, warn_of_path_mtu, fabric_loops::warn].map(|warn| warn(&path, &loaded));
    let warnings = catalog.warnings().len() + loaded.warnings.len() + found.iter().sum::<usize>();
    Ok((path, loaded, warnings))
}

/// Warns of hosts that no cables join. Returns the number of warnings.
fn warn_of_hosts_apart(path: &Path, loaded: &LoadedFabric) -> usize {
    let Some((one, other)) = softband_spec::hosts_apart(&loaded.spec) else { return 0 };
    let [one, other] = [one, other].map(|host| &loaded.spec.hosts[host].name);
    eprintln!(
        "{}: warning: not all hosts can reach each other: no cables lead from a port of {one} to one of {other}\n  \
         help: join their switches by a cable under [[cables]], unless nothing is to go between them",
        path.display()
    );
    1
}

/// Warns of paths with a smaller MTU than the ports at their ends. Returns the number of warnings.
fn warn_of_path_mtu(path: &Path, loaded: &LoadedFabric) -> usize {
    let Some(limit) = softband_spec::path_mtu_limit(&loaded.spec) else { return 0 };
    let [from, to] = [limit.hosts.0, limit.hosts.1].map(|host| &loaded.spec.hosts[host].name);
    let (ports, path_mtu) = (limit.of_ports.bytes(), limit.of_path.bytes());
    eprintln!(
        "{}: warning: a link between {from} and {to} carries packets of at most {path_mtu} B, the ports of both {ports} B\n  \
         help: programs that take their port's MTU lose their packets there: tell them (perftest: -m {path_mtu}), or take a switch that carries more",
        path.display()
    );
    1
}
