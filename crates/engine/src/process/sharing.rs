//! Memory that several processes of a host have mapped, in simulated time.
//!
//! A program writes such memory without a call. It notes its first write of a turn in its header
//! (`softband_ipc::layout`), and the engine wakes the pollers among the other processes with the
//! same memory.

use crate::process::record::Process;
use softband_ipc::layout::RANGES_MAX;
use softband_sim::SimTime;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

/// Most repetitions of a place within one round.
const REPEATS_MAX: u32 = 64;
/// Most polls of a round for each repetition. A thread can leave the queue at which its round ends.
const POLLS_MAX: u32 = 256;

/// The identity of shared memory: host, kind, name space, number.
pub(crate) type Memory = (usize, u32, u64, u64);
/// A mapping: process and number of the range.
type Range = (usize, u32);

/// A shared mapping: its memory, and its place in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) memory: Memory,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Whether a program may write the memory by this mapping, or by its file.
    pub(crate) may_change: bool,
}

/// The shared mappings of all processes.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    ranges: BTreeMap<Range, Mapping>,
    mapped_by: BTreeMap<Memory, BTreeSet<Range>>,
    /// Mappings that HCAs have written since their sharers last heard of it.
    by_dma: BTreeSet<Range>,
}

impl Sharing {
    /// Adds a mapping, in place of a former one of the same number. Returns all mappings whose
    /// sharers may have changed.
    pub(super) fn add(&mut self, range: Range, mapping: Mapping) -> Vec<Range> {
        let mut changed = self.remove(range);
        self.ranges.insert(range, mapping);
        let others = self.mapped_by.entry(mapping.memory).or_default();
        others.insert(range);
        changed.extend(others.iter());
        changed
    }

    /// Removes a mapping. Returns all mappings whose sharers may have changed.
    pub(super) fn remove(&mut self, range: Range) -> Vec<Range> {
        self.by_dma.remove(&range);
        let Some(Mapping { memory, .. }) = self.ranges.remove(&range) else { return Vec::new() };
        let Some(others) = self.mapped_by.get_mut(&memory) else { return vec![range] };
        others.remove(&range);
        let changed = others.iter().copied().chain([range]).collect();
        if others.is_empty() {
            self.mapped_by.remove(&memory);
        }
        changed
    }

    /// Returns the mappings of a process, by number.
    pub(super) fn of(&self, process: usize) -> Vec<(u32, Mapping)> {
        self.ranges.range((process, 0)..=(process, u32::MAX)).map(|((_, number), mapping)| (*number, *mapping)).collect()
    }

    /// Notes a write of an HCA to a span of a process's memory. Returns whether it touches a mapping.
    pub(super) fn note_dma(&mut self, process: usize, (start, end): (u64, u64)) -> bool {
        let all = self.ranges.range((process, 0)..=(process, u32::MAX));
        let touched = all.filter(|(_, mapping)| mapping.start < end && start < mapping.end);
        let mut is_shared = false;
        for (range, _) in touched {
            is_shared = true;
            self.by_dma.insert(*range);
        }
        is_shared
    }

    /// Takes the mappings of a process that HCAs have written.
    pub(super) fn take_dma(&mut self, process: usize) -> Vec<u32> {
        let written: Vec<u32> = self.by_dma.range((process, 0)..=(process, u32::MAX)).map(|(_, number)| *number).collect();
        written.iter().for_each(|number| {
            self.by_dma.remove(&(process, *number));
        });
        written
    }

    /// Returns whether another process has the memory of a mapping, and any process may write it.
    pub(super) fn is_shared(&self, range: Range) -> bool {
        let all = self.ranges.get(&range).and_then(|mapping| self.mapped_by.get(&mapping.memory));
        let may_change = |range: &Range| self.ranges.get(range).is_some_and(|mapping| mapping.may_change);
        all.is_some_and(|all| all.iter().any(|other| other.0 != range.0) && all.iter().any(may_change))
    }

    /// Returns the other processes with the memory of a mapping, in order.
    pub(super) fn sharers(&self, range: Range) -> impl Iterator<Item = usize> {
        let all = self.ranges.get(&range).and_then(|mapping| self.mapped_by.get(&mapping.memory));
        all.into_iter().flatten().map(|(process, _)| *process).filter(move |process| *process != range.0)
    }
}

/// The writes of sharers to memory of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrivals {
    pub(super) count: u64,
    /// Time at which the process can see all of them.
    pub(super) visible: SimTime,
    /// The next event of the run when the process's latest turn began.
    next_event: SimTime,
}

impl Arrivals {
    /// Begins a turn of the process, in which nothing happens before `next_event`. Returns the
    /// number of writes.
    pub(super) fn begin_turn(&mut self, next_event: SimTime) -> u64 {
        self.next_event = next_event;
        self.count
    }
}

/// The round of a polling thread through the places at which it looks.
///
/// A program may look at completion queues and at shared memory in turn. After a sharer's write,
/// its empty polls do not park it until it has come around to the same queue. A thread that polls a
/// queue several times before it looks at memory is parked too early at first. It then finds the
/// write after a pause and answers it, which raises the number of repetitions.
#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    /// Writes of sharers so far, when the thread's turn began and when its round began.
    at_turn: u64,
    at_round: u64,
    /// The last polled queue.
    last: u32,
    /// The queue at which the round ends, and the number of polls of it that are left.
    end: Option<(u32, u32)>,
    /// Number of polls of all queues that are left in the round.
    polls_left: u32,
    repeats: u32,
    /// Set if a pause of the thread has ended without news.
    has_paused: bool,
    /// Set if its next turn has been put off until it sees a write.
    is_put_off: bool,
}

impl Rounds {
    pub(super) const fn new() -> Self {
        Self { at_turn: 0, at_round: 0, last: 0, end: None, polls_left: 0, repeats: 1, has_paused: false, is_put_off: false }
    }

    /// Notes the beginning of a turn, in which the thread sees all `writes`.
    pub(super) fn begin_turn(&mut self, writes: u64) {
        self.at_turn = writes;
        self.is_put_off = false;
    }

    /// Puts the next turn off, once.
    fn put_off(&mut self) -> bool {
        !std::mem::replace(&mut self.is_put_off, true)
    }

    /// Notes the end of a turn in which the thread has written shared memory or not.
    pub(super) fn end_turn(&mut self, has_written: bool) {
        if std::mem::take(&mut self.has_paused) && has_written {
            self.repeats = (self.repeats * 2).min(REPEATS_MAX);
        }
    }

    /// Begins a round, because a sharer's write wakes the thread from its last poll.
    pub(super) fn wake(&mut self, writes: u64) {
        self.has_paused = false;
        self.begin(self.last, writes);
    }

    fn begin(&mut self, end: u32, writes: u64) {
        (self.at_round, self.end, self.polls_left) = (writes, Some((end, self.repeats)), POLLS_MAX * self.repeats);
    }

    /// Notes that a pause has ended without news.
    pub(super) fn pause_over(&mut self) {
        self.has_paused = true;
    }

    /// Returns whether a sharer has written since the thread's turn began.
    pub(super) fn has_missed(&self, writes: u64) -> bool {
        self.at_turn != writes
    }

    /// Notes an empty poll of a queue. Returns whether the thread is still on its round.
    pub(super) fn look(&mut self, queue: u32, writes: u64) -> bool {
        self.last = queue;
        if self.at_round != writes {
            self.begin(queue, writes);
            return true;
        }
        let Some((end, left)) = self.end else { return false };
        let left = left - u32::from(end == queue);
        self.polls_left -= 1;
        self.end = (left > 0 && self.polls_left > 0).then_some((end, left));
        self.end.is_some()
    }
}

impl Process {
    /// Returns the time until which the turn of a thread at `now` is put off. A load of a line that
    /// another process has just written takes until the line comes.
    pub(crate) fn puts_off(&mut self, slot: u32, now: SimTime) -> Option<SimTime> {
        let visible = self.arrivals.visible;
        (visible > now && self.thread_mut(slot).rounds.put_off()).then_some(visible)
    }

    /// Notes that a sharer has written memory, which the process sees at `visible`.
    pub(crate) fn note_arrival(&mut self, visible: SimTime) {
        self.arrivals.count += 1;
        self.arrivals.visible = self.arrivals.visible.max(visible);
        self.note_news();
        self.note_memory_written();
    }

    /// Begins the round of a thread that a sharer's write wakes.
    pub(crate) fn begin_round(&mut self, slot: u32) {
        let writes = self.arrivals.count;
        self.thread_mut(slot).rounds.wake(writes);
    }

    /// Notes that a pause of a thread has ended without news, unless a sharer has written meanwhile.
    pub(crate) fn note_pause_over(&mut self, slot: u32) {
        if self.missed_arrivals(slot).is_none() {
            self.thread_mut(slot).rounds.pause_over();
        }
    }

    /// Returns the time at which a thread sees the writes of sharers since its turn began, if there
    /// were any.
    pub(crate) fn missed_arrivals(&self, slot: u32) -> Option<SimTime> {
        self.thread(slot).rounds.has_missed(self.arrivals.count).then_some(self.arrivals.visible)
    }

    /// Shows the program whether another process has the memory of its range, too.
    pub(super) fn show_shared(&self, range: u32, is_shared: bool) {
        let (word, bit) = (range as usize / 64, 1 << (range % 64));
        let bits = &self.shared().header().shared_ranges[word];
        if is_shared {
            bits.fetch_or(bit, Ordering::Relaxed)
        } else {
            bits.fetch_and(!bit, Ordering::Relaxed)
        };
    }

    /// Takes the ranges that the program has written in its turn.
    pub(super) fn take_written(&self) -> Vec<u32> {
        let header = self.shared().header();
        let bits = |range: &u32| 1u64 << (range % 64);
        let mut written = Vec::new();
        for (word, cell) in header.written_ranges.iter().enumerate() {
            if cell.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let taken = cell.swap(0, Ordering::Relaxed);
            let first = word as u32 * 64;
            written.extend((first..(first + 64).min(RANGES_MAX as u32)).filter(|range| taken & bits(range) != 0));
        }
        written
    }

    /// Returns whether the program has written shared memory since the last [`Process::take_written`].
    pub(crate) fn has_written(&self) -> bool {
        self.shared().header().written_ranges.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Takes the time of the program's first write of the turn that ends at `now`.
    ///
    /// The program can write any time into its header, and into its clock. A time past the next event
    /// of the run counts as the time of that event. So a program that lies delays no other program.
    pub(crate) fn take_written_at(&self, now: SimTime) -> SimTime {
        let told = match self.shared().header().written_at_ps.swap(0, Ordering::Relaxed) {
            0 => None,
            picos => crate::protocol::program_time(picos),
        };
        let latest = self.last_clock().unwrap_or(now).min(self.arrivals.next_event).max(now);
        told.unwrap_or(now).clamp(now, latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: Memory = (0, 0, 1, 2);
    const HERE: Mapping = Mapping { memory: MEMORY, start: 0x1000, end: 0x3000, may_change: true };

    #[test]
    fn only_other_processes_with_the_same_memory_are_sharers() {
        let mut sharing = Sharing::default();
        assert_eq!(sharing.add((0, 3), HERE), [(0, 3)]);
        assert_eq!(sharing.add((0, 4), HERE), [(0, 3), (0, 4)], "a second mapping of the same process");
        assert_eq!(sharing.sharers((0, 3)).count(), 0);
        assert_eq!(sharing.add((1, 0), HERE), [(0, 3), (0, 4), (1, 0)]);
        sharing.add((2, 0), Mapping { memory: (1, 0, 1, 2), ..HERE });
        assert_eq!(sharing.sharers((0, 3)).collect::<Vec<_>>(), [1], "the same inode on another host is other memory");
        assert_eq!(sharing.remove((1, 0)), [(0, 3), (0, 4), (1, 0)]);
        assert_eq!(sharing.sharers((0, 3)).count(), 0);
    }

    #[test]
    fn a_number_that_is_used_again_leaves_its_former_memory() {
        let mut sharing = Sharing::default();
        sharing.add((0, 0), HERE);
        sharing.add((1, 0), HERE);
        assert_eq!(sharing.add((0, 0), Mapping { memory: (0, 1, 0, 7), ..HERE }), [(1, 0), (0, 0), (0, 0)]);
        assert_eq!(sharing.sharers((1, 0)).count(), 0);
    }

    #[test]
    fn memory_that_nobody_writes_is_not_shared() {
        let mut sharing = Sharing::default();
        let read_only = Mapping { may_change: false, ..HERE };
        sharing.add((0, 0), read_only);
        sharing.add((1, 0), read_only);
        assert!(!sharing.is_shared((0, 0)));
        sharing.add((1, 1), HERE);
        assert!(sharing.is_shared((0, 0)) && sharing.is_shared((1, 0)));
        sharing.remove((0, 0));
        assert!(!sharing.is_shared((1, 1)), "one process alone");
    }

    #[test]
    fn writes_of_hcas_count_once_for_each_mapping_that_they_touch() {
        let mut sharing = Sharing::default();
        sharing.add((0, 3), HERE);
        sharing.add((0, 4), Mapping { start: 0x8000, end: 0x9000, ..HERE });
        assert!(!sharing.note_dma(0, (0x3000, 0x8000)));
        assert!(!sharing.note_dma(1, (0x1000, 0x1008)), "memory of another process at this address");
        assert!(sharing.note_dma(0, (0x2ff8, 0x8001)) && sharing.note_dma(0, (0x1000, 0x1008)));
        assert_eq!(sharing.take_dma(0), [3, 4]);
        assert!(sharing.take_dma(0).is_empty());
        assert!(sharing.note_dma(0, (0x8000, 0x8001)));
        sharing.remove((0, 4));
        assert!(sharing.take_dma(0).is_empty());
    }

    #[test]
    fn a_woken_thread_looks_on_until_it_comes_around() {
        let mut rounds = Rounds::new();
        assert!(!rounds.look(7, 0), "nothing was written");
        rounds.wake(1);
        assert!(rounds.look(8, 1));
        assert!(!rounds.look(7, 1));
        assert!(!rounds.look(8, 1));
    }

    #[test]
    fn a_turn_is_put_off_once() {
        let mut rounds = Rounds::new();
        assert!(rounds.put_off());
        assert!(!rounds.put_off());
        rounds.begin_turn(1);
        assert!(rounds.put_off());
    }

    #[test]
    fn a_write_during_a_turn_begins_a_round() {
        let mut rounds = Rounds::new();
        rounds.begin_turn(0);
        assert!(rounds.has_missed(1));
        assert!(rounds.look(7, 1));
        assert!(rounds.look(8, 1));
        assert!(!rounds.look(7, 1));
    }

    #[test]
    fn a_round_ends_though_the_thread_leaves_its_queue() {
        let mut rounds = Rounds::new();
        rounds.look(7, 0);
        rounds.wake(1);
        assert_eq!((0..10_000).filter(|_| rounds.look(8, 1)).count(), POLLS_MAX as usize - 1);
        assert!(rounds.look(8, 2), "another write begins a round");
    }

    #[test]
    fn answers_after_a_pause_make_rounds_longer() {
        let mut rounds = Rounds::new();
        rounds.pause_over();
        rounds.end_turn(false);
        assert_eq!(rounds.repeats, 1, "the thread has found nothing");
        rounds.pause_over();
        rounds.end_turn(true);
        rounds.wake(1);
        assert!(rounds.look(0, 1));
        assert!(!rounds.look(0, 1));
    }
}
