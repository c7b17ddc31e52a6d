//! `softband X` with X unknown runs `softband-X`, as git and cargo do.

use crate::{home, own_parts};
use anyhow::bail;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

pub(crate) fn run(words: &[OsString]) -> anyhow::Result<i32> {
    let name = format!("softband-{}", words[0].to_string_lossy());
    let Some(program) = find(&name) else {
        bail!(
            "'{}' is no command of softband, and no {name} lies beside it or on the PATH; `softband --help` lists the commands",
            words[0].to_string_lossy()
        );
    };
    let binary = std::env::current_exe()?;
    let mut command = Command::new(&program);
    command.args(&words[1..]).env("SOFTBAND_BIN", binary);
    let fabric = own_parts::fabric_of(words);
    own_parts::hand_over(&mut command, fabric.as_deref())?;
    if fabric.is_some() {
        // What its runs would say of the parts is said once.
        home::catalog(fabric.as_deref())?;
    }
    let error = command.exec();
    bail!("cannot run {}: {error}", program.display())
}

fn find(name: &str) -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|binary| Some(binary.parent()?.join(name)));
    let on_path =
        std::env::var_os("PATH").into_iter().flat_map(|path| std::env::split_paths(&path).map(|folder| folder.join(name)).collect::<Vec<_>>());
    beside.into_iter().chain(on_path).find(|candidate| candidate.is_file())
}
