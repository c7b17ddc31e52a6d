//! The parts of a job whose ranks find each other by PMIx. Both run on hosts of the fabric.

use super::server::{name_of_job, wait_for};
use crate::output::say;
use anyhow::{Context, bail};
use softband_pmix::server::{Server, read, written};
use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Words after the binary's name by which `mpirun` starts these programs.
pub(super) const SERVER_WORD: &str = "pmix-server";
pub(super) const RANK_WORD: &str = "pmix-rank";

/// Pause after a connection that the server cannot accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(1);

/// Returns the file with the variables of a rank, in the job's folder.
pub(super) fn file_of(scratch: &Path, rank: usize) -> PathBuf {
    scratch.join(format!("rank-{rank}"))
}

/// Starts the server, writes the variables of each rank to a file, and serves until the run ends it.
/// The words are the port, the PMIx library, the job's folder and the host of each rank.
pub(super) fn serve(port: &OsStr, library: &OsStr, scratch: &OsStr, hosts: &OsStr) -> anyhow::Result<i32> {
    let text = |word: &OsStr| word.to_str().map(str::to_owned).context("a word is not UTF-8");
    let (port, folder) = (text(port)?.parse::<u16>().context("no port")?, text(scratch)?);
    let hosts: Vec<String> = text(hosts)?.split(',').map(str::to_owned).collect();
    // An event that cannot be written has no reader any more: the run is at its end.
    let server = Server::start(Path::new(library), &name_of_job()?, &hosts, &folder, |event| drop(say(format_args!("{event}\n"))));
    let server = server.map_err(|why| anyhow::anyhow!("{why}"))?;
    for rank in 0..hosts.len() {
        let variables = server.environment(rank).map_err(|why| anyhow::anyhow!("{why}"))?;
        let file = file_of(Path::new(scratch), rank);
        std::fs::write(&file, written(&variables)).with_context(|| format!("cannot write {}", file.display()))?;
    }
    // The ranks wait for this port, so that their files are complete when they read them.
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).with_context(|| format!("cannot listen on port {port}"))?;
    loop {
        // A connection stays in the queue while the process has no descriptor for it.
        if listener.accept().is_err() {
            std::thread::sleep(ACCEPT_PAUSE);
        }
    }
}

/// Waits for the server, takes the variables that it wrote for this rank, and becomes its program.
pub(super) fn become_rank(server: &str, file: &OsStr, program: &OsStr, arguments: &[OsString]) -> anyhow::Result<i32> {
    wait_for(server)?;
    let file = Path::new(file);
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let error = std::process::Command::new(program).args(arguments).envs(read(&bytes)).exec();
    bail!("cannot run '{}': {error}", program.display())
}
