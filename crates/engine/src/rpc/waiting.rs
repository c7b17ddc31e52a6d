//! Calls in which a thread waits: for news, for a time, or for objects.

use crate::engine::Engine;
use crate::process::image::{ThreadState, Waiting};
use crate::rpc::calls::{Caller, Outcome, program_time};
use softband_ipc::calls::{self, Handle, Message, SpinTarget, WaitEntry, WaitReply, WaitRequest, WithTail};

impl Engine {
    pub(crate) fn poll(&mut self, caller: Caller, _cq: &Handle) -> Outcome<()> {
        self.wait_for_news(caller, Waiting::Poll)
    }

    pub(crate) fn spin_wait(&mut self, caller: Caller, _target: &WithTail<(), SpinTarget>) -> Outcome<()> {
        self.wait_for_news(caller, Waiting::Spin)
    }

    /// Handles an empty poll: the thread polls again if it missed news, else it waits for news.
    fn wait_for_news(&mut self, caller: Caller, waiting: Waiting) -> Outcome<()> {
        let record = &self.processes[caller.process];
        let thread = &record.threads[caller.slot as usize];
        let news = if waiting == Waiting::Poll { thread.news_seen != record.news } else { thread.memory_seen != record.memory_written };
        if news {
            return Outcome::Reply(());
        }
        self.park_for_news(caller.process, caller.slot, waiting);
        Outcome::Later
    }

    /// Answers at once: the engine has carried out all events up to the thread's clock.
    pub(crate) fn sync(&mut self, _caller: Caller, (): &()) -> Result<(), i32> {
        Ok(())
    }

    pub(crate) fn away(&mut self, caller: Caller, (): &()) -> Outcome<()> {
        self.goes_away(caller.process, caller.slot);
        Outcome::Later
    }

    pub(crate) fn sleep(&mut self, caller: Caller, sleep: &calls::Sleep) -> Outcome<WaitReply> {
        let waiting = if calls::polls_of(sleep.polls).0 { Waiting::OsPoll } else { Waiting::Sleep };
        self.park(caller.process, caller.slot, waiting, program_time(sleep.until_ps));
        Outcome::Later
    }

    pub(crate) fn wait(&mut self, caller: Caller, request: &WithTail<WaitRequest, WaitEntry>) -> Outcome<WithTail<WaitReply, WaitEntry>> {
        let Some(entries) = request.tail.get(..request.head.count as usize) else { return Outcome::Fail(libc::EPROTO) };
        let wanted: Vec<(u32, u32)> = entries.iter().map(|entry| (entry.object, entry.interest)).collect();
        let ready = wanted.iter().any(|(object, interest)| self.is_ready(*object, *interest));
        if ready || request.head.deadline_ps <= self.now.as_picos() {
            return Outcome::Reply(self.wait_reply(&wanted, false));
        }
        self.park(caller.process, caller.slot, Waiting::Objects(wanted), program_time(request.head.deadline_ps));
        Outcome::Later
    }

    fn wait_reply(&mut self, wanted: &[(u32, u32)], interrupted: bool) -> WithTail<WaitReply, WaitEntry> {
        use calls::readiness::{ERROR, HANG_UP};
        let entry = |(object, interest): &(u32, u32)| {
            let ready = self.readiness(*object) & (interest | ERROR | HANG_UP);
            WaitEntry { object: *object, interest: *interest, ready, reserved: 0 }
        };
        let tail: Vec<WaitEntry> = wanted.iter().map(entry).collect();
        let ready_count = tail.iter().filter(|entry| entry.ready != 0).count() as u32;
        WithTail { head: WaitReply { ready_count, interrupted: u32::from(interrupted) }, tail }
    }

    /// Ends the wait of a thread: an object is ready, its time is over, or a signal came.
    pub(crate) fn finish_wait(&mut self, process: usize, slot: u32, interrupted: bool) {
        let wanted = match &self.processes[process].threads[slot as usize].state {
            ThreadState::Waiting(Waiting::Objects(wanted)) => wanted.clone(),
            _ => Vec::new(),
        };
        let reply = self.wait_reply(&wanted, interrupted);
        self.processes[process].shared.reply(slot, 0, &reply.parts());
        self.wake(process, slot);
    }

    pub(crate) fn wait_over(&mut self, process: usize, slot: u32) {
        match self.processes[process].threads[slot as usize].state {
            ThreadState::Waiting(Waiting::Poll | Waiting::Spin) => self.wake(process, slot),
            ThreadState::Waiting(_) => self.finish_wait(process, slot, false),
            _ => {}
        }
    }
}
