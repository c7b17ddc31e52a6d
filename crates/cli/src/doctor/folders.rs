//! Folders that runs write into, and the installation.

use super::finding::Finding;
use crate::{home, record, scratch::Scratch};

pub(super) fn findings() -> Vec<Finding> {
    vec![installation(), temporary(), runtime()]
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
