//! Wall pace: the programs' clock is the host's. Programs post into rings and continue. The engine
//! runs the World as fast as it can, at most slightly ahead of the clock. It sleeps when it has no
//! work.

use crate::engine::{Engine, Event, Failure, Pace};
use crate::process::image::ProcessState;
use crate::rpc::calls::Caller;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use softband_ipc::calls::{EventSocket, Op, Paces};
use softband_ipc::layout::{BELL, ENGINE_SLEEPS, token, wake_word_of};
use softband_sim::{SimDuration, SimTime};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest lead of the World over the clock, in picoseconds. Latencies of the modelled hardware
/// cost no time, but its timers do.
const AHEAD_PICOS: u64 = 200_000_000;
/// Most events of the World between two checks for requests of programs.
const BATCH_EVENTS: usize = 512;
/// Longest sleep while programs may print through the engine. The engine must also notice Ctrl-C
/// soon.
const SLEEP_MAX: Duration = Duration::from_millis(5);
/// Longest sleep if no program prints through the engine, as in a persistent fabric.
const QUIET_SLEEP_MAX: Duration = Duration::from_millis(100);
/// Longest wait for an acknowledgement; half a second with all retries. A machine loses nothing
/// between its processes, so only a peer that is gone is silent. The waiting program should know
/// soon.
const ACK_WAIT_MAX: SimDuration = SimDuration::from_micros(67_000);
/// Polls for work before the engine sleeps.
const IDLE_POLLS: u32 = 200;

/// Socket that notifies one process of events. Unread bytes fill only the buffer of this socket.
#[derive(Debug)]
pub(crate) struct EventSender {
    socket: OwnedFd,
    name: SocketAddrUnix,
}

impl EventSender {
    fn new() -> rustix::io::Result<Self> {
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        // The kernel chooses a free name (unix(7), autobind), so no process can have taken it
        // before.
        rustix::net::bind(&socket, &SocketAddrUnix::new_unnamed())?;
        let name = SocketAddrUnix::try_from(rustix::net::getsockname(&socket)?)?;
        Ok(Self { socket, name })
    }
}

impl Engine {
    /// Serves programs until all have ended.
    pub(crate) fn wall_loop(&mut self) -> Option<Failure> {
        let mut idle = 0;
        self.world.limit_ack_wait(ACK_WAIT_MAX);
        loop {
            if self.interrupt.is_raised() {
                return Some(self.interruption());
            }
            if let Some(error) = self.memory.denied.take() {
                return Some(Failure::MemoryDenied { reason: error.to_string() });
            }
            if !self.memory.lost.is_empty() {
                self.tell_of_lost();
            }
            let has_worked = self.wall_round();
            self.end_liars();
            if self.statuses.iter().all(Option::is_some) {
                return None;
            }
            idle = if has_worked { 0 } else { idle + 1 };
            if idle > IDLE_POLLS {
                self.sleep_until_rung();
                idle = 0;
            } else if idle > 0 {
                std::thread::yield_now();
            }
        }
    }

    /// Does a round of the work that is due now. Returns whether any work was due.
    pub(crate) fn wall_round(&mut self) -> bool {
        self.set_wall_clock();
        let has_worked = self.serve_calls() | self.take_rings() | self.run_world();
        self.settle_events();
        self.give_back_queues();
        has_worked
    }

    fn elapsed(&self) -> SimTime {
        SimTime::from_picos(self.started_at.elapsed().as_nanos() as u64 * 1_000)
    }

    /// Returns the time up to which the World may run now.
    fn horizon(&self) -> SimTime {
        SimTime::from_picos(self.elapsed().as_picos() + AHEAD_PICOS)
    }

    pub(crate) fn set_wall_clock(&mut self) {
        // An action now follows all actions of the World, even if the World was slightly ahead.
        self.now = self.now.max(self.elapsed()).max(self.world.now());
    }

    fn serve_calls(&mut self) -> bool {
        if !self.mailbox.is_filled() && self.control_events.is_empty() {
            return false;
        }
        self.receive_control_events();
        self.greet_all();
        self.handle_control_events();
        true
    }

    /// Takes the posts of programs. A sender may post because its receiver has announced that it is
    /// ready. The engine must not carry out this send before the receiver's requests. They may have
    /// arrived in a ring that the engine had already read. The engine therefore reads all rings a
    /// second time. Sends that only the second pass finds wait for the next call.
    pub(crate) fn take_rings(&mut self) -> bool {
        let mut any = false;
        for process in self.attached() {
            any |= self.take_ring(process);
        }
        for process in self.attached() {
            any |= self.take_ring_but_sends(process);
        }
        any
    }

    fn attached(&self) -> Vec<usize> {
        self.processes.living().filter(|process| process.state == ProcessState::Attached).map(|process| process.number.0 as usize).collect()
    }

    pub(crate) fn take_ring(&mut self, process: usize) -> bool {
        let held = std::mem::take(&mut self.processes[process].held_sends);
        self.carry_out_posts(process, &held);
        self.read_ring(process, Self::carry_out_posts) || !held.is_empty()
    }

    fn take_ring_but_sends(&mut self, process: usize) -> bool {
        self.read_ring(process, Self::carry_out_posts_but_sends)
    }

    /// Passes the contents of a ring to `carry_out`. Returns false if the ring is empty.
    fn read_ring(&mut self, process: usize, carry_out: fn(&mut Self, usize, &[u8])) -> bool {
        let mut posted = std::mem::take(&mut self.posted);
        let taken = self.processes[process].shared.read_ring(&mut posted);
        carry_out(self, process, &posted);
        self.posted = posted;
        if let Some(up_to) = taken {
            // The engine publishes this last: a program waits for it to know that its posts were
            // carried out.
            self.processes[process].shared.header().ring_consumed.store(up_to, Ordering::Release);
        }
        taken.is_some()
    }

    /// Runs the World up to slightly beyond the clock.
    pub(crate) fn run_world(&mut self) -> bool {
        let horizon = self.horizon();
        let mut notices = Vec::new();
        let mut events = 0;
        while events < BATCH_EVENTS && self.world.next_event_time().is_some_and(|time| time <= horizon) {
            self.step_fabric(&mut notices);
            events += 1;
        }
        self.memory.flush_all();
        events > 0
    }

    /// Handles scheduled events immediately: no clock waits for them.
    fn settle_events(&mut self) {
        while let Some((time, event)) = self.queue.pop() {
            self.now = self.now.max(time);
            match event {
                Event::Resume { process, slot } if self.processes[process].state == ProcessState::Attached => self.return_call(process, slot),
                Event::Resume { .. } => {}
                Event::Execute { process, slot } if self.processes[process].state == ProcessState::Attached => self.execute(process, slot),
                Event::ObjectChanged { object } => {
                    self.tell_of_event(object);
                }
                other => self.handle(other),
            }
        }
        for (object, times) in std::mem::take(&mut self.untold) {
            for told in 0..times {
                if !self.tell_of_event(object) {
                    // The other events would fail too. A program that does not listen costs one
                    // attempt per round.
                    *self.untold.entry(object).or_default() += times - told - 1;
                    break;
                }
            }
        }
    }

    fn return_call(&mut self, process: usize, slot: u32) {
        let shared = self.processes[process].shared.slot(slot);
        // This time is later than everything so far. A program can thus tell events before its call
        // from events after it.
        self.now = SimTime::from_picos(self.now.as_picos() + 1);
        shared.clock_ps.store(self.now.as_picos(), Ordering::Relaxed);
        shared.token.store(token::PROGRAM, Ordering::SeqCst);
        if shared.program_asleep.swap(0, Ordering::SeqCst) != 0 {
            self.context_switch.wake(wake_word_of(process as u32, slot));
        }
    }

    /// Serves a call of a thread.
    pub(crate) fn wall_call(&mut self, connection: u64, slot: u32) {
        let Some(process) = self.processes.find(|process| process.connection == Some(connection)) else { return };
        self.serve_call(process, slot);
    }

    /// Carries out the call in a slot.
    pub(crate) fn serve_call(&mut self, process: usize, slot: u32) {
        let record = &self.processes[process];
        if slot as usize >= record.threads.len() || record.state != ProcessState::Attached {
            return;
        }
        // The program posted these records before its call.
        self.take_ring(process);
        self.set_wall_clock();
        let op = Op::from_number(self.processes[process].shared.slot(slot).op.load(Ordering::Relaxed));
        // A program that waits in simulated time, or moves it, would lead the engine's clock away from
        // the host's. That would affect the work of all programs.
        if op.is_some_and(|op| op.paces() == Paces::Virtual) {
            self.processes[process].shared.reply(slot, libc::ENOSYS, &[]);
            self.return_call(process, slot);
        } else {
            self.execute(process, slot);
        }
    }

    /// Sends a byte to the program's descriptor for one event of a channel. Returns false if the
    /// engine must send it later.
    fn tell_of_event(&mut self, object: u32) -> bool {
        if self.objects.get_mut(object).is_none() {
            return true;
        }
        let told = self.objects.event_socket(object).is_some_and(|(process, address)| {
            let sender = self.processes[process].event_sender.as_ref();
            sender.is_some_and(|sender| rustix::net::sendto(&sender.socket, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL, address).is_ok())
        });
        if !told {
            // The program has many unread bytes, or has not created its descriptor yet.
            *self.untold.entry(object).or_default() += 1;
        }
        told
    }

    /// Notes the socket by which a program gets the events of a channel that it holds.
    pub(crate) fn note_event_socket(&mut self, caller: Caller, socket: &EventSocket) -> Result<EventSocket, i32> {
        let failed = |error: rustix::io::Errno| error.raw_os_error();
        let name = socket.name.get(..socket.name_len as usize).ok_or(libc::EINVAL)?;
        let record = &mut self.processes[caller.process];
        if self.pace != Pace::Wall || !record.objects.contains_key(&socket.object) {
            return Err(libc::EBADF);
        }
        if !name.is_empty() {
            let address = SocketAddrUnix::new_abstract_name(name).map_err(failed)?;
            self.objects.set_event_socket(socket.object, (caller.process, address));
        }
        if record.event_sender.is_none() {
            record.event_sender = Some(EventSender::new().map_err(failed)?);
        }
        let sender = record.event_sender.as_ref().and_then(|sender| sender.name.abstract_name()).unwrap_or_default();
        let mut answer = EventSocket { object: 0, name_len: sender.len() as u32, name: [0; 8] };
        answer.name.get_mut(..sender.len()).ok_or(libc::ENAMETOOLONG)?.copy_from_slice(sender);
        Ok(answer)
    }

    /// Sleeps until a program posts or makes a call, or the World's next event is due.
    fn sleep_until_rung(&mut self) {
        self.outputs.drain();
        self.set_wall_clock();
        let due = self.world.next_event_time().map(|time| time.as_picos().saturating_sub(self.horizon().as_picos()));
        let longest = if self.outputs.is_open() { SLEEP_MAX } else { QUIET_SLEEP_MAX };
        let limit = due.map_or(longest, |picos| Duration::from_nanos(picos / 1_000)).min(longest);
        let bell = self.context_switch.word(BELL);
        let rung = bell.load(Ordering::SeqCst);
        self.context_switch.word(ENGINE_SLEEPS).store(1, Ordering::SeqCst);
        self.mailbox.wait_on(bell);
        let is_quiet = !self.mailbox.is_filled() && !self.processes.any(|process| process.shared.has_posts());
        if is_quiet && !limit.is_zero() {
            let limit = rustix::thread::futex::Timespec { tv_sec: 0, tv_nsec: limit.as_nanos() as _ };
            let _ = rustix::thread::futex::wait(bell, rustix::thread::futex::Flags::empty(), rung, Some(&limit));
        }
        self.mailbox.wait_on(std::ptr::null());
        self.context_switch.word(ENGINE_SLEEPS).store(0, Ordering::SeqCst);
    }
}
