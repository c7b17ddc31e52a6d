//! Threads that compute ahead: they have announced that they make no call before a time, and run
//! beside the engine until then.
//!
//! Their order is that of one thread at a time. A thread computes on the state at its announcement,
//! and nobody sees its memory before it has come to its next call. So the engine waits for the
//! thread before it reads or writes memory of the process, and before another thread of the host
//! runs. Processes of other hosts share no memory with it (`shim/ahead/shares`).

use crate::options::Interrupt;
use crate::process::image::{Mapped, Shared};
use crate::process::system_process::is_zombie;
use rustix::fd::AsFd;
use rustix::thread::futex;
use softband_ipc::layout::{SLOTS_OFFSET, ThreadSlot, token};
use softband_sim::SimTime;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time between two looks whether a thread has ended without a call.
const LOOK: Duration = Duration::from_millis(10);

/// Identity of a thread that computes ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Runner {
    pub(crate) process: usize,
    pub(crate) slot: u32,
    pub(crate) host: usize,
    pub(crate) pid: i32,
}

struct Running {
    runner: Runner,
    /// The engine's own mapping of the thread's slot. The process cannot take it away.
    page: Mapped,
    /// Clock at the begin of a turn that counts as work.
    work_begun: Option<SimTime>,
    /// Set if the connection of the process has closed.
    closed: Option<u64>,
}

/// State of a thread that has computed ahead.
pub(crate) struct Caught {
    pub(crate) work_begun: Option<SimTime>,
    /// The connection of the process, if it has closed in the meantime.
    pub(crate) closed: Option<u64>,
    /// Set if the thread has come to a call.
    pub(crate) has_called: bool,
}

/// All threads that compute ahead.
#[derive(Default)]
pub(crate) struct Ahead {
    threads: Vec<Running>,
    interrupt: Interrupt,
}

impl Running {
    fn slot(&self) -> &ThreadSlot {
        // SAFETY: the mapping begins with the slot, and is as large as its first page. Only atomics
        // in that page are used.
        unsafe { &*self.page.base().cast::<ThreadSlot>() }
    }

    fn computes(&self) -> bool {
        self.slot().token.load(Ordering::SeqCst) == token::AHEAD
    }

    /// Waits until the thread has come to its next call, or ends.
    fn settle(&self, interrupt: &Interrupt) {
        let limit = rustix::time::Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
        while self.computes() && !interrupt.is_raised() && !is_zombie(self.runner.pid) {
            let slot = self.slot();
            slot.engine_asleep.store(1, Ordering::SeqCst);
            if self.computes() {
                let _ = futex::wait(&slot.token, futex::Flags::empty(), token::AHEAD, Some(&limit));
            }
            slot.engine_asleep.store(0, Ordering::SeqCst);
        }
    }
}

impl Ahead {
    /// Sets the flag that ends all waits.
    pub(crate) fn set_interrupt(&mut self, interrupt: Interrupt) {
        self.interrupt = interrupt;
    }

    /// Lets a thread compute ahead from now on. Returns false if the system refuses a mapping.
    pub(crate) fn begin(&mut self, runner: Runner, shared: &Shared, work_begun: Option<SimTime>) -> bool {
        let offset = SLOTS_OFFSET as u64 + u64::from(runner.slot) * size_of::<ThreadSlot>() as u64;
        let Some(page) = Mapped::new(shared.file().as_fd(), offset, rustix::param::page_size()) else { return false };
        self.threads.push(Running { runner, page, work_begun, closed: None });
        true
    }

    /// Ends the way ahead of a thread, whose announced time has come.
    pub(crate) fn end(&mut self, process: usize, slot: u32) -> Option<Caught> {
        let index = self.threads.iter().position(|running| running.runner.process == process && running.runner.slot == slot)?;
        let running = self.threads.remove(index);
        let has_called = !running.computes();
        Some(Caught { work_begun: running.work_begun, closed: running.closed, has_called })
    }

    /// Forgets the threads of an ended process.
    pub(crate) fn forget(&mut self, process: usize) {
        self.threads.retain(|running| running.runner.process != process);
    }

    /// Keeps the end of a connection for later, if a thread of its process computes ahead.
    pub(crate) fn keep_closed(&mut self, process: usize, connection: u64) -> bool {
        let running = self.threads.iter_mut().find(|running| running.runner.process == process);
        running.is_some_and(|running| running.closed.replace(connection).is_none())
    }

    /// Waits until no thread of `process` computes.
    pub(crate) fn settle_process(&self, process: usize) {
        self.settle(|runner| runner.process == process);
    }

    /// Waits until no thread of `host` computes.
    pub(crate) fn settle_host(&self, host: usize) {
        self.settle(|runner| runner.host == host);
    }

    fn settle(&self, is_meant: impl Fn(&Runner) -> bool) {
        self.threads.iter().filter(|running| is_meant(&running.runner)).for_each(|running| running.settle(&self.interrupt));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn runner(process: usize, host: usize) -> Runner {
        Runner { process, slot: 0, host, pid: std::process::id() as i32 }
    }

    fn computing() -> Shared {
        let shared = Shared::new().unwrap();
        shared.slot(0).token.store(token::AHEAD, Ordering::SeqCst);
        shared
    }

    #[test]
    fn the_engine_waits_for_threads_of_the_process_and_of_the_host_only() {
        let (mut ahead, shared) = (Ahead::default(), computing());
        assert!(ahead.begin(runner(3, 1), &shared, None));
        ahead.settle_process(2);
        ahead.settle_host(0);
        let slot = shared.slot(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while slot.engine_asleep.load(Ordering::SeqCst) == 0 {
                    std::thread::yield_now();
                }
                slot.token.store(token::ENGINE, Ordering::SeqCst);
            });
            ahead.settle_process(3);
        });
        assert_eq!(slot.token.load(Ordering::SeqCst), token::ENGINE);
        ahead.settle_host(1);
        assert!(ahead.end(3, 0).is_some_and(|caught| caught.has_called));
        assert!(ahead.end(3, 0).is_none());
    }

    #[test]
    fn an_interrupt_ends_the_wait_for_a_thread_that_never_calls() {
        let (mut ahead, shared, interrupt) = (Ahead::default(), computing(), Interrupt::default());
        ahead.set_interrupt(interrupt.clone());
        assert!(ahead.begin(runner(0, 0), &shared, None));
        let (begun, slot) = (Instant::now(), shared.slot(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while slot.engine_asleep.load(Ordering::SeqCst) == 0 {
                    std::thread::yield_now();
                }
                interrupt.raise();
            });
            ahead.settle_process(0);
        });
        assert!(begun.elapsed() < Duration::from_secs(10) && ahead.end(0, 0).is_some_and(|caught| !caught.has_called));
    }

    #[test]
    fn a_closed_connection_is_kept_until_the_announced_time() {
        let (mut ahead, shared) = (Ahead::default(), computing());
        assert!(!ahead.keep_closed(0, 7));
        assert!(ahead.begin(runner(0, 0), &shared, None) && ahead.keep_closed(0, 7));
        assert_eq!(ahead.end(0, 0).and_then(|caught| caught.closed), Some(7));
        assert!(ahead.begin(runner(0, 0), &shared, None));
        ahead.forget(0);
        assert!(ahead.end(0, 0).is_none());
    }
}
