//! The waits of threads: how they begin, and which news ends them.

use crate::host::room::HostServices;
use crate::process::processes::Processes;
use crate::process::thread::{ThreadState, Waiting};
use crate::scheduler::agenda::Event;
use crate::scheduler::room::Scheduler;
use softband_ipc::calls::readiness::EXCLUSIVE;
use softband_ipc::calls::{Message, WaitEntry, WaitReply, WithTail};
use softband_sim::{SimDuration, SimTime};
use softband_types::ProcessId;

/// Reply to a wait for no objects that ends without a signal.
const WAIT_OVER: WaitReply = WaitReply { ready_count: 0, interrupted: 0 };

impl Scheduler {
    /// Lets a thread wait from now on, at most until `deadline`.
    pub(crate) fn park(&mut self, processes: &mut Processes, (process, slot): (usize, u32), waiting: Waiting, deadline: Option<SimTime>) {
        let polls = waiting == Waiting::OsPoll;
        let generation = processes[process].thread_mut(slot).park(waiting);
        if let Some(deadline) = deadline {
            self.push(deadline.max(self.now()), process as u32, Event::WaitOver { process, slot, generation, polls });
        }
    }

    /// Lets a polling or spinning thread wait for news. Its pauses grow while no news arrive.
    pub(crate) fn park_for_news(&mut self, processes: &mut Processes, (process, slot): (usize, u32), waiting: Waiting) {
        let slice = processes[process].thread_mut(slot).next_slice(self.now());
        let again = processes[process].thread(slot).again();
        let deadline = again.into_iter().chain([self.now() + slice]).min();
        self.park(processes, (process, slot), waiting, deadline);
        self.note_vain_poll();
    }

    /// Lets a waiting thread continue now.
    pub(crate) fn wake(&mut self, processes: &mut Processes, process: usize, slot: u32) {
        processes[process].thread_mut(slot).wake();
        self.resume(process, slot, self.now());
    }

    /// Schedules the next turn of a thread.
    pub(crate) fn resume(&mut self, process: usize, slot: u32, at: SimTime) {
        self.push(at, process as u32, Event::Resume { process, slot });
    }

    /// Notes news for a process, and wakes its polling threads.
    pub(crate) fn touch(&mut self, processes: &mut Processes, process: ProcessId) {
        let index = process.0 as usize;
        processes[index].note_news();
        self.wake_where(processes, index, |waiting| matches!(waiting, Waiting::Poll | Waiting::Pause));
    }

    /// Notes that another process has written memory that this one has mapped. Its pollers see the
    /// write at `visible`.
    pub(crate) fn touch_shared(&mut self, processes: &mut Processes, process: usize, visible: SimTime) {
        let at = visible.max(self.now());
        processes[process].note_arrival(at);
        for slot in processes[process].slots() {
            let thread = processes[process].thread_mut(slot);
            if !thread.awaits_write() {
                continue;
            }
            let sleeps = matches!(thread.state(), ThreadState::Waiting(Waiting::Sleep | Waiting::OsPoll));
            thread.shorten_slice();
            thread.wake();
            processes[process].begin_round(slot);
            if sleeps {
                processes[process].shared().reply(slot, 0, &WAIT_OVER.parts());
            }
            self.resume(process, slot, at);
        }
    }

    /// Notes a write to registered memory of a process: by a peer, or by a response to the process.
    pub(crate) fn touch_memory(&mut self, processes: &mut Processes, process: ProcessId, (whole, by_peer): (bool, bool)) {
        let index = process.0 as usize;
        processes[index].note_memory_written();
        if whole && by_peer {
            processes[index].note_write_of_peer();
        }
        // A spinning loop waits for the whole message. A loop that waits for a byte in its middle
        // sees it at one of its next polls. A turn at each packet would cost more than all other
        // work.
        if whole {
            self.wake_where(processes, index, |waiting| *waiting == Waiting::Spin);
            self.touch(processes, process);
        }
    }

    /// Lets the polling threads of a process look again, because another of its threads has had a turn.
    /// They see what it may have written at `visible`.
    pub(crate) fn touch_siblings(&mut self, processes: &mut Processes, (process, slot): (usize, u32), visible: SimTime) {
        for sibling in processes[process].slots().filter(|sibling| *sibling != slot) {
            let Some((generation, at)) = processes[process].thread_mut(sibling).look_again(visible) else { continue };
            let over = Event::WaitOver { process, slot: sibling, generation, polls: false };
            self.push(at.max(self.now()), process as u32, over);
        }
    }

    fn wake_where(&mut self, processes: &mut Processes, process: usize, matches: impl Fn(&Waiting) -> bool) {
        for slot in processes[process].slots() {
            let thread = processes[process].thread_mut(slot);
            if matches!(thread.state(), ThreadState::Waiting(waiting) if matches(waiting)) {
                thread.adapt_slice(self.now());
                self.wake(processes, process, slot);
            }
        }
    }

    /// Notes an edge of an object, and wakes each thread that waits for the object, if it is ready. Of
    /// the threads that wait for it exclusively, wakes the first.
    pub(crate) fn object_changed(&mut self, processes: &mut Processes, host: &mut HostServices, (object, edge): (u32, u32)) {
        host.note_edge(object, edge);
        let mut is_taken = false;
        let mut nth = 0;
        while let Some(process) = processes.nth_living(nth) {
            nth += 1;
            if !processes[process].is_attached() {
                continue;
            }
            for slot in processes[process].slots() {
                let ThreadState::Waiting(Waiting::Objects(entries)) = processes[process].thread(slot).state() else { continue };
                let is_exclusive = |entry: &WaitEntry| entry.interest & EXCLUSIVE != 0;
                let mut waits = entries.iter().filter(|entry| entry.object == object && !(is_taken && is_exclusive(entry)));
                if let Some(entry) = waits.find(|entry| host.ready_for(entry, self.now()) != 0) {
                    is_taken |= is_exclusive(entry);
                    self.finish_wait(processes, host, (process, slot), false);
                }
            }
            let awaited = processes[process].awaited().interest(object);
            if awaited.is_some_and(|interest| host.is_ready(object, interest, self.now())) {
                processes[process].note_ready(object);
                let number = processes[process].number();
                self.touch(processes, number);
            }
        }
    }

    /// Wakes each thread of a host that awaits a descriptor of the kernel, or polls in a process that
    /// has asked for any.
    pub(crate) fn kernel_changed(&mut self, processes: &mut Processes, services: &mut HostServices, host: usize) {
        let mut nth = 0;
        while let Some(process) = processes.nth_living(nth) {
            nth += 1;
            if !processes[process].is_attached() || processes[process].host() != host {
                continue;
            }
            for slot in processes[process].slots() {
                if processes[process].awaits_kernel(slot) {
                    self.finish_wait(processes, services, (process, slot), false);
                }
            }
            if processes[process].note_kernel_news() {
                let number = processes[process].number();
                self.touch(processes, number);
            }
        }
    }

    /// Ends the wait of a thread: an object is ready, its time is over, or a signal came.
    pub(crate) fn finish_wait(&mut self, processes: &mut Processes, host: &mut HostServices, (process, slot): (usize, u32), interrupted: bool) {
        let wanted = match processes[process].thread(slot).state() {
            ThreadState::Waiting(Waiting::Objects(wanted)) => wanted.clone(),
            _ => Vec::new(),
        };
        let reply = self.wait_reply(host, &wanted, interrupted);
        processes[process].shared().reply(slot, 0, &reply.parts());
        self.wake(processes, process, slot);
    }

    /// Ends the wait of a process's first thread, to which the system has sent a signal.
    pub(crate) fn interrupt_first(&mut self, processes: &mut Processes, host: &mut HostServices, process: usize) {
        const FIRST: u32 = 0;
        match processes[process].thread(FIRST).state() {
            ThreadState::Waiting(Waiting::Objects(_) | Waiting::Sleep | Waiting::OsPoll) => self.finish_wait(processes, host, (process, FIRST), true),
            ThreadState::Waiting(_) => self.wake(processes, process, FIRST),
            _ => {}
        }
    }

    /// Returns the reply to a wait for these objects with these interests.
    pub(crate) fn wait_reply(&self, host: &mut HostServices, wanted: &[WaitEntry], interrupted: bool) -> WithTail<WaitReply, WaitEntry> {
        let entry = |entry: &WaitEntry| WaitEntry { ready: host.ready_for(entry, self.now()), seen: host.last_edge(entry.object), ..*entry };
        let tail: Vec<WaitEntry> = wanted.iter().map(entry).collect();
        let ready_count = tail.iter().filter(|entry| entry.ready != 0).count() as u32;
        WithTail { head: WaitReply { ready_count, interrupted: u32::from(interrupted) }, tail }
    }

    /// Ends a wait whose time is over, if it is still that wait.
    pub(crate) fn wait_over(&mut self, processes: &mut Processes, host: &mut HostServices, (process, slot): (usize, u32), generation: u32) {
        let record = &processes[process];
        let Some(thread) = record.threads().get(slot as usize) else { return };
        if !record.is_attached() || thread.generation() != generation {
            return;
        }
        match thread.state() {
            ThreadState::Waiting(Waiting::Poll | Waiting::Pause | Waiting::Spin) => {
                processes[process].note_pause_over(slot);
                self.wake(processes, process, slot);
                processes[process].thread_mut(slot).set_vain();
            }
            ThreadState::Waiting(_) => self.finish_wait(processes, host, (process, slot), false),
            _ => {}
        }
    }

    /// Adds a thread to a process, created by thread `parent`. Returns its slot.
    pub(crate) fn add_thread(&mut self, processes: &mut Processes, process: usize, parent: u32) -> Result<u32, i32> {
        let (slot, clock) = processes[process].add_thread(parent)?;
        // This event follows the answer to the parent thread, which has yet to create the new
        // thread.
        self.resume(process, slot, clock.max(self.now()) + SimDuration::from_picos(1));
        Ok(slot)
    }

    /// Lets a thread continue that was away, at the present horizon.
    pub(crate) fn thread_back(&mut self, processes: &mut Processes, connection: u64, slot: u32) {
        let Some(process) = processes.of_connection(connection) else { return };
        if slot < processes[process].slots().end && processes[process].thread_mut(slot).come_back() {
            self.resume_from_away(processes, process, slot);
        }
    }

    /// Lets a thread go where the engine does not see it. Returns false if it has come back.
    pub(crate) fn go_away(&mut self, processes: &mut Processes, process: usize, slot: u32) -> bool {
        let has_come_back = processes[process].thread_mut(slot).go_away();
        if has_come_back {
            self.resume_from_away(processes, process, slot);
        } else {
            self.away.insert((process, slot));
        }
        !has_come_back
    }

    /// Returns the threads that are away, in order.
    pub(crate) fn threads_away(&mut self, processes: &Processes) -> Vec<(usize, u32)> {
        self.away.retain(|(process, slot)| processes[*process].threads().len() > *slot as usize && processes[*process].is_away(*slot));
        self.away.iter().copied().collect()
    }

    fn resume_from_away(&mut self, processes: &mut Processes, process: usize, slot: u32) {
        processes[process].thread_mut(slot).resume();
        let clock = self.clock_of(processes, process, slot);
        self.resume(process, slot, clock);
    }
}
