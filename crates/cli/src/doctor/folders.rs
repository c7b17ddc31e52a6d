//! Folders that runs write into, and the installation.

use super::finding::Finding;
use crate::{home, record, scratch::Scratch};

const SHARED: &str = "/dev/shm";
/// Room of each rank of Open MPI 4 over UCX that shares its host: two need 16 MiB, four need 32 MiB
/// (measured).
const SHARED_OF_RANK: u64 = 8 << 20;
const SHARED_ENOUGH: u64 = 16 * SHARED_OF_RANK;

pub(super) fn findings() -> Vec<Finding> {
    let room = rustix::fs::statvfs(SHARED).map(|data| data.f_bavail.saturating_mul(data.f_frsize)).ok();
    vec![installation(), temporary(), runtime(), shared(room)]
}

/// Judges the room for MPI ranks that share a host. Softband itself keeps nothing there.
fn shared(room: Option<u64>) -> Finding {
    const EFFECT: &str = "Open MPI ends jobs with too many ranks on one host: UCX takes 8 MiB there for each rank that shares its host";
    const REMEDY: &str = "docker run --shm-size 1g, or sudo mount -o remount,size=1g /dev/shm";
    match room {
        Some(bytes) if bytes < SHARED_ENOUGH => Finding::limited(SHARED, format!("{} MiB free", bytes >> 20), EFFECT, REMEDY),
        Some(bytes) => Finding::ok(SHARED, format!("{} MiB free", bytes >> 20)),
        None => Finding::limited(SHARED, "not there", EFFECT, "sudo mount -t tmpfs -o size=1g,mode=1777 tmpfs /dev/shm"),
    }
}

fn installation() -> Finding {
    const NAME: &str = "installation";
    match home::libraries().and_then(|libraries| home::catalog(None).map(|_| libraries)) {
        Ok(libraries) => Finding::ok(NAME, libraries.display().to_string()),
        Err(error) => {
            let text = format!("{error:#}");
            let (value, remedy) = text.split_once("\n  help: ").unwrap_or((&text, "install Softband again"));
            Finding::broken(NAME, value, "no run works", remedy)
        }
    }
}

/// Tries the folder in which programs find the files of their HCAs.
fn temporary() -> Finding {
    const NAME: &str = "temporary folder";
    let folder = std::env::temp_dir();
    match Scratch::make("doctor") {
        Ok(_) => Finding::ok(NAME, folder.display().to_string()),
        Err(error) => Finding::broken(
            NAME,
            format!("{}: {}", folder.display(), error.root_cause()),
            "no run works",
            "export TMPDIR=$HOME/tmp && mkdir -p $TMPDIR",
        ),
    }
}

/// Tries the folder with a file for each fabric of `softband up`.
fn runtime() -> Finding {
    const NAME: &str = "runtime folder";
    match record::usable_folder() {
        Ok(folder) => Finding::ok(NAME, folder.display().to_string()),
        Err(error) => {
            let text = format!("{error:#}");
            let value = text.lines().next().unwrap_or_default();
            Finding::limited(NAME, value, "`softband up` does not work; `softband run` does", "export XDG_RUNTIME_DIR=$(mktemp -d)")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Health;

    #[test]
    fn little_room_for_ranks_of_one_host_is_limited() {
        assert_eq!(shared(Some(1 << 30)).health, Health::Ok);
        let docker = shared(Some(64 << 20));
        assert_eq!((docker.health, docker.value.as_str()), (Health::Limited, "64 MiB free"));
        assert!(docker.remedy.contains("--shm-size") && shared(None).remedy.contains("mount"));
    }
}
