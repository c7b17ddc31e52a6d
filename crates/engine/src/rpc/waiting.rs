//! Calls in which a thread waits: for news, for a time, or for objects.

use crate::process::thread::Waiting;
use crate::protocol::{Caller, Outcome, program_time};
use crate::rpc::host_calls::HostCalls;
use softband_ipc::calls::{self, Handle, SpinTarget, WaitEntry, WaitReply, WaitRequest, WithTail};

impl HostCalls<'_> {
    pub(crate) fn poll(&mut self, caller: Caller, _cq: &Handle) -> Outcome<()> {
        self.wait_for_news(caller, Waiting::Poll)
    }

    pub(crate) fn spin_wait(&mut self, caller: Caller, _target: &WithTail<(), SpinTarget>) -> Outcome<()> {
        self.wait_for_news(caller, Waiting::Spin)
    }

    /// Handles an empty poll: the thread looks on if it missed news or may find news elsewhere, else
    /// it waits for news.
    fn wait_for_news(&mut self, caller: Caller, waiting: Waiting) -> Outcome<()> {
        let record = &mut self.processes[caller.process];
        let looks_on = match waiting {
            Waiting::Poll => record.looks_on(caller.slot),
            _ => {
                record.thread_mut(caller.slot).note_spin();
                false
            }
        };
        if looks_on || record.has_missed(caller.slot, &waiting) {
            return Outcome::Reply(());
        }
        self.scheduler.park_for_news(self.processes, (caller.process, caller.slot), waiting);
        Outcome::Later
    }

    /// Answers at once: the engine has carried out all events up to the thread's clock.
    pub(crate) fn sync(&mut self, _caller: Caller, (): &()) -> Result<(), i32> {
        Ok(())
    }

    pub(crate) fn sleep(&mut self, caller: Caller, sleep: &calls::Sleep) -> Outcome<WaitReply> {
        let waiting = if calls::polls_of(sleep.polls).0 { Waiting::OsPoll } else { Waiting::Sleep };
        self.scheduler.park(self.processes, (caller.process, caller.slot), waiting, program_time(sleep.until_ps));
        Outcome::Later
    }

    /// Lets all threads of the host look again that await a descriptor of the kernel. The engine
    /// does not know which descriptor leads to which.
    pub(crate) fn kernel_written(&mut self, caller: Caller, (): &()) -> Result<(), i32> {
        let host = self.processes[caller.process].host();
        self.scheduler.kernel_changed(self.processes, self.host, host);
        Ok(())
    }

    pub(crate) fn wait(&mut self, caller: Caller, request: &WithTail<WaitRequest, WaitEntry>) -> Outcome<WithTail<WaitReply, WaitEntry>> {
        let Some(entries) = request.tail.get(..request.head.count as usize) else { return Outcome::Fail(libc::EPROTO) };
        let wanted: Vec<(u32, u32)> = entries.iter().map(|entry| (entry.object, entry.interest)).collect();
        let now = self.scheduler.now();
        let ready = wanted.iter().any(|(object, interest)| self.host.is_ready(*object, *interest, now));
        let is_over = request.head.deadline_ps <= now.as_picos();
        for (object, interest) in &wanted {
            self.processes[caller.process].note_question(*object, *interest, !is_over);
        }
        if ready || is_over {
            return Outcome::Reply(self.scheduler.wait_reply(self.host, &wanted, false));
        }
        self.scheduler.park(self.processes, (caller.process, caller.slot), Waiting::Objects(wanted), program_time(request.head.deadline_ps));
        Outcome::Later
    }
}
