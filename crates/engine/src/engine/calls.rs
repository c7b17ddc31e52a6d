//! Execution of the calls of threads. Programs send them: this code and the handlers check all
//! lengths and numbers.
//!
//! The table in [`softband_ipc::calls::table`] names the handler of each call. A handler is a method
//! of the rooms that it needs (`rooms_of!`), and takes the [`Caller`] and the request. It returns
//! the reply or an errno, or an [`Outcome`] if the thread may have to wait for the reply. Handlers
//! know nothing of bytes and of costs.

use crate::control::tickets::Grant;
use crate::engine::Engine;
use crate::process::record::virtual_pid;
use crate::protocol::{Caller, Outcome};
use crate::scheduler::agenda::Event;
use softband_ipc::calls::{Call, Cost, Exit, ForkReply, Message, Op, ProcessNumber, Ticket, op};
use softband_sim::SimDuration;
use std::sync::atomic::Ordering;

const PAGE_BYTES: u64 = 4096;

/// Lends the rooms that have the handler of a call. Verbs have the handlers that this list does not
/// name.
#[rustfmt::skip]
macro_rules! rooms_of {
    // Calls that begin or end processes concern all rooms.
    ($engine:ident fork_child) => { $engine };
    ($engine:ident fork_cancel) => { $engine };
    ($engine:ident exec) => { $engine };
    ($engine:ident exec_on) => { $engine };
    ($engine:ident process_exit) => { $engine };
    ($engine:ident away) => { $engine };
    ($engine:ident await_end) => { $engine };
    // Threads and their waits.
    ($engine:ident thread_new) => { $engine.host_calls() };
    ($engine:ident thread_exit) => { $engine.host_calls() };
    ($engine:ident find_process) => { $engine.host_calls() };
    ($engine:ident poll) => { $engine.host_calls() };
    ($engine:ident spin_wait) => { $engine.host_calls() };
    ($engine:ident sync) => { $engine.host_calls() };
    ($engine:ident sleep) => { $engine.host_calls() };
    ($engine:ident wait) => { $engine.host_calls() };
    ($engine:ident kernel_written) => { $engine.host_calls() };
    ($engine:ident interrupt) => { $engine.host_calls() };
    ($engine:ident pause) => { $engine.host_calls() };
    ($engine:ident map_shared) => { $engine.host_calls() };
    ($engine:ident unmap_shared) => { $engine.host_calls() };
    ($engine:ident wrote_memory) => { $engine.host_calls() };
    // Names, sockets, timers.
    ($engine:ident resolve) => { $engine.host_calls() };
    ($engine:ident reverse_resolve) => { $engine.host_calls() };
    ($engine:ident read_interface) => { $engine.host_calls() };
    ($engine:ident read_route) => { $engine.host_calls() };
    ($engine:ident change_setting) => { $engine.host_calls() };
    ($engine:ident socket_new) => { $engine.host_calls() };
    ($engine:ident socket_bind) => { $engine.host_calls() };
    ($engine:ident socket_listen) => { $engine.host_calls() };
    ($engine:ident socket_accept) => { $engine.host_calls() };
    ($engine:ident socket_connect) => { $engine.host_calls() };
    ($engine:ident socket_error) => { $engine.host_calls() };
    ($engine:ident socket_send) => { $engine.host_calls() };
    ($engine:ident socket_receive) => { $engine.host_calls() };
    ($engine:ident relay_socket) => { $engine.host_calls() };
    ($engine:ident socket_shutdown) => { $engine.host_calls() };
    ($engine:ident datagram_send) => { $engine.host_calls() };
    ($engine:ident datagram_receive) => { $engine.host_calls() };
    ($engine:ident socket_option) => { $engine.host_calls() };
    ($engine:ident socket_setting) => { $engine.host_calls() };
    ($engine:ident socket_linger) => { $engine.host_calls() };
    ($engine:ident read_socket) => { $engine.host_calls() };
    ($engine:ident socket_names) => { $engine.host_calls() };
    ($engine:ident disk_transfer) => { $engine.host_calls() };
    ($engine:ident object_close) => { $engine.host_calls() };
    ($engine:ident object_retain) => { $engine.host_calls() };
    ($engine:ident alarm) => { $engine.host_calls() };
    ($engine:ident timer_new) => { $engine.host_calls() };
    ($engine:ident timer_set) => { $engine.host_calls() };
    ($engine:ident timer_read) => { $engine.host_calls() };
    ($engine:ident $verb:ident) => { $engine.verbs() };
}

macro_rules! dispatch {
    ($($(#[$meta:meta])* $name:ident = $number:literal, $handler:ident($($request:ty)?) -> $reply:ty, $cost:expr, $paces:ident;)*) => {
        impl Engine {
            /// Passes a call to its handler.
            fn dispatch(&mut self, caller: Caller, op: Op) {
                match op {
                    $(Op::$name => self.serve::<op::$name, _>(caller, |engine, caller, request| rooms_of!(engine $handler).$handler(caller, request)),)*
                }
            }
        }
    };
}

softband_ipc::for_each_call!(dispatch);

impl Engine {
    /// Carries out the call of a thread. The present time is the thread's own time.
    pub(super) fn execute(&mut self, process: usize, slot: u32) {
        let record = &self.processes[process];
        let caller = Caller { process, slot, owner: record.number() };
        match Op::from_number(record.shared().slot(slot).op.load(Ordering::Relaxed)) {
            Some(op) => self.dispatch(caller, op),
            None => self.fail(caller, libc::ENOSYS),
        }
    }

    fn serve<C: Call, O: Into<Outcome<C::Reply>>>(&mut self, caller: Caller, handler: impl FnOnce(&mut Self, Caller, &C::Request) -> O) {
        if matches!(C::COST, Cost::ControlVerbFirst) && !self.has_paid(caller) {
            return;
        }
        let bytes = self.processes[caller.process].shared().request(caller.slot);
        let Some(request) = C::Request::from_bytes(&bytes) else { return self.fail(caller, libc::EPROTO) };
        let cost = self.cost(caller, C::COST, &request);
        match handler(self, caller, &request).into() {
            Outcome::Reply(reply) => self.answer(caller, 0, reply.parts(), cost),
            Outcome::Fail(errno) => self.fail(caller, errno),
            Outcome::Paid(Ok(reply), price) => self.answer(caller, 0, reply.parts(), cost + price),
            Outcome::Paid(Err(errno), price) => self.answer(caller, errno, [&[], &[]], price),
            Outcome::Later => {}
        }
    }

    /// Returns the time that a thread pays after its successful call.
    fn cost<Request>(&self, caller: Caller, cost: Cost<Request>, request: &Request) -> SimDuration {
        if self.scheduler.is_wall() {
            return SimDuration::ZERO; // the host's own time is the cost of a call
        }
        let part = &self.world.spec().hosts[self.processes[caller.process].host()].part;
        match cost {
            Cost::Free | Cost::ControlVerbFirst => SimDuration::ZERO,
            Cost::ControlVerb => part.control_verb,
            Cost::ControlVerbAndPages(pinned_bytes) => {
                part.control_verb + part.register_page * pinned_bytes(request).div_ceil(PAGE_BYTES).min(1 << 24)
            }
        }
    }

    /// Returns whether the thread has paid for its call before. If not, it pays now, and the engine
    /// executes the call again afterwards.
    fn has_paid(&mut self, caller: Caller) -> bool {
        let Caller { process, slot, .. } = caller;
        let record = &mut self.processes[process];
        if !record.thread_mut(slot).has_to_pay() {
            return true;
        }
        let cost = self.world.spec().hosts[record.host()].part.control_verb;
        self.scheduler.push(self.scheduler.now() + cost, process as u32, Event::Execute { process, slot });
        false
    }

    fn fail(&mut self, caller: Caller, errno: i32) {
        self.answer(caller, errno, [&[], &[]], SimDuration::ZERO);
    }

    fn answer(&mut self, caller: Caller, status: i32, parts: [&[u8]; 2], cost: SimDuration) {
        let Caller { process, slot, .. } = caller;
        self.processes[process].shared().reply(slot, status, &parts);
        self.scheduler.resume(process, slot, self.scheduler.now() + cost);
    }

    fn fork_child(&mut self, caller: Caller, (): &()) -> Result<ForkReply, i32> {
        let (ticket, child) = self.fork(caller.process)?;
        Ok(ForkReply { ticket, process: child.0, virtual_pid: virtual_pid(child) })
    }

    fn fork_cancel(&mut self, _caller: Caller, ticket: &Ticket) -> Result<(), i32> {
        self.cancel_fork(ticket.ticket);
        Ok(())
    }

    fn exec(&mut self, caller: Caller, (): &()) -> Result<ForkReply, i32> {
        let ticket = self.control.issue(Grant::Image(caller.process)).map_err(|_| libc::EAGAIN)?;
        Ok(ForkReply { ticket, process: caller.owner.0, virtual_pid: virtual_pid(caller.owner) })
    }

    fn process_exit(&mut self, caller: Caller, _exit: &Exit) -> Outcome<()> {
        self.process_exits(caller.process);
        Outcome::Later
    }

    fn away(&mut self, caller: Caller, (): &()) -> Outcome<()> {
        self.goes_away(caller.process, caller.slot);
        Outcome::Later
    }

    fn await_end(&mut self, caller: Caller, of: &ProcessNumber) -> Result<(), i32> {
        self.await_ends(caller.process, of.number);
        Ok(())
    }

    /// Takes the posts of a thread since its last turn, and schedules each at the time of its post.
    pub(super) fn take_posts(&mut self, process: usize, slot: u32) {
        let mut posted = self.processes.take_buffer();
        self.processes[process].shared().take_posted(slot, &mut posted);
        let makes_sense = self.verbs().carry_out_posts(process, &posted);
        self.processes.keep_buffer(posted);
        self.warn_of_nonsense(process, makes_sense);
    }

    /// Warns of a program that posts invalid records, unless its posts make sense.
    pub(super) fn warn_of_nonsense(&mut self, process: usize, makes_sense: bool) {
        if !makes_sense {
            self.warn(format!("{} posted invalid work; the engine dropped it", self.command_of(process)));
        }
    }
}
