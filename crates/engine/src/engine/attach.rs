//! Attachment of process images. An image becomes the process that its ticket names, or a new child
//! of a process of the fabric.

use crate::control::admission::is_or_descends_from;
use crate::control::room::Greeting;
use crate::control::socket;
use crate::control::tickets::Grant;
use crate::engine::{Engine, surroundings};
use crate::procfs;
use softband_ipc::attach::Welcome;
use std::sync::atomic::Ordering;

impl Engine {
    /// Answers every hello that came.
    pub(super) fn greet_all(&mut self) {
        let hellos = self.control.take_hellos();
        if hellos.is_empty() {
            return;
        }
        let closed = self.control.closed();
        for greeting in hellos {
            self.greet(greeting, &closed);
        }
    }

    /// Answers a hello. The connections `closed` have ended, although the engine has not handled
    /// these events yet.
    fn greet(&mut self, greeting: Greeting, closed: &[u64]) {
        let Greeting { connection, ref socket, hello, pid, view } = greeting;
        let mut welcome = Welcome { version: softband_ipc::VERSION, status: 0, process: 0, slot: 0, secret: 0, table_number: 0, reserved: 0 };
        let is_hidden = procfs::is_hidden(pid);
        let process = match hello.version {
            softband_ipc::VERSION if self.has_attached(pid, closed) && !self.control.is_for_image(hello.ticket) => Err(libc::EBUSY),
            softband_ipc::VERSION if is_hidden && view.is_none() => Err(libc::ENOTDIR),
            softband_ipc::VERSION => self.admit(hello.ticket, pid),
            _ => Err(libc::EPROTO),
        };
        let with_secret = process.and_then(|process| {
            let secret = self.control.issue(Grant::Offspring(process)).map_err(|_| libc::EAGAIN)?;
            Ok((process, secret))
        });
        match with_secret {
            Ok((process, secret)) => {
                welcome.secret = secret;
                welcome.table_number = if is_hidden { pid as u32 } else { 0 };
                if let Some(view) = view {
                    procfs::note(pid, view);
                }
                if !is_hidden {
                    self.control.admission().note_pid(pid);
                }
                self.control.admission().note_member(secret);
                let record = &mut self.processes[process];
                // The former image had another number.
                procfs::forget(record.pid());
                record.attach(pid, Some(connection), secret);
                welcome.process = record.number().0;
                self.memory.set_pid(record.number(), Some(pid));
                let clock = self.scheduler.clock_of(&self.processes, process, 0);
                self.scheduler.resume(process, 0, clock);
                let shared = self.processes[process].shared();
                let memory_file = shared.memory_file().map(|file| &**file);
                let files = [shared.file(), self.scheduler.wake_words(), self.realtime.tables()];
                socket::welcome(socket, &welcome, &files.into_iter().chain(memory_file).collect::<Vec<_>>());
                shared.header().is_welcomed.store(1, Ordering::Release);
            }
            Err(errno) => {
                welcome.status = errno;
                socket::welcome(socket, &welcome, &[]);
            }
        }
    }

    /// Returns whether the process `pid` already takes part in simulated time over an open
    /// connection. It would never take the turns of a second process. An unannounced new image
    /// attaches after the connection of the former image has closed.
    fn has_attached(&self, pid: i32, closed: &[u64]) -> bool {
        let is_open = |connection: u64| !closed.contains(&connection);
        !self.scheduler.is_wall() && self.processes.any(|process| process.pid() == pid && process.connection().is_some_and(is_open))
    }

    /// Returns the process that an image with `ticket` becomes. `pid` comes from the kernel. Fails
    /// with an errno.
    fn admit(&mut self, ticket: u64, pid: i32) -> Result<usize, i32> {
        let (grant, was_used) = self.control.present(ticket).ok_or(libc::EACCES)?;
        match grant {
            Grant::Process(process) if !was_used && self.processes[process].is_awaited() => Ok(process),
            Grant::Image(process) if !was_used => self.replace_image(process).map(|()| process),
            Grant::Moved { process, host } if !was_used => {
                self.processes[process].move_to(host);
                self.replace_image(process).map(|()| process)
            }
            Grant::Host { host, program, .. } if !was_used => self.adopt(host, program, None),
            Grant::Offspring(parent) => self.adopt_child_of(parent),
            Grant::Process(parent) | Grant::Image(parent) | Grant::Moved { process: parent, .. } => {
                // The intended holder of a ticket may be statically linked. The first of its
                // children has then attached in its place. Another child only descends from the
                // process that the engine has started.
                let is_below_line = || self.processes.pids_above(&self.programs, parent).any(|above| is_or_descends_from(pid, above));
                if was_used && !is_below_line() {
                    return Err(libc::EACCES);
                }
                match grant {
                    Grant::Moved { host, .. } => self.adopt(host, self.processes[parent].program(), Some(parent)),
                    _ => self.adopt_child_of(parent),
                }
            }
            Grant::Host { host, program, pid: holder } => {
                // The engine does not see the parents of hidden processes.
                if procfs::is_hidden(pid) || is_or_descends_from(pid, holder) { self.adopt(host, program, None) } else { Err(libc::EACCES) }
            }
        }
    }

    /// Adopts a helper that a program started out of the engine's sight. It becomes a process of
    /// its own from now on.
    fn adopt_child_of(&mut self, parent: usize) -> Result<usize, i32> {
        self.adopt(self.processes[parent].host(), self.processes[parent].program(), Some(parent))
    }

    fn adopt(&mut self, host: usize, program: usize, parent: Option<usize>) -> Result<usize, i32> {
        // A daemon must not break because there are too many processes.
        let ticket = self.expect_process(host, program, parent).map_err(|error| error.raw_os_error().unwrap_or(libc::ENOMEM))?;
        let process = self.processes.len() - 1;
        self.control.present(ticket);
        Ok(process)
    }

    /// Prepares a process for its new image: fresh shared memory, one thread, no verbs objects.
    /// Descriptors stay.
    fn replace_image(&mut self, process: usize) -> Result<(), i32> {
        let number = self.processes[process].number();
        let around = surroundings(&self.world, &self.scheduler, &self.host, &self.realtime, &self.control);
        let shared = self.processes.prepare_image(&around, process).map_err(|error| error.raw_os_error().unwrap_or(libc::ENOMEM))?;
        self.plane().withdraw_process(number);
        self.world.remove_process(self.scheduler.now(), number);
        self.cqs.remove_all_of(process);
        self.control.admission().forget_member(self.processes[process].secret());
        self.processes.replace_image(process, shared);
        Ok(())
    }
}
