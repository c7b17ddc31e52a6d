//! Programs of others that commands and examples use.

use super::finding::Finding;
use std::path::PathBuf;
use std::process::Command;

/// Option `-P` of Python, with which the lab starts.
const PYTHON_LEAST: (u32, u32) = (3, 11);

/// Programs, the package of Debian and Ubuntu that has them, and their use.
const HELPERS: [(&str, &[&str], &str, &str); 4] = [
    ("perftest", &["ib_send_bw", "ib_write_bw"], "perftest", "the examples with ib_send_bw and ib_write_bw do not run"),
    ("verbs tools", &["ibv_devinfo", "ibv_rc_pingpong"], "ibverbs-utils", "the examples with ibv_devinfo do not run"),
    ("MPI", &["mpicc"], "libopenmpi-dev openmpi-bin", "npb, lattice, weather, mpibench and `record` cannot compile, and `mpirun` finds no MPI"),
    ("OpenSM", &["opensm"], "opensm", "fabrics with `manager = \"opensm\"` stay without LIDs; the built-in manager needs nothing"),
];

pub(super) fn findings() -> Vec<Finding> {
    let version = Command::new("python3").arg("--version").output();
    let version = version.ok().map(|done| String::from_utf8_lossy(&done.stdout).trim().to_owned());
    let mut findings = vec![python(version.as_deref())];
    findings.extend(HELPERS.iter().map(|(name, programs, package, effect)| helper(name, programs, package, effect)));
    findings
}

fn python(version: Option<&str>) -> Finding {
    const NAME: &str = "Python";
    const EFFECT: &str = "study, what-if, compare and sweeps do not run; run, up and model do";
    const REMEDY: &str = "sudo apt install python3 (3.11 or newer)";
    match version.and_then(|text| Some((text, numbers(text)?))) {
        Some((text, numbers)) if numbers >= PYTHON_LEAST => Finding::ok(NAME, text),
        Some((text, _)) => Finding::limited(NAME, text, EFFECT, REMEDY),
        None => Finding::limited(NAME, "no python3 on the PATH", EFFECT, REMEDY),
    }
}

/// Returns the first two numbers of `Python 3.11.2`.
fn numbers(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix("Python ")?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn helper(name: &'static str, programs: &[&str], package: &str, effect: &str) -> Finding {
    let (found, missing): (Vec<&str>, Vec<&str>) = programs.iter().partition(|program| find(program).is_some());
    if missing.is_empty() {
        return Finding::ok(name, found.join(", "));
    }
    let on_path = format!("not on the PATH: {}", missing.join(", "));
    Finding::limited(name, on_path, effect, &format!("sudo apt install {package}"))
}

/// Returns a program of the PATH, to which `search_path` has added the folders of administrators.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Health;

    #[test]
    fn python_must_be_new_enough() {
        assert_eq!(python(Some("Python 3.11.2")).health, Health::Ok);
        assert_eq!(python(Some("Python 3.9.18")).health, Health::Limited);
        assert_eq!(python(None).value, "no python3 on the PATH");
        assert_eq!(numbers("Python 3.13.0rc1"), Some((3, 13)));
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        assert_eq!(helper("shell", &["sh"], "dash", "nothing runs").health, Health::Ok);
        let missing = helper("x", &["sh", "no-such-program"], "some-package", "x does not run");
        assert_eq!((missing.health, missing.value.as_str()), (Health::Limited, "not on the PATH: no-such-program"));
        assert_eq!(missing.remedy, "sudo apt install some-package");
    }
}
