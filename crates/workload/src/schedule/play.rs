//! Checks that a schedule completes: plays it without time, under rules that permit more than a real run.

use super::{Action, Schedule, ScheduleError, Wait};

/// Reason why a step of a cycle waits for the next step of the cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is ordered behind the next step, by [`Schedule::order`].
    Order(Wait),
    /// It receives a message of the next step.
    Message,
}

/// Two ranks and a tag.
type Key = (u32, u32, u32);

/// Sends and receives, grouped by key.
pub(super) struct Ends {
    /// Key, whether it is a receive, step.
    list: Vec<(Key, bool, u32)>,
    /// Start of each step's key in the list. Meaningless for calculations.
    start_of: Vec<u32>,
}

impl Ends {
    pub(super) fn of(schedule: &Schedule) -> Self {
        let end = |(number, step): (u32, &super::Step)| match step.action {
            Action::Send { to, tag, .. } => Some(((step.rank, to, tag), false, number)),
            Action::Receive { from, tag } => Some(((from, step.rank, tag), true, number)),
            Action::Calculate { .. } => None,
        };
        let mut list: Vec<_> = (0u32..).zip(&schedule.steps).filter_map(end).collect();
        list.sort_unstable();
        let mut start_of = vec![0; schedule.steps.len()];
        let mut start = 0;
        for (place, (key, _, step)) in list.iter().enumerate() {
            if list[start].0 != *key {
                start = place;
            }
            start_of[*step as usize] = start as u32;
        }
        Self { list, start_of }
    }

    /// Returns all entries of the key that begins at a place.
    fn same_key(&self, start: u32) -> impl Iterator<Item = (bool, u32)> {
        let from = &self.list[start as usize..];
        from.iter().take_while(|(key, _, _)| *key == from[0].0).map(|(_, receives, step)| (*receives, *step))
    }

    /// Checks that each key has as many messages as receives.
    pub(super) fn check(&self, schedule: &Schedule) -> Result<(), ScheduleError> {
        for same in self.list.chunk_by(|(key, ..), (other, ..)| key == other) {
            let (sends, receives) = same.split_at(same.partition_point(|(_, receives, _)| !receives));
            let mut left = receives.len() as u64;
            for (_, _, step) in sends {
                let Action::Send { messages, .. } = schedule.steps[*step as usize].action else { continue };
                left = left.checked_sub(u64::from(messages)).ok_or(ScheduleError::Unreceived { step: *step })?;
            }
            if left > 0 {
                return Err(ScheduleError::Unsent { step: receives[receives.len() - left as usize].2 });
            }
        }
        Ok(())
    }
}

/// A step with its state in the play.
#[derive(Clone, Copy, Default)]
struct Played {
    /// Unmet orders that it waits for. With none left, the step has begun.
    waits: u32,
    is_done: bool,
}

/// A schedule in play. A send or calculation is done once it has begun. A receive is done once it
/// and any send of its key have begun.
/// If even this play does not complete, no run does.
struct Play<'a> {
    schedule: &'a Schedule,
    ends: &'a Ends,
    steps: Vec<Played>,
    /// By place in the list of ends: a key begins there, and a send of that key has begun.
    has_come: Vec<bool>,
    /// Begun steps that the play has not yet processed.
    begun: Vec<u32>,
}

/// Checks that the play completes.
///
/// # Errors
/// A cycle of steps that wait for each other.
pub(super) fn check(schedule: &Schedule, ends: &Ends) -> Result<(), ScheduleError> {
    let mut steps = vec![Played::default(); schedule.steps.len()];
    schedule.order.iter().for_each(|(_, later, _)| steps[*later as usize].waits += 1);
    let begun = (0..steps.len() as u32).filter(|step| steps[*step as usize].waits == 0).collect();
    let mut play = Play { schedule, ends, steps, has_come: vec![false; ends.list.len()], begun };
    play.run();
    match play.steps.iter().position(|step| !step.is_done) {
        Some(stuck) => Err(ScheduleError::Cycle(play.cycle_from(stuck as u32))),
        None => Ok(()),
    }
}

impl Play<'_> {
    fn run(&mut self) {
        let followers = self.schedule.followers();
        while let Some(step) = self.begun.pop() {
            self.release(followers.of(step), Wait::UntilBegun);
            let start = self.ends.start_of[step as usize];
            let is_done = match self.schedule.steps[step as usize].action {
                Action::Receive { .. } => self.has_come[start as usize],
                Action::Send { .. } | Action::Calculate { .. } => true,
            };
            if is_done {
                self.finish(step, followers.of(step));
            }
            if let Action::Send { .. } = self.schedule.steps[step as usize].action
                && !std::mem::replace(&mut self.has_come[start as usize], true)
            {
                let ends = self.ends;
                for (_, receive) in ends.same_key(start).filter(|(receives, _)| *receives) {
                    if self.steps[receive as usize].waits == 0 {
                        self.finish(receive, followers.of(receive));
                    }
                }
            }
        }
    }

    fn finish(&mut self, step: u32, followers: &[(u32, Wait)]) {
        if !std::mem::replace(&mut self.steps[step as usize].is_done, true) {
            self.release(followers, Wait::UntilDone);
        }
    }

    fn release(&mut self, followers: &[(u32, Wait)], what: Wait) {
        for (later, _) in followers.iter().filter(|(_, wait)| *wait == what) {
            let waits = &mut self.steps[*later as usize].waits;
            *waits -= 1;
            if *waits == 0 {
                self.begun.push(*later);
            }
        }
    }

    /// Follows waits from a stuck step until a step repeats. The cycle begins with its lowest step.
    fn cycle_from(&self, stuck: u32) -> Vec<(u32, Cause)> {
        // The first unmet order of each step.
        let mut order_of: Vec<Option<(u32, Wait)>> = vec![None; self.steps.len()];
        for (earlier, later, wait) in self.schedule.order.iter().rev() {
            let of_earlier = self.steps[*earlier as usize];
            let is_met = if *wait == Wait::UntilDone { of_earlier.is_done } else { of_earlier.waits == 0 };
            if !is_met {
                order_of[*later as usize] = Some((*earlier, *wait));
            }
        }
        let waits_for = |step: u32| match order_of[step as usize] {
            Some((earlier, wait)) => Some((earlier, Cause::Order(wait))),
            // It has begun, so it is a receive: only receives are not done then.
            None => self.ends.same_key(self.ends.start_of[step as usize]).next().map(|(_, send)| (send, Cause::Message)),
        };
        let mut seen = vec![false; self.steps.len()];
        let (mut path, mut at) = (Vec::new(), stuck);
        while !std::mem::replace(&mut seen[at as usize], true) {
            let Some((next, cause)) = waits_for(at) else { break };
            path.push((at, cause));
            at = next;
        }
        let start = path.iter().position(|(step, _)| *step == at).unwrap_or(0);
        let mut cycle = path.split_off(start);
        let first = (0..cycle.len()).min_by_key(|place| cycle[*place].0).unwrap_or(0);
        cycle.rotate_left(first);
        cycle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_sim::RandomStream;

    /// Returns steps of a few ranks with random orders and tags.
    fn drawn(seed: u64) -> Schedule {
        let mut random = RandomStream::new(seed, 1);
        let mut below = |bound: u32| (random.next_u64() % u64::from(bound)) as u32;
        let mut schedule = Schedule::new(3);
        schedule.receives_all = true;
        for _ in 0..1 + below(6) {
            let (from, to, tag) = (below(3), below(3), below(3));
            schedule.push(from, Action::Send { to, bytes: 1, messages: 1, tag });
            schedule.push(to, Action::Receive { from, tag });
        }
        for _ in 0..below(8) {
            let (earlier, later) = (below(schedule.steps.len() as u32), below(schedule.steps.len() as u32));
            let wait = if below(3) == 0 { Wait::UntilBegun } else { Wait::UntilDone };
            if schedule.steps[earlier as usize].rank == schedule.steps[later as usize].rank {
                schedule.order.push((earlier, later, wait));
            }
        }
        schedule
    }

    /// Returns whether some sequence of events completes. Tries the possible events of each state
    /// in every order.
    fn can_run(schedule: &Schedule, done: u64, begun: u64, tried: &mut std::collections::BTreeSet<(u64, u64)>) -> bool {
        let count = schedule.steps.len();
        if done == (1 << count) - 1 {
            return true;
        }
        if !tried.insert((done, begun)) {
            return false;
        }
        let is = |set: u64, step: u32| set >> step & 1 == 1;
        (0..count as u32).any(|step| {
            let met = |(earlier, later, wait): &(u32, u32, Wait)| *later != step || is(if *wait == Wait::UntilDone { done } else { begun }, *earlier);
            let bit = 1 << step;
            if !is(begun, step) {
                return schedule.order.iter().all(met) && can_run(schedule, done, begun | bit, tried);
            }
            if is(done, step) {
                return false;
            }
            let Action::Receive { from, tag } = schedule.steps[step as usize].action else {
                return can_run(schedule, done | bit, begun, tried);
            };
            let rank = schedule.steps[step as usize].rank;
            let of = |set: u64, action: &dyn Fn(&super::super::Step) -> bool| {
                (0..count as u32).filter(|other| is(set, *other) && action(&schedule.steps[*other as usize])).count()
            };
            let sent = of(begun, &|other| matches!(other.action, Action::Send { to, tag: its, .. } if (other.rank, to, its) == (from, rank, tag)));
            let taken = of(done, &|other| other.rank == rank && other.action == Action::Receive { from, tag });
            sent > taken && can_run(schedule, done | bit, begun, tried)
        })
    }

    #[test]
    fn what_can_run_is_never_refused_and_with_tags_of_their_own_all_else_is() {
        let mut outcomes = [0; 3];
        for seed in 0..500 {
            let schedule = drawn(seed);
            let runs = can_run(&schedule, 0, 0, &mut std::collections::BTreeSet::new());
            let found = schedule.check();
            assert!(!runs || found.is_ok(), "seed {seed}: {schedule:?}");
            let is_unique = {
                let mut actions: Vec<String> = schedule.steps.iter().map(|step| format!("{:?} {:?}", step.rank, step.action)).collect();
                actions.sort();
                actions.windows(2).all(|pair| pair[0] != pair[1])
            };
            assert!(runs || !is_unique || found.is_err(), "seed {seed}: {schedule:?}");
            outcomes[usize::from(runs) + usize::from(found.is_ok())] += 1;
        }
        assert!(outcomes[0] > 50 && outcomes[2] > 50, "{outcomes:?}");
    }

    #[test]
    fn a_cycle_across_ranks_goes_through_orders_and_messages() {
        let mut schedule = Schedule::new(2);
        for rank in 0..2 {
            let receive = schedule.push(rank, Action::Receive { from: 1 - rank, tag: 7 });
            let send = schedule.push(rank, Action::Send { to: 1 - rank, bytes: 8, messages: 1, tag: 7 });
            schedule.after(receive, send);
        }
        let order = Cause::Order(Wait::UntilDone);
        let cycle = vec![(0, Cause::Message), (3, order), (2, Cause::Message), (1, order)];
        assert_eq!(schedule.check(), Err(ScheduleError::Cycle(cycle)));
    }
}
