//! A real run in each pace: the proof that programs join a fabric.

use super::finding::Finding;
use std::process::{Command, Output};

/// Seconds until a trial ends. It takes a fraction of a second.
const PATIENCE: &str = "30";
/// Host names that the two programs print, if they run inside the fabric.
const WANTED: &str = "a: a\nb: b\n";

pub(super) fn findings() -> Vec<Finding> {
    [("simulated run", "virtual"), ("wall-pace run", "wall")].map(|(name, pace)| finding(name, pace)).into()
}

fn finding(name: &'static str, pace: &str) -> Finding {
    let run = std::env::current_exe().and_then(|own| {
        let words = ["run", "-n", "2", "--quiet", "--timeout", PATIENCE, "--pace", pace, "--", "uname", "-n"];
        Command::new(own).args(words).output()
    });
    match run {
        Ok(done) => judge(name, &done),
        Err(error) => Finding::broken(name, format!("cannot start softband: {error}"), "no run works", "install Softband again"),
    }
}

fn judge(name: &'static str, done: &Output) -> Finding {
    const EFFECT: &str = "programs do not run in this pace";
    let [out, errors] = [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let mut lines: Vec<&str> = out.lines().collect();
    // At wall pace the programs print in any order.
    lines.sort_unstable();
    if done.status.success() && lines == WANTED.lines().collect::<Vec<_>>() {
        return Finding::ok(name, "LD_PRELOAD works: `uname -n` prints the names of two hosts");
    }
    if done.status.success() {
        let value = format!("`uname -n` ran outside the fabric: {}", lines.join(", "));
        let remedy = "use a dynamically linked `uname` of glibc, without set-uid bit or file capabilities";
        return Finding::broken(name, value, "LD_PRELOAD has no effect, so programs see no fabric", remedy);
    }
    let first = errors.lines().next().unwrap_or("no message").to_owned();
    Finding::broken(name, first, EFFECT, "mend the broken lines above; if there are none, report this with `softband doctor --json`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Health;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn done(code: i32, out: &str, errors: &str) -> Output {
        Output { status: ExitStatus::from_raw(code << 8), stdout: out.into(), stderr: errors.into() }
    }

    #[test]
    fn only_the_names_of_both_hosts_prove_a_run() {
        assert_eq!(judge("run", &done(0, "b: b\na: a\n", "")).health, Health::Ok);
        let outside = judge("run", &done(0, "a: laptop\nb: laptop\n", ""));
        assert_eq!(outside.health, Health::Broken);
        assert!(outside.value.contains("laptop"));
        let failed = judge("run", &done(2, "", "softband: error: no room\n  help: x\n"));
        assert_eq!((failed.health, failed.value.as_str()), (Health::Broken, "softband: error: no room"));
    }
}
