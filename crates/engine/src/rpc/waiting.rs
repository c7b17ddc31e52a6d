//! Calls in which a thread waits: for news, for a time, or for objects.

use crate::process::thread::Waiting;
use crate::protocol::{Caller, Outcome, program_time};
use crate::rpc::host_calls::HostCalls;
use softband_ipc::calls::{self, Handle, Pause, SpinTarget, WaitEntry, WaitReply, WaitRequest, WithTail};

/// Stands for an entry with an object that the process does not hold. No object has this number, so
/// the entry is in error at once.
const OF_NOTHING: WaitEntry = WaitEntry { object: 0, interest: 0, ready: 0, seen: 0 };

impl HostCalls<'_> {
    pub(crate) fn poll(&mut self, caller: Caller, cq: &Handle) -> Outcome<()> {
        let looks_on = self.processes[caller.process].looks_on(caller.slot, cq.handle);
        self.wait_for_news(caller, Waiting::Poll, looks_on)
    }

    pub(crate) fn spin_wait(&mut self, caller: Caller, _target: &WithTail<(), SpinTarget>) -> Outcome<()> {
        self.processes[caller.process].thread_mut(caller.slot).note_spin();
        self.wait_for_news(caller, Waiting::Spin, false)
    }

    /// Handles an empty poll: the thread looks on if it missed news or may find news elsewhere, else
    /// it waits for news.
    fn wait_for_news(&mut self, caller: Caller, waiting: Waiting, looks_on: bool) -> Outcome<()> {
        if let Some(outcome) = self.miss_news(caller, &waiting, looks_on) {
            return outcome;
        }
        self.scheduler.park_for_news(self.processes, (caller.process, caller.slot), waiting);
        Outcome::Later
    }

    /// Lets a thread that has missed news or looks on continue. News in shared memory come with the
    /// delay of a cache line. Returns `None` if the thread has to wait for news.
    fn miss_news(&mut self, caller: Caller, waiting: &Waiting, looks_on: bool) -> Option<Outcome<()>> {
        let record = &self.processes[caller.process];
        let missed = record.missed_arrivals(caller.slot);
        if let Some(visible) = missed.filter(|visible| *visible > self.scheduler.now()) {
            self.scheduler.park(self.processes, (caller.process, caller.slot), waiting.clone(), Some(visible));
            return Some(Outcome::Later);
        }
        (looks_on || record.has_missed(caller.slot, waiting)).then_some(Outcome::Reply(()))
    }

    /// Handles a poll of something else than a queue: the thread continues after news, or after a
    /// pause of its own choice.
    pub(crate) fn pause(&mut self, caller: Caller, pause: &Pause) -> Outcome<()> {
        if let Some(outcome) = self.miss_news(caller, &Waiting::Pause, false) {
            return outcome;
        }
        let again = self.processes[caller.process].thread(caller.slot).again();
        let until = program_time(pause.until_ps).into_iter().chain(again).min();
        self.scheduler.park(self.processes, (caller.process, caller.slot), Waiting::Pause, until);
        self.scheduler.note_vain_poll();
        Outcome::Later
    }

    /// Answers at once: the engine has carried out all events up to the thread's clock.
    pub(crate) fn sync(&mut self, _caller: Caller, (): &()) -> Result<(), i32> {
        Ok(())
    }

    pub(crate) fn sleep(&mut self, caller: Caller, sleep: &calls::Sleep) -> Outcome<WaitReply> {
        let (only_polls, why) = calls::polls_of(sleep.polls);
        let waiting = if only_polls { Waiting::OsPoll } else { Waiting::Sleep };
        let record = &mut self.processes[caller.process];
        record.thread_mut(caller.slot).set_awaits_lock(why == calls::reason::LOCK);
        // A holder in another process may have freed the lock since this thread looked at it.
        let missed = record.missed_arrivals(caller.slot).filter(|_| why == calls::reason::LOCK);
        let until = program_time(sleep.until_ps).into_iter().chain(missed).min();
        self.scheduler.park(self.processes, (caller.process, caller.slot), waiting, until);
        Outcome::Later
    }

    /// Lets all threads of the host look again that await a descriptor of the kernel. The engine
    /// does not know which descriptor leads to which.
    pub(crate) fn kernel_written(&mut self, caller: Caller, (): &()) -> Result<(), i32> {
        let host = self.processes[caller.process].host();
        self.scheduler.kernel_changed(self.processes, self.host, host);
        Ok(())
    }

    /// Waits for objects. A process learns nothing of objects that it does not hold, and takes no
    /// wake-up of their holders.
    pub(crate) fn wait(&mut self, caller: Caller, request: &WithTail<WaitRequest, WaitEntry>) -> Outcome<WithTail<WaitReply, WaitEntry>> {
        let Some(entries) = request.tail.get(..request.head.count as usize) else { return Outcome::Fail(libc::EPROTO) };
        let process = &self.processes[caller.process];
        let wanted: Vec<_> = entries.iter().map(|entry| if process.held(entry.object).is_ok() { *entry } else { OF_NOTHING }).collect();
        // News that wake a sleeping thread later are there already for one that asks.
        wanted.iter().for_each(|entry| self.look_at_stack(entry.object));
        let now = self.scheduler.now();
        let ready = wanted.iter().any(|entry| self.host.ready_for(entry, now) != 0);
        let is_over = request.head.deadline_ps <= now.as_picos();
        for entry in &wanted {
            self.processes[caller.process].note_question(entry.object, entry.interest, !is_over);
        }
        if ready || is_over {
            let reply = self.scheduler.wait_reply(self.host, &wanted, false);
            // A thread that sleeps pays meanwhile.
            let price = wanted.iter().find_map(|entry| self.call_price(entry.object));
            return match price {
                Some(price) => Outcome::Paid(Ok(reply), price),
                None => Outcome::Reply(reply),
            };
        }
        self.scheduler.park(self.processes, (caller.process, caller.slot), Waiting::Objects(wanted), program_time(request.head.deadline_ps));
        Outcome::Later
    }
}
