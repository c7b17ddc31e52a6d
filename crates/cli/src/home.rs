//! Where the installation lies: the folder that holds `lib/`, `catalog/`, `fabrics/` and `studies/`.

use anyhow::{Context, bail};
use softband_catalog::{Catalog, LoadOptions, LoadedFabric};
use std::path::{Path, PathBuf};

/// Names another installation.
const HOME: &str = "SOFTBAND_HOME";

/// The installation's folder: what `SOFTBAND_HOME` says, or the one above this binary, or the checkout it was built in.
pub(crate) fn home() -> anyhow::Result<PathBuf> {
    if let Ok(home) = std::env::var(HOME) {
        return Ok(PathBuf::from(home));
    }
    let binary = std::env::current_exe().and_then(std::fs::canonicalize).context("cannot tell where this binary lies")?;
    match binary.ancestors().skip(1).find(|folder| folder.join("catalog/hca").is_dir()) {
        Some(home) => Ok(home.to_path_buf()),
        None => bail!("no catalog/ above {}: set {HOME} to the folder that holds lib/ and catalog/", binary.display()),
    }
}

/// The folder of the libraries that programs get.
pub(crate) fn libraries() -> anyhow::Result<PathBuf> {
    let home = home()?;
    let places = [home.join("lib"), home.join("target/dist/lib")];
    let found = places.iter().find(|place| place.join("libsoftband.so").is_file());
    found.cloned().with_context(|| format!("no libsoftband.so in {}: run `make build`", places[0].display()))
}

/// The catalogue of parts.
pub(crate) fn catalog() -> anyhow::Result<Catalog> {
    Catalog::load(&home()?.join("catalog")).map_err(|error| anyhow::anyhow!("the catalogue is not usable\n{}", error.to_text()))
}

/// A fabric by path, or by its name in the installation (`cables/sdr-cx4` finds `fabrics/cables/sdr-cx4.toml`).
pub(crate) fn fabric_path(given: &Path) -> anyhow::Result<PathBuf> {
    if given.is_file() {
        return Ok(given.to_path_buf());
    }
    let home = home()?;
    let mut places = vec![home.join(given), home.join("fabrics").join(given)];
    places.push(home.join("fabrics").join(given).with_extension("toml"));
    match places.iter().find(|place| place.is_file()) {
        Some(found) => Ok(found.clone()),
        None if given.is_dir() => bail!("{} is a folder: name a fabric file in it", given.display()),
        None if given.symlink_metadata().is_ok_and(|data| data.is_symlink()) => bail!("{} is a link to nothing that can be read", given.display()),
        None if given.exists() => bail!("{} is no regular file: a fabric is read more than once", given.display()),
        None => bail!("no fabric file {}: neither here nor in {}", given.display(), home.join("fabrics").display()),
    }
}

/// Reads and checks a fabric, warnings to standard error.
pub(crate) fn load_fabric(given: &Path, allow_out_of_spec: bool) -> anyhow::Result<(PathBuf, LoadedFabric)> {
    let path = fabric_path(given)?;
    let options = LoadOptions { allow_out_of_spec };
    let loaded = softband_catalog::load_fabric(&path, &catalog()?, &options).map_err(crate::output::diagnostic)?;
    for warning in &loaded.warnings {
        eprintln!("{}", warning.to_text());
    }
    Ok((path, loaded))
}
