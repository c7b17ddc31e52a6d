//! Attachment of process images. An image becomes the process that its ticket names, or a new child
//! of a process of the fabric.

use crate::control::admission::is_or_descends_from;
use crate::control::socket::{self, ControlEvent};
use crate::control::tickets::Grant;
use crate::engine::{Engine, Event, Pace};
use crate::process::image::{Process, ProcessState, Shared, ThreadState};
use crate::process::lifecycle::new_thread;
use crate::process::system_process::exists;
use softband_ipc::attach::{Hello, Welcome};
use std::sync::atomic::Ordering;

impl Engine {
    /// Answers every hello that came.
    pub(crate) fn greet_all(&mut self) {
        let mut rest = std::collections::VecDeque::new();
        let closed: Vec<u64> = self.control_events.iter().filter_map(ControlEvent::closed).collect();
        while let Some(event) = self.control_events.pop_front() {
            match event {
                ControlEvent::Hello { connection, socket, hello, pid } => self.greet(connection, &socket, (&hello, pid), &closed),
                other => rest.push_back(other),
            }
        }
        self.control_events = rest;
    }

    /// Answers the hello of process `pid`. The connections `closed` have ended, although the engine
    /// has not handled these events yet.
    fn greet(&mut self, connection: u64, socket: &rustix::fd::OwnedFd, (hello, pid): (&Hello, i32), closed: &[u64]) {
        let mut welcome = Welcome { version: softband_ipc::VERSION, status: 0, process: 0, slot: 0, secret: 0 };
        let process = match hello.version {
            softband_ipc::VERSION if self.has_attached(pid, closed) && !self.tickets.is_for_image(hello.ticket) => Err(libc::EBUSY),
            softband_ipc::VERSION => self.admit(hello.ticket, pid),
            _ => Err(libc::EPROTO),
        };
        let with_secret = process.and_then(|process| {
            let secret = self.tickets.issue(Grant::Offspring(process)).map_err(|_| libc::EAGAIN)?;
            Ok((process, secret))
        });
        match with_secret {
            Ok((process, secret)) => {
                welcome.secret = secret;
                self.processes[process].secret = secret;
                self.admission.note_pid(pid);
                self.admission.note_member(secret);
                let record = &mut self.processes[process];
                record.state = ProcessState::Attached;
                record.set_pid(pid);
                record.connection = Some(connection);
                record.threads[0].state = ThreadState::Scheduled;
                welcome.process = record.number.0;
                self.memory.set_pid(record.number, Some(pid));
                let clock = self.clock_of(process, 0);
                self.queue.push(clock, process as u32, Event::Resume { process, slot: 0 });
                let shared = &self.processes[process].shared;
                let memory_file = shared.memory_file().map(|file| &**file);
                let files = [shared.file(), self.context_switch.file(), self.direct.file()];
                socket::welcome(socket, &welcome, &files.into_iter().chain(memory_file).collect::<Vec<_>>());
                self.processes[process].shared.header().is_welcomed.store(1, Ordering::Release);
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
        let is_open = |connection: &u64| !closed.contains(connection);
        self.pace == Pace::Virtual && self.processes.any(|process| process.pid == pid && process.connection.as_ref().is_some_and(is_open))
    }

    /// Returns the process that an image with `ticket` becomes. `pid` comes from the kernel. Fails
    /// with an errno.
    fn admit(&mut self, ticket: u64, pid: i32) -> Result<usize, i32> {
        let (grant, was_used) = self.tickets.present(ticket).ok_or(libc::EACCES)?;
        match grant {
            Grant::Process(process) if !was_used && self.processes[process].is_awaited() => Ok(process),
            Grant::Image(process) if !was_used => self.replace_image(process).map(|()| process),
            Grant::Host { host, .. } if !was_used => self.adopt(host, host, None),
            Grant::Offspring(parent) => self.adopt_child_of(parent),
            Grant::Process(parent) | Grant::Image(parent) => {
                if was_used && !self.is_below_line(pid, parent) {
                    return Err(libc::EACCES);
                }
                self.adopt_child_of(parent)
            }
            Grant::Host { host, pid: holder } => {
                if is_or_descends_from(pid, holder) {
                    self.adopt(host, host, None)
                } else {
                    Err(libc::EACCES)
                }
            }
        }
    }

    /// Returns whether the process `pid` descends from `process` or from a process above it. The
    /// intended holder of a ticket may be statically linked. The first of its children has then
    /// attached in its place. Another child only descends from the process that the engine has
    /// started.
    fn is_below_line(&self, pid: i32, process: usize) -> bool {
        let mut line = std::iter::successors(Some(process), |process| self.processes[*process].parent);
        line.any(|process| {
            let Process { program, parent, pid: own, .. } = self.processes[process];
            let started = self.started.get(program).and_then(Option::as_ref).filter(|_| parent.is_none());
            is_or_descends_from(pid, own) || started.is_some_and(|started| is_or_descends_from(pid, started.pid))
        })
    }

    /// Drops tickets that admit nobody any more, if a sweep is due.
    pub(crate) fn drop_tickets(&mut self) {
        if !self.tickets.is_sweep_due() {
            return;
        }
        let mut tickets = std::mem::take(&mut self.tickets);
        tickets.sweep(|grant| match grant {
            Grant::Process(process) | Grant::Image(process) => self.has_line(process),
            Grant::Host { pid, .. } => exists(pid),
            Grant::Offspring(_) => true,
        });
        self.tickets = tickets;
    }

    /// Returns whether any process can descend from this process or from one above it
    /// ([`Engine::is_below_line`]).
    fn has_line(&self, process: usize) -> bool {
        let mut line = std::iter::successors(Some(process), |process| self.processes[*process].parent);
        line.any(|process| {
            let Process { program, parent, pid, .. } = self.processes[process];
            let started = self.started.get(program).and_then(Option::as_ref).filter(|_| parent.is_none());
            exists(pid) || started.is_some_and(|started| exists(started.pid))
        })
    }

    /// Adopts a helper that a program started out of the engine's sight. It becomes a process of
    /// its own from now on.
    fn adopt_child_of(&mut self, parent: usize) -> Result<usize, i32> {
        self.adopt(self.processes[parent].host, self.processes[parent].program, Some(parent))
    }

    fn adopt(&mut self, host: usize, program: usize, parent: Option<usize>) -> Result<usize, i32> {
        // A daemon must not break because there are too many processes.
        let ticket = self.expect_process(host, program, parent).map_err(|error| error.raw_os_error().unwrap_or(libc::ENOMEM))?;
        let process = self.processes.len() - 1;
        self.tickets.present(ticket);
        Ok(process)
    }

    /// Prepares a process for its new image: fresh shared memory, one thread, no verbs objects.
    /// Descriptors stay.
    fn replace_image(&mut self, process: usize) -> Result<(), i32> {
        let number = self.processes[process].number;
        let mut shared = Shared::new().map_err(|error| error.raw_os_error().unwrap_or(libc::ENOMEM))?;
        let clock = self.processes[process].threads.iter().enumerate().map(|(slot, _)| self.processes[process].clock(slot as u32)).max();
        self.withdraw_process(number);
        self.world.remove_process(self.now, number);
        self.cqs.retain(|_, cq| cq.process != process);
        self.admission.forget_member(self.processes[process].secret);
        self.write_header(number, self.processes[process].host, &mut shared);
        shared.slot(0).clock_ps.store(clock.unwrap_or(self.now).as_picos(), Ordering::Relaxed);
        let record = &mut self.processes[process];
        self.retired.push(std::mem::replace(&mut record.shared, shared));
        record.threads = vec![new_thread(ThreadState::Expected)];
        record.remotely_writable = 0;
        Ok(())
    }
}
