//! Records the commit of the build. A source tree without its git folder has none.

#![allow(clippy::disallowed_methods)] // build scripts talk to cargo by the environment

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // This file is tracked only if the sources are the repository, not merely unpacked inside another one.
    let commit = git(&["ls-files", "--error-unmatch", "build.rs"]).and_then(|_| git(&["rev-parse", "--short=10", "HEAD"]));
    for name in ["HEAD", "logs/HEAD"] {
        // Every commit and checkout adds a line to the log of HEAD. Without a log, HEAD itself
        // changes at checkouts.
        let path = git(&["rev-parse", "--git-path", name]).filter(|path| commit.is_some() && Path::new(path).exists());
        path.into_iter().for_each(|path| println!("cargo::rerun-if-changed={path}"));
    }
    println!("cargo::rustc-env=SOFTBAND_COMMIT={}", commit.unwrap_or_default());
}

/// Returns the one line of git's output.
fn git(words: &[&str]) -> Option<String> {
    let answer = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(answer.stdout).ok()?;
    answer.status.success().then(|| text.trim().to_owned())
}
