//! Wall pace: the programs' clock is the host's. Programs post into rings and continue. The engine
//! runs the World as fast as it can, at most slightly ahead of the clock. It sleeps when it has no
//! work.

use crate::engine::Engine;
use crate::host::kernel::Kernels;
use crate::options::Failure;
use crate::process::record::Process;
use crate::rpc::room::Verbs;
use crate::scheduler::agenda::Event;
use softband_fabric::notice::Notice;
use softband_ipc::calls::{Op, Paces};
use softband_ipc::layout::{BELL, ENGINE_SLEEPS, token};
use softband_sim::{SimDuration, SimTime};
use softband_types::{HcaId, Qpn};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

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
/// Longest sleep while a socket is full. A program reads without a call, and does not ring.
const FULL_SLEEP_MAX: Duration = Duration::from_millis(1);
/// Longest wait for an acknowledgement; half a second with all retries. A machine loses nothing
/// between its processes, so only a peer that is gone is silent. The waiting program should know
/// soon.
const ACK_WAIT_MAX: SimDuration = SimDuration::from_micros(67_000);
/// Polls for work before the engine sleeps.
const IDLE_POLLS: u32 = 200;
/// Longest yield while a processor is free. A longer one has let others run.
const SHORT_YIELD: Duration = Duration::from_micros(50);
/// Sleeps without polls before them, after a longer yield. A thread that sleeps comes before busy
/// others when it wakes, and one that yields comes after them.
const SLEEPS_WHEN_CROWDED: u32 = 64;

impl Engine {
    /// Serves programs until all have ended.
    pub(super) fn wall_loop(&mut self) -> Option<Failure> {
        let (mut idle, mut crowded) = (0, 0u32);
        self.world.limit_ack_wait(ACK_WAIT_MAX);
        loop {
            if let Some(failure) = self.outside_failure() {
                return Some(failure);
            }
            let has_worked = self.wall_round();
            self.end_corrupted_processes();
            if self.programs.are_over() {
                return None;
            }
            idle = if has_worked { 0 } else { idle + 1 };
            if idle > IDLE_POLLS || idle > 0 && crowded > 0 {
                self.sleep_until_rung();
                (idle, crowded) = (0, crowded.saturating_sub(1));
            } else if idle > 0 {
                let before = Instant::now();
                std::thread::yield_now();
                if before.elapsed() > SHORT_YIELD {
                    crowded = SLEEPS_WHEN_CROWDED;
                }
            }
        }
    }

    /// Does a round of the work that is due now. Returns whether any work was due.
    pub(super) fn wall_round(&mut self) -> bool {
        let has_relayed = self.host.has_relay() && self.relay_round();
        self.scheduler.set_wall_clock(self.world.now());
        let has_worked = self.serve_calls() | self.take_rings() | self.run_world() | self.expire_mads() | self.expire_connections();
        self.settle_events();
        self.give_back_queues();
        has_worked | has_relayed
    }

    /// Runs the model up to the clock, then moves what relayed sockets have. The model gets its own
    /// times before the calls of programs move the time to the clock's.
    fn relay_round(&mut self) -> bool {
        let has_run = self.run_world();
        if self.next_model_time().is_some_and(|at| at <= self.horizon()) {
            return true; // the relay acts at the clock's time, which the model has not reached
        }
        self.scheduler.set_wall_clock(self.world.now());
        self.host_calls().relay_moves() | has_run
    }

    /// Returns the time of the next event of the World or of a kernel.
    fn next_model_time(&self) -> Option<SimTime> {
        let kernels = self.kernels.as_ref().and_then(Kernels::next_time);
        self.world.next_event_time().into_iter().chain(kernels).min()
    }

    /// Executes the next event of the World or of a kernel up to `horizon`. Returns whether there was
    /// one.
    fn step_model(&mut self, horizon: SimTime, notices: &mut Vec<Notice>) -> bool {
        let Some(next) = self.next_model_time().filter(|at| *at <= horizon) else { return false };
        if self.world.next_event_time() == Some(next) {
            self.step_fabric(notices);
        } else {
            self.scheduler.advance_to(next);
            self.host_calls().kernels_due();
        }
        true
    }

    /// Returns the time up to which the World may run now.
    fn horizon(&self) -> SimTime {
        // Relayed bytes must not be earlier than in the model.
        let ahead = if self.host.has_relay() { 0 } else { AHEAD_PICOS };
        SimTime::from_picos(self.scheduler.wall_time().as_picos() + ahead)
    }

    /// Serves the calls of programs, and handles what the control socket brings.
    fn serve_calls(&mut self) -> bool {
        let has_events = self.control.has_events();
        if has_events {
            self.control.receive();
            self.greet_all();
        }
        let mut any = has_events;
        // Before the events: the last call of a process comes before its end.
        for process in self.attached() {
            let is_calling = self.processes[process].shared().takes_call();
            if is_calling {
                self.serve_call(process, 0);
            }
            any |= is_calling;
        }
        if has_events {
            self.handle_control_events();
        }
        any
    }

    /// Takes the posts of programs. A sender may post because its receiver has announced that it is
    /// ready. The engine must not carry out this send before the receiver's requests. They may have
    /// arrived in a ring that the engine had already read. The engine therefore reads all rings a
    /// second time. Sends that only the second pass finds wait for the next call.
    fn take_rings(&mut self) -> bool {
        let mut any = false;
        for process in self.attached() {
            any |= self.take_ring(process);
        }
        for process in self.attached() {
            any |= self.read_ring(process, |mut verbs, process, posted| verbs.carry_out_posts_but_sends(process, posted));
        }
        any
    }

    fn attached(&self) -> Vec<usize> {
        self.processes.living().filter(|process| process.is_attached()).map(Process::index).collect()
    }

    fn take_ring(&mut self, process: usize) -> bool {
        let held = self.processes[process].take_held_sends();
        let makes_sense = self.verbs().carry_out_posts(process, &held);
        self.warn_of_nonsense(process, makes_sense);
        self.read_ring(process, |mut verbs, process, posted| verbs.carry_out_posts(process, posted)) || !held.is_empty()
    }

    /// Passes the contents of a ring to `carry_out`. Returns false if the ring is empty.
    fn read_ring(&mut self, process: usize, carry_out: fn(Verbs<'_>, usize, &[u8]) -> bool) -> bool {
        let mut posted = self.processes.take_buffer();
        let taken = self.processes[process].shared().read_ring(&mut posted);
        let makes_sense = carry_out(self.verbs(), process, &posted);
        self.warn_of_nonsense(process, makes_sense);
        self.processes.keep_buffer(posted);
        if let Some(up_to) = taken {
            // The engine publishes this last: a program waits for it to know that its posts were
            // carried out.
            self.processes[process].shared().header().ring_consumed.store(up_to, Ordering::Release);
        }
        taken.is_some()
    }

    /// Runs the World up to slightly beyond the clock.
    fn run_world(&mut self) -> bool {
        let horizon = self.horizon();
        let mut notices = Vec::new();
        let mut events = 0;
        while events < BATCH_EVENTS && self.step_model(horizon, &mut notices) {
            events += 1;
        }
        if events < BATCH_EVENTS {
            self.host.mads_mut().note_posts_carried_out();
        }
        self.memory.flush_all();
        events > 0
    }

    /// Handles the deadlines of MADs up to the clock.
    fn expire_mads(&mut self) -> bool {
        let is_due = self.host.mads().next_deadline().is_some_and(|at| at <= self.scheduler.wall_time());
        if is_due {
            self.scheduler.set_wall_clock(self.world.now());
            self.verbs().mads_expire();
        }
        is_due
    }

    /// Handles the deadlines of the connection manager up to the clock.
    fn expire_connections(&mut self) -> bool {
        let is_due = self.host.cm().next_deadline().is_some_and(|at| at <= self.scheduler.wall_time());
        if is_due {
            self.verbs().cm_expires();
        }
        is_due
    }

    /// Gives the queues for which the engine has no work left back to the programs. Earlier posts
    /// of their owners come first, and posts of others come before the World continues.
    fn give_back_queues(&mut self) {
        for name in self.plane().queues_to_return() {
            if let Some(open) = self.plane().begin_return_of_many(name) {
                self.take_rings();
                self.run_world();
                self.plane().end_return_of_many(name, &open);
            }
        }
        for sender in self.plane().busy_senders() {
            let Some(peer) = self.plane().finish_work_of(sender) else { continue };
            if peer.is_none_or(|peer| self.give_back_receive_queue(peer)) {
                self.plane().release_sender(sender);
            }
        }
    }

    /// Gives the queue of a queue pair back to the programs. Returns false if this is not possible
    /// now.
    fn give_back_receive_queue(&mut self, receiver: (HcaId, Qpn)) -> bool {
        let Some(open) = self.plane().begin_return(receiver) else { return true };
        self.take_rings();
        self.run_world();
        self.plane().end_return(receiver, &open)
    }

    /// Handles scheduled events immediately: no clock waits for them.
    fn settle_events(&mut self) {
        while let Some((time, event)) = self.scheduler.pop() {
            self.scheduler.advance_to(time);
            match event {
                Event::Resume { process, slot } if self.processes[process].is_attached() => self.return_call(process, slot),
                Event::Resume { .. } => {}
                Event::Execute { process, slot } if self.processes[process].is_attached() => self.execute(process, slot),
                Event::ObjectChanged { object, .. } => {
                    self.plane().tell_of_event(object);
                }
                other => self.handle(other),
            }
        }
        self.plane().retry_undelivered();
    }

    fn return_call(&mut self, process: usize, slot: u32) {
        let shared = self.processes[process].shared().slot(slot);
        // This time is later than everything so far. A program can thus tell events before its call
        // from events after it.
        let now = self.scheduler.advance_by_one();
        shared.clock_ps.store(now.as_picos(), Ordering::Relaxed);
        shared.token.store(token::PROGRAM, Ordering::SeqCst);
        if shared.program_asleep.swap(0, Ordering::SeqCst) != 0 {
            self.scheduler.wake_up(process, slot);
        }
    }

    /// Carries out the call in a slot.
    pub(super) fn serve_call(&mut self, process: usize, slot: u32) {
        let record = &self.processes[process];
        if slot >= record.slots().end || !record.is_attached() {
            return;
        }
        // The program posted these records before its call.
        self.take_ring(process);
        self.scheduler.set_wall_clock(self.world.now());
        let op = Op::from_number(self.processes[process].shared().slot(slot).op.load(Ordering::Relaxed));
        // A program that waits in simulated time, or moves it, would lead the engine's clock away from
        // the host's. That would affect the work of all programs.
        if op.is_some_and(|op| op.paces() == Paces::Virtual) {
            self.processes[process].shared().reply(slot, libc::ENOSYS, &[]);
            self.return_call(process, slot);
        } else {
            self.execute(process, slot);
        }
    }

    /// Ends programs with impossible announcements. They overwrite memory that they share with the
    /// engine.
    fn end_corrupted_processes(&mut self) {
        while let Some(process) = self.processes.find(Process::is_newly_corrupted) {
            let (pid, whose) = (crate::procfs::number_for_users(self.processes[process].pid()), self.command_of(process));
            self.warn(format!(
                "{whose} (process {pid}) was ended: it has written over memory that it shares with the engine, and its own is hardly \
                 in better order; look for stray writes in it"
            ));
            self.processes[process].send_signal(libc::SIGKILL);
        }
    }

    /// Returns the longest sleep that no program and no event of the World ends.
    fn longest_sleep(&mut self) -> Duration {
        // The return of queues may carry out posts, whose events the next round handles.
        if self.scheduler.next_time().is_some() {
            return Duration::ZERO;
        }
        if self.plane().awaits_readers() {
            return FULL_SLEEP_MAX;
        }
        if self.programs.has_open_outputs() { SLEEP_MAX } else { QUIET_SLEEP_MAX }
    }

    /// Sleeps until a program posts or makes a call, or the World's next event is due.
    fn sleep_until_rung(&mut self) {
        self.programs.drain_outputs();
        self.scheduler.set_wall_clock(self.world.now());
        // Before the relay: each ring from now on ends the sleep.
        let bell = self.scheduler.word(BELL);
        let rung = bell.load(Ordering::SeqCst);
        let due = self.world.next_event_time().map(|time| time.as_picos().saturating_sub(self.horizon().as_picos()));
        let now = self.scheduler.now();
        let deadlines = self.host.mads().next_deadline().into_iter().chain(self.host.cm().next_deadline());
        let relay = self.host_calls().next_relay_time(now);
        let timers = deadlines.chain(relay).map(|time| time.saturating_since(self.scheduler.wall_time()).as_picos());
        let due = due.into_iter().chain(timers).min();
        let longest = self.longest_sleep();
        let limit = due.map_or(longest, |picos| Duration::from_nanos(picos / 1_000)).min(longest);
        self.scheduler.word(ENGINE_SLEEPS).store(1, Ordering::SeqCst);
        self.control.wait_on(bell);
        let is_quiet = !self.control.is_filled() && !self.processes.any(|process| process.shared().has_posts() || process.shared().has_call());
        if is_quiet && !limit.is_zero() {
            let limit = rustix::thread::futex::Timespec { tv_sec: 0, tv_nsec: limit.as_nanos() as _ };
            let _ = rustix::thread::futex::wait(bell, rustix::thread::futex::Flags::empty(), rung, Some(&limit));
        }
        self.control.wait_on(std::ptr::null());
        self.scheduler.word(ENGINE_SLEEPS).store(0, Ordering::SeqCst);
    }
}
