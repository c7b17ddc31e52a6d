//! Passes on the output of programs between turns. Lines of several programs therefore appear in
//! the order of simulated time, not in that of the host.

use crate::process::launch::ProgramOutput;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;

struct Pipe {
    from: OwnedFd,
    to: ProgramOutput,
}

/// The pipes of all programs.
pub(crate) struct Outputs {
    poller: OwnedFd,
    pipes: Vec<Option<Pipe>>,
    buffer: Vec<u8>,
}

impl Outputs {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { poller: epoll::create(epoll::CreateFlags::CLOEXEC)?, pipes: Vec::new(), buffer: vec![0; 64 * 1024] })
    }

    pub(crate) fn add(&mut self, from: OwnedFd, to: ProgramOutput) -> std::io::Result<()> {
        rustix::fs::fcntl_setfl(&from, OFlags::NONBLOCK)?;
        let number = self.pipes.len() as u64;
        epoll::add(&self.poller, &from, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
        self.pipes.push(Some(Pipe { from, to }));
        Ok(())
    }

    /// Passes on the available output, in the order of the programs.
    pub(crate) fn drain(&mut self) {
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 8];
        let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            let count = epoll::wait(&self.poller, &mut events, Some(&none)).unwrap_or(0);
            let mut ready: Vec<usize> = events[..count].iter().map(|event| event.data.u64() as usize).collect();
            ready.sort_unstable();
            for number in &ready {
                self.drain_pipe(*number);
            }
            if count < events.len() {
                return;
            }
        }
    }

    fn drain_pipe(&mut self, number: usize) {
        while let Some(pipe) = &mut self.pipes[number] {
            match rustix::io::read(&pipe.from, &mut self.buffer[..]) {
                Ok(0) => {
                    let _ = pipe.to.flush();
                    let _ = epoll::delete(&self.poller, &pipe.from);
                    self.pipes[number] = None;
                }
                Ok(len) => {
                    // A closed sink (a closed terminal) must not stop the run.
                    let _ = pipe.to.write_all(&self.buffer[..len]);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// Returns whether some process still holds the other end of a pipe.
    pub(crate) fn is_open(&self) -> bool {
        self.pipes.iter().any(Option::is_some)
    }
}
