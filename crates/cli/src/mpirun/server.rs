//! The two programs by which the ranks of a job find each other. Both run on hosts of the fabric.

use super::pmix;
use crate::output::say;
use anyhow::{Context, bail};
use softband_pmi::job::{Action, Job};
use softband_pmi::lines::Lines;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

/// Longest wait of a rank for its server.
const PATIENCE: Duration = Duration::from_secs(10);

/// Words after the binary's name by which `mpirun` starts these programs. Users have no use for them,
/// so the help does not list them.
pub(crate) const SERVER_WORD: &str = "pmi-server";
pub(crate) const RANK_WORD: &str = "pmi-rank";

/// Runs a part of a job if the words ask for it: `pmi-server PORT HOST,HOST,...` with the host of each
/// rank by number, or `pmi-rank SERVER PROGRAM ARGUMENTS`. `pmix` has the others: `pmix-server PORT
/// LIBRARY FOLDER HOST,HOST,...` with the names of hosts, or `pmix-rank SERVER FILE PROGRAM ARGUMENTS`.
pub(crate) fn run_part_of_job(words: &[OsString]) -> Option<anyhow::Result<i32>> {
    let text = |at: usize| words.get(at).and_then(|word| word.to_str());
    match text(1)? {
        SERVER_WORD => {
            let hosts: Vec<usize> = text(3)?.split(',').map(|host| host.parse().ok()).collect::<Option<_>>()?;
            Some(serve(text(2)?.parse().ok()?, &hosts))
        }
        RANK_WORD => Some(become_rank(text(2)?, words.get(3)?, &words[4..])),
        pmix::SERVER_WORD => Some(pmix::serve(words.get(2)?, words.get(3)?, words.get(4)?, words.get(5)?)),
        pmix::RANK_WORD => Some(pmix::become_rank(text(2)?, words.get(3)?, words.get(4)?, &words[5..])),
        _ => None,
    }
}

/// Serves until each rank has left. Prints the events of the job.
fn serve(port: u16, hosts: &[usize]) -> anyhow::Result<i32> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).with_context(|| format!("cannot listen on port {port}"))?;
    let mut server = Server { job: Job::new(&name_of_job()?, hosts), peers: BTreeMap::new(), next: 0 };
    while !server.job.is_over() {
        let mut watched = vec![listener.as_raw_fd()];
        watched.extend(server.peers.values().map(|(stream, _)| stream.as_raw_fd()));
        let ready = readable(&watched)?;
        let from: Vec<usize> = server.peers.keys().copied().zip(&ready[1..]).filter(|(_, ready)| **ready).map(|(peer, _)| peer).collect();
        if ready[0] {
            server.accept(listener.accept().context("cannot take a connection")?.0);
        }
        for peer in from {
            server.read(peer)?;
        }
    }
    Ok(0)
}

/// Returns a random name. In simulated time it depends on the run's seed, because the library of
/// simulated time stands in for the C library's function.
pub(super) fn name_of_job() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 8];
    // SAFETY: the room has the stated length.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    anyhow::ensure!(usize::try_from(count) == Ok(bytes.len()), "the system has no random numbers for the name of the job");
    Ok(format!("softband-{:016x}", u64::from_ne_bytes(bytes)))
}

struct Server {
    job: Job,
    peers: BTreeMap<usize, (TcpStream, Lines)>,
    next: usize,
}

impl Server {
    fn accept(&mut self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        self.job.connected(self.next);
        self.peers.insert(self.next, (stream, Lines::default()));
        self.next += 1;
    }

    /// Handles the received bytes of a rank, or its end.
    fn read(&mut self, from: usize) -> anyhow::Result<()> {
        let mut bytes = [0; 4096];
        let Some((stream, lines)) = self.peers.get_mut(&from) else { return Ok(()) };
        match stream.read(&mut bytes) {
            Ok(count) if count > 0 => lines.add(&bytes[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(()),
            Ok(_) | Err(_) => {
                self.peers.remove(&from);
                let actions = self.job.closed(from);
                return self.carry_out(actions);
            }
        }
        while let Some((_, lines)) = self.peers.get_mut(&from) {
            let actions = match lines.take() {
                Ok(None) => break,
                Ok(Some(line)) => self.job.line(from, &line),
                Err(_) => self.job.unreadable(from),
            };
            self.carry_out(actions)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, actions: Vec<Action>) -> anyhow::Result<()> {
        for action in actions {
            match action {
                Action::Send(to, text) => {
                    // The end of a rank that is gone appears as the end of its connection.
                    if let Some((stream, _)) = self.peers.get_mut(&to) {
                        let _ = stream.write_all(format!("{text}\n").as_bytes());
                    }
                }
                Action::Close(peer) => {
                    self.peers.remove(&peer);
                }
                Action::Report(event) => say(format_args!("{event}\n"))?,
            }
        }
        Ok(())
    }
}

/// Waits for bytes, connections or ends. Returns whether each descriptor has one.
fn readable(watched: &[RawFd]) -> anyhow::Result<Vec<bool>> {
    let mut polled: Vec<libc::pollfd> = watched.iter().map(|fd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 }).collect();
    loop {
        // SAFETY: the array is valid for its length. The C library's function is necessary, because the
        // library of simulated time stands in for it.
        let count = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) };
        if count >= 0 {
            return Ok(polled.iter().map(|one| one.revents != 0).collect());
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error).context("cannot wait for the ranks");
        }
    }
}

/// Waits until the server listens. In simulated time a connection waits by itself.
pub(super) fn wait_for(server: &str) -> anyhow::Result<()> {
    let started = Instant::now();
    while let Err(error) = TcpStream::connect(server) {
        if started.elapsed() > PATIENCE {
            bail!("the server of the ranks at {server} does not answer: {error}\n  help: end other programs, and start the job again");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Waits until the server listens, at the machine's clock, and becomes the rank's program.
fn become_rank(server: &str, program: &OsStr, arguments: &[OsString]) -> anyhow::Result<i32> {
    wait_for(server)?;
    let error = std::process::Command::new(program).args(arguments).exec();
    bail!("cannot run '{}': {error}", program.display())
}
