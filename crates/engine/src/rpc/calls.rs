//! Execution of the calls of threads. Programs send them: this code and the handlers check all
//! lengths and numbers.
//!
//! The table in [`softband_ipc::calls::table`] names the handler of each call. A handler is a method
//! of the engine that takes the [`Caller`] and the request. It returns the reply or an errno, or an
//! [`Outcome`] if the thread may have to wait for the reply. Handlers know nothing of bytes and of
//! costs.

use crate::engine::{Engine, Event, Pace};
use bytemuck::Pod;
use softband_ipc::calls::{Call, Cost, Message, Op, op};
use softband_sim::{SimDuration, SimTime};
use softband_types::ProcessId;
use std::sync::atomic::Ordering;

const PAGE_BYTES: u64 = 4096;

/// End of simulated time for programs, after 106 days. Deadlines after it never come.
pub(crate) const END: SimTime = SimTime::from_picos(1 << 63);

/// The thread that makes a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) process: usize,
    pub(crate) slot: u32,
    /// Owner of the objects of the process.
    pub(crate) owner: ProcessId,
}

/// Result of a call.
pub(crate) enum Outcome<Reply> {
    Reply(Reply),
    Fail(i32),
    /// The engine parked the thread and replies later, or the thread is gone.
    Later,
}

impl<Reply> From<Result<Reply, i32>> for Outcome<Reply> {
    fn from(result: Result<Reply, i32>) -> Self {
        result.map_or_else(Self::Fail, Self::Reply)
    }
}

/// Converts a time from a program in picoseconds. Returns `None` for a time that never comes.
pub(crate) fn program_time(picos: u64) -> Option<SimTime> {
    Some(SimTime::from_picos(picos)).filter(|time| *time <= END)
}

/// Reads plain data of type `T` from the front of `bytes`. Fails with `EPROTO` if they are too few.
pub(crate) fn request<T: Pod>(bytes: &[u8]) -> Result<T, i32> {
    T::from_bytes(bytes).ok_or(libc::EPROTO)
}

macro_rules! dispatch {
    ($($(#[$meta:meta])* $name:ident = $number:literal, $handler:ident($($request:ty)?) -> $reply:ty, $cost:expr, $paces:ident;)*) => {
        impl Engine {
            /// Passes a call to its handler.
            fn dispatch(&mut self, caller: Caller, op: Op) {
                match op {
                    $(Op::$name => self.serve::<op::$name, _>(caller, |engine, caller, request| engine.$handler(caller, request)),)*
                }
            }
        }
    };
}

softband_ipc::for_each_call!(dispatch);

impl Engine {
    /// Carries out the call of a thread. `now` is the thread's own time.
    pub(crate) fn execute(&mut self, process: usize, slot: u32) {
        let record = &self.processes[process];
        let caller = Caller { process, slot, owner: record.number };
        match Op::from_number(record.shared.slot(slot).op.load(Ordering::Relaxed)) {
            Some(op) => self.dispatch(caller, op),
            None => self.fail(caller, libc::ENOSYS),
        }
    }

    fn serve<C: Call, O: Into<Outcome<C::Reply>>>(&mut self, caller: Caller, handler: impl FnOnce(&mut Self, Caller, &C::Request) -> O) {
        if matches!(C::COST, Cost::ControlVerbFirst) && !self.has_paid(caller) {
            return;
        }
        let bytes = self.processes[caller.process].shared.request(caller.slot);
        let Some(request) = C::Request::from_bytes(&bytes) else { return self.fail(caller, libc::EPROTO) };
        let cost = self.cost(caller, C::COST, &request);
        match handler(self, caller, &request).into() {
            Outcome::Reply(reply) => self.answer(caller, 0, reply.parts(), cost),
            Outcome::Fail(errno) => self.fail(caller, errno),
            Outcome::Later => {}
        }
    }

    /// Returns the time that a thread pays after its successful call.
    fn cost<Request>(&self, caller: Caller, cost: Cost<Request>, request: &Request) -> SimDuration {
        if self.pace == Pace::Wall {
            return SimDuration::ZERO; // the host's own time is the cost of a call
        }
        let part = &self.world.spec().hosts[self.processes[caller.process].host].part;
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
        let record = &mut self.processes[caller.process];
        let paid = &mut record.threads[caller.slot as usize].paid;
        *paid = !*paid;
        if *paid {
            let cost = self.world.spec().hosts[record.host].part.control_verb;
            self.queue.push(self.now + cost, caller.process as u32, Event::Execute { process: caller.process, slot: caller.slot });
            return false;
        }
        true
    }

    fn fail(&mut self, caller: Caller, errno: i32) {
        self.answer(caller, errno, [&[], &[]], SimDuration::ZERO);
    }

    fn answer(&mut self, caller: Caller, status: i32, parts: [&[u8]; 2], cost: SimDuration) {
        let Caller { process, slot, .. } = caller;
        self.processes[process].shared.reply(slot, status, &parts);
        self.queue.push(self.now + cost, process as u32, Event::Resume { process, slot });
    }
}
