//! A thread of a program: its waits and its polls.

use crate::process::looks::Looks;
use crate::process::sharing::Rounds;
use softband_ipc::calls::WaitEntry;
use softband_sim::{SimDuration, SimTime};

/// First and longest pause between vain polls of a polling thread, in picoseconds.
const SLICE_FIRST_PICOS: u64 = 20_000_000;
const SLICE_LAST_PICOS: u64 = 1_000_000_000;
/// First pause after a sharer's write to memory.
const SLICE_WRITTEN_PICOS: u64 = 1_000_000;
/// Shortest time between two looks of a polling thread after turns of other threads of its process.
const AGAIN_PICOS: u64 = 1_000_000;

/// Reason of a thread's wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Any news for the process.
    Poll,
    /// Any news for the process, or a point in time: a poll of something else than a queue.
    Pause,
    /// A peer's write to registered memory.
    Spin,
    /// A point in time.
    Sleep,
    /// An action of another process of the run outside the engine's sight. The thread checks again
    /// after a while.
    OsPoll,
    /// One of the objects.
    Objects(Vec<WaitEntry>),
}

/// State of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ThreadState {
    /// Created, but its image or OS thread has not attached yet.
    Expected,
    /// An event that is already scheduled gives it the token.
    Scheduled,
    Waiting(Waiting),
    /// In the operating system, outside the engine's sight.
    Away,
    Ended,
}

/// One thread of a program.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    state: ThreadState,
    /// Number that changes at each new wait. Wake-ups of an earlier wait are stale.
    generation: u32,
    /// Value of the process's `news` when the thread last got the token.
    news_seen: u64,
    memory_seen: u64,
    /// Duration of the next vain poll in picoseconds. It grows while polls stay vain.
    slice_picos: u64,
    /// Set if the message of its return arrived before its own call to leave.
    came_back: bool,
    /// Set while it is away, and the engine has waited in vain for the end of its stop.
    is_stopped: bool,
    /// Set if the call in progress has already cost its time and now takes effect.
    paid: bool,
    /// Time at which it began to poll in vain.
    waiting_since: Option<SimTime>,
    /// Its empty polls.
    pub(super) looks: Looks,
    /// Its rounds after writes of sharers.
    pub(super) rounds: Rounds,
    /// Set if its last wait was for a write to memory.
    pub(super) has_spun: bool,
    /// Set if its wait is for a lock, which another process of its host may free.
    awaits_lock: bool,
    /// Set if its turn follows an empty poll, and no news.
    is_vain: bool,
    /// Time of its next look after a turn of another thread of its process, and of the last.
    again: Option<SimTime>,
    looked_again: SimTime,
}

impl Thread {
    pub(super) fn new(state: ThreadState) -> Self {
        Self {
            state,
            generation: 0,
            news_seen: 0,
            memory_seen: 0,
            slice_picos: SLICE_FIRST_PICOS,
            came_back: false,
            is_stopped: false,
            paid: false,
            waiting_since: None,
            looks: Looks::new(),
            rounds: Rounds::new(),
            has_spun: false,
            awaits_lock: false,
            is_vain: false,
            again: None,
            looked_again: SimTime::ZERO,
        }
    }

    /// Puts a new thread into the place of this ended one.
    pub(super) fn replace(&mut self) {
        *self = Self { generation: self.generation.wrapping_add(1), ..Self::new(ThreadState::Scheduled) };
    }

    pub(crate) fn state(&self) -> &ThreadState {
        &self.state
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns the time at which the thread began to poll in vain.
    pub(crate) fn waiting_since(&self) -> Option<SimTime> {
        self.waiting_since
    }

    /// Notes that the thread sees all news so far.
    pub(super) fn see(&mut self, (news, memory): (u64, u64)) {
        (self.news_seen, self.memory_seen) = (news, memory);
    }

    /// Returns whether a poll missed news, or a spin a peer's write.
    pub(super) fn has_missed(&self, waiting: &Waiting, (news, memory): (u64, u64)) -> bool {
        if matches!(waiting, Waiting::Poll | Waiting::Pause) { self.news_seen != news } else { self.memory_seen != memory }
    }

    /// Notes that the thread waits for a write to memory. It then sees all writes.
    pub(crate) fn note_spin(&mut self) {
        self.has_spun = true;
    }

    /// Notes whether its next wait is for a lock.
    pub(crate) fn set_awaits_lock(&mut self, on: bool) {
        self.awaits_lock = on;
    }

    /// Returns whether a write to shared memory may end its wait.
    pub(crate) fn awaits_write(&self) -> bool {
        match &self.state {
            ThreadState::Waiting(Waiting::Poll | Waiting::Pause | Waiting::Spin) => true,
            ThreadState::Waiting(Waiting::Sleep | Waiting::OsPoll) => self.awaits_lock,
            _ => false,
        }
    }

    /// Begins a wait, and returns its generation.
    pub(crate) fn park(&mut self, waiting: Waiting) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        self.state = ThreadState::Waiting(waiting);
        self.generation
    }

    /// Ends a wait.
    pub(crate) fn wake(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.state = ThreadState::Scheduled;
        self.is_vain = false;
    }

    /// Notes that the wait which has just ended was in vain.
    pub(crate) fn set_vain(&mut self) {
        self.is_vain = true;
    }

    /// Begins a turn at `now`.
    pub(super) fn begin_turn(&mut self, now: SimTime) {
        self.resume();
        if self.again.take().is_some() {
            self.looked_again = now;
        }
    }

    /// Notes the end of a turn by an empty poll or not. Returns whether the thread may have written
    /// memory in its turn.
    pub(crate) fn end_turn(&mut self, is_empty_poll: bool) -> bool {
        let was_vain = std::mem::replace(&mut self.is_vain, is_empty_poll);
        !(was_vain && is_empty_poll)
    }

    /// Lets a polling thread look again: another thread of its process may have written memory, which it
    /// sees at `visible`. Returns the generation of its wait and the end of the wait, if that is new.
    pub(crate) fn look_again(&mut self, visible: SimTime) -> Option<(u32, SimTime)> {
        let waits = matches!(self.state, ThreadState::Waiting(Waiting::Poll | Waiting::Pause));
        if self.again.is_some() || !waits && self.state != ThreadState::Scheduled {
            return None;
        }
        let at = visible.max(self.looked_again + SimDuration::from_picos(AGAIN_PICOS));
        self.again = Some(at);
        self.shorten_slice();
        waits.then_some((self.generation, at))
    }

    /// Returns the time at which a thread that begins to wait looks again.
    pub(crate) fn again(&self) -> Option<SimTime> {
        self.again
    }

    pub(crate) fn end(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.state = ThreadState::Ended;
    }

    /// Returns the pause after a vain poll at `now`. Pauses grow while no news arrive.
    pub(crate) fn next_slice(&mut self, now: SimTime) -> SimDuration {
        self.waiting_since.get_or_insert(now);
        let slice = self.slice_picos;
        self.slice_picos = (slice * 2).min(SLICE_LAST_PICOS);
        SimDuration::from_picos(slice)
    }

    /// Adapts the pauses to the wait that ends at `now`. News that came after a long wait will
    /// probably take about as long again. Much earlier polls are useless.
    pub(crate) fn adapt_slice(&mut self, now: SimTime) {
        let waited = self.waiting_since.take().map_or(0, |since| now.saturating_since(since).as_picos());
        self.slice_picos = (waited * 2).clamp(SLICE_FIRST_PICOS, SLICE_LAST_PICOS);
    }

    /// Shortens the pauses after a sharer's write. The thread may not have looked at the memory yet.
    pub(crate) fn shorten_slice(&mut self) {
        (self.waiting_since, self.slice_picos) = (None, SLICE_WRITTEN_PICOS);
    }

    /// Lets the thread go where the engine does not see it. Returns whether it has come back.
    pub(crate) fn go_away(&mut self) -> bool {
        self.state = ThreadState::Away;
        std::mem::take(&mut self.came_back)
    }

    /// Notes the return of the thread. Returns whether it was away.
    pub(crate) fn come_back(&mut self) -> bool {
        self.came_back |= self.state == ThreadState::Scheduled;
        self.state == ThreadState::Away
    }

    /// Notes whether the engine has waited in vain until the stopped thread goes on.
    pub(crate) fn note_stop(&mut self, is_stopped: bool) {
        self.is_stopped = is_stopped;
    }

    /// Returns whether the engine does not wait until the stopped thread goes on.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Lets the thread continue at an event that is already scheduled.
    pub(crate) fn resume(&mut self) {
        self.state = ThreadState::Scheduled;
    }

    /// Returns whether the call in progress has yet to cost its time. The next answer is no.
    pub(crate) fn has_to_pay(&mut self) -> bool {
        self.paid = !self.paid;
        self.paid
    }
}
