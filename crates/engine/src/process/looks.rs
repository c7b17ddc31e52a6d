//! Decides whether an empty poll parks its thread.
//!
//! A program may look at many places in turn: several completion queues, memory that peers write,
//! descriptors. Only the time of its own looks passes until it comes to the place with the news. So
//! a thread is not parked while its process has an unread completion, a ready descriptor that it
//! has asked for in vain, or an unseen write of a peer.
//!
//! The engine cannot see whether a program has read its memory. The number of its looks answers
//! instead, because it repeats in each run. A write counts as unseen for a number of empty polls
//! that covers all places at which the program looks. A post that follows a write without a
//! completion in between is evidence: the program has found the write, and the polls since then
//! give that number. Without evidence, writes soon keep no thread from parking. Such a program does
//! not look at its memory, as in a benchmark of bandwidth.
//!
//! Many programs look once more after their last completion, find nothing, and then act on it. So a
//! thread is not parked for a few polls after a completion either, until its next post. A post after
//! more polls is evidence for more.

/// Most empty polls in a row beside an unread completion or a ready descriptor. A program that
/// polls more often waits for something else.
const BESIDE_UNREAD_MAX: u32 = 4096;
/// Empty polls for which a write counts as unseen before there is evidence.
const CYCLE_FIRST: u32 = 1024;
const CYCLE_MIN: u32 = 16;
const CYCLE_MAX: u32 = 1 << 16;
/// Factor of the longest cycle seen.
const CYCLE_MARGIN: u32 = 4;
/// Pieces of evidence after which the number adapts to shorter cycles.
const EVIDENCE_PERIOD: u32 = 16;
/// Empty polls after a completion before there is evidence, and at most.
const LAG_FIRST: u32 = 4;
const LAG_MAX: u32 = 64;
/// Empty polls without any evidence after which writes keep no thread from parking.
const CREDIT: u32 = 4 * CYCLE_FIRST;

/// The news of a process that a look does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    /// Counter of all news.
    pub(super) news: u64,
    /// Counter of peers' whole writes.
    pub(super) writes: u64,
    /// Counter of the completions that the program has taken, modulo 2^32.
    pub(super) taken: u32,
    /// Set if a completion is unread or an awaited descriptor is ready.
    pub(super) is_unread: bool,
}

/// The reason why a thread looks on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Unread,
    Write,
    Completion,
}

/// The looks of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Looks {
    /// News and taken completions at the last look.
    known: (u64, u32),
    /// Empty polls left beside unread news.
    left: u32,
    writes_seen: u64,
    /// Set from the first look after a write until the next post.
    is_write_open: bool,
    taken_at_write: u32,
    since_write: u32,
    cycle: u32,
    credit: u32,
    /// Empty polls since the last completion, if no post has followed it.
    since_completion: Option<u32>,
    /// Empty polls after a completion in which the thread may still act on it.
    lag: u32,
    /// Longest cycle and number of the pieces of evidence in the present period.
    longest: u32,
    evidence: u32,
    /// Polls that the thread may make without a call, and their reason.
    granted: Option<(u32, Cause)>,
}

impl Looks {
    pub(super) const fn new() -> Self {
        Self {
            known: (0, 0),
            left: 0,
            writes_seen: 0,
            is_write_open: false,
            taken_at_write: 0,
            since_write: 0,
            cycle: CYCLE_FIRST,
            credit: CREDIT,
            since_completion: None,
            lag: LAG_FIRST,
            longest: 0,
            evidence: 0,
            granted: None,
        }
    }

    /// Returns the number of polls that the thread may make without a call.
    pub(super) fn granted(&self) -> u32 {
        self.granted.map_or(0, |(count, _)| count)
    }

    /// Counts the polls without a call of the turn that ends: all granted ones but `left`.
    pub(super) fn end_turn(&mut self, left: u32) {
        let Some((granted, cause)) = self.granted.take() else { return };
        let made = granted.saturating_sub(left);
        self.count(made);
        self.pay(cause, made);
    }

    /// Counts empty polls.
    fn count(&mut self, looks: u32) {
        self.since_write = self.since_write.saturating_add(looks);
        self.since_completion = self.since_completion.map(|since| since.saturating_add(looks));
    }

    fn pay(&mut self, cause: Cause, looks: u32) {
        match cause {
            Cause::Unread => self.left = self.left.saturating_sub(looks),
            Cause::Write => self.credit = self.credit.saturating_sub(looks),
            Cause::Completion => {}
        }
    }

    /// Notes that the thread spun on memory: it has seen all writes.
    pub(super) fn see_writes(&mut self, writes: u64) {
        (self.writes_seen, self.is_write_open, self.since_write) = (writes, false, u32::MAX);
    }

    /// Notes an empty poll. Returns whether the thread looks on and is not parked.
    pub(super) fn look(&mut self, sight: Sight) -> bool {
        if self.known.1 != sight.taken {
            self.since_completion = Some(0);
        }
        if self.known != (sight.news, sight.taken) {
            self.known = (sight.news, sight.taken);
            self.left = BESIDE_UNREAD_MAX;
        }
        if self.writes_seen != sight.writes {
            (self.writes_seen, self.is_write_open) = (sight.writes, true);
            (self.taken_at_write, self.since_write) = (sight.taken, 0);
        }
        let is_unseen = self.writes_seen > 0 && self.since_write < self.cycle && self.credit > 0;
        let cause = match self.since_completion {
            _ if sight.is_unread && self.left > 0 => Some(Cause::Unread),
            _ if is_unseen => Some(Cause::Write),
            Some(since) if since < self.lag => Some(Cause::Completion),
            _ => None,
        };
        self.count(1);
        let Some(cause) = cause else { return false };
        self.pay(cause, 1);
        let more = match cause {
            Cause::Unread => self.left,
            Cause::Write => self.credit.min(self.cycle.saturating_sub(self.since_write)),
            Cause::Completion => self.lag.saturating_sub(self.since_completion.unwrap_or(u32::MAX)),
        };
        self.granted = Some((more, cause));
        true
    }

    /// Notes a post of the thread, with the counter of completions taken.
    pub(super) fn posted(&mut self, taken: u32) {
        let acted_after = self.since_completion.take().filter(|_| taken == self.known.1 && !self.is_write_open);
        if let Some(polls) = acted_after.filter(|polls| *polls <= LAG_MAX) {
            self.lag = self.lag.max(polls);
        }
        if !std::mem::take(&mut self.is_write_open) || taken != self.taken_at_write {
            return;
        }
        let wanted = self.since_write.saturating_mul(CYCLE_MARGIN).clamp(CYCLE_MIN, CYCLE_MAX);
        self.credit = CREDIT.max(wanted);
        self.cycle = self.cycle.max(wanted);
        self.longest = self.longest.max(wanted);
        self.evidence += 1;
        if self.evidence == EVIDENCE_PERIOD {
            (self.cycle, self.longest, self.evidence) = (self.longest, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(writes: u64, taken: u32, is_unread: bool) -> Sight {
        Sight { news: writes, writes, taken, is_unread }
    }

    #[test]
    fn a_thread_without_news_is_parked() {
        assert!(!Looks::new().look(sight(0, 0, false)));
    }

    #[test]
    fn an_unread_completion_keeps_a_thread_looking_for_a_limited_number_of_polls() {
        let mut looks = Looks::new();
        assert!(looks.look(sight(0, 1, true)));
        assert_eq!(looks.granted(), BESIDE_UNREAD_MAX - 1);
        looks.end_turn(0);
        assert!(!looks.look(sight(0, 1, true)));
        assert!(looks.look(sight(0, 2, true)), "a completion taken begins the count anew");
    }

    #[test]
    fn writes_without_evidence_keep_no_thread_looking() {
        let mut looks = Looks::new();
        let mut looked_on = 0;
        for write in 1..100 {
            while looks.look(sight(write, 0, false)) {
                looked_on += 1;
            }
        }
        assert_eq!(looked_on, CREDIT);
    }

    #[test]
    fn the_cycle_of_a_program_adapts_in_both_directions() {
        let mut looks = Looks::new();
        let mut write = 0;
        let mut rounds = |looks: &mut Looks, count: u32, polls: u32| {
            for _ in 0..count {
                write += 1;
                for _ in 0..polls {
                    looks.look(sight(write, 0, false));
                }
                looks.posted(0);
            }
        };
        rounds(&mut looks, EVIDENCE_PERIOD, 10);
        assert_eq!(looks.cycle, 40);
        rounds(&mut looks, 1, 100);
        assert_eq!(looks.cycle, 400);
        rounds(&mut looks, 2 * EVIDENCE_PERIOD, 1);
        assert_eq!(looks.cycle, CYCLE_MIN);
    }

    #[test]
    fn a_thread_may_act_on_a_completion_for_a_few_polls() {
        let mut looks = Looks::new();
        assert!(looks.look(sight(0, 1, false)));
        assert_eq!(looks.granted(), LAG_FIRST - 1);
        looks.end_turn(1);
        assert!(looks.look(sight(0, 1, false)));
        looks.end_turn(0);
        assert!(!looks.look(sight(0, 1, false)));
        assert!(looks.look(sight(0, 2, false)), "another completion begins the count anew");
        looks.posted(2);
        assert!(!looks.look(sight(0, 2, false)), "the thread has acted");
    }

    #[test]
    fn a_post_after_more_polls_lengthens_the_time_for_it() {
        let mut looks = Looks::new();
        let act_after = |looks: &mut Looks, completion: u32, polls: u32| {
            let looked_on = (0..polls).filter(|_| looks.look(sight(0, completion, false))).count();
            looks.posted(completion);
            looked_on as u32
        };
        assert_eq!(act_after(&mut looks, 1, 20), LAG_FIRST);
        assert_eq!(act_after(&mut looks, 2, 20), 20);
        assert_eq!(act_after(&mut looks, 3, 100_000), 20);
        assert_eq!(act_after(&mut looks, 4, 100_000), 20, "such a program waits for something else");
    }

    #[test]
    fn a_post_after_a_completion_is_no_evidence() {
        let mut looks = Looks::new();
        assert!(looks.look(sight(1, 0, false)));
        looks.posted(1);
        assert_eq!(looks.evidence, 0);
    }
}
