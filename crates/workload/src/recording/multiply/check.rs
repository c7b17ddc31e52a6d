//! Agreement of the calls of all ranks: each message has a receive, and all members of a communicator
//! make the same collectives.

use super::GRID;
use crate::recording::line::{Call, Line};
use crate::recording::{Recording, RecordingError, fail};
use std::collections::BTreeMap;

/// Communicator that all members know: its members, and how many before it have the same.
type Group = (Vec<i64>, u32);
/// Sender, receiver, communicator and tag.
type Channel = (i64, i64, Group, i64);

/// A call with its place.
#[derive(Clone, Copy)]
struct Place<'a> {
    rank: usize,
    number: usize,
    call: &'a Call,
}

#[derive(Default)]
struct Calls<'a> {
    /// Sizes of the messages of each channel, with the calls that send and receive them.
    sent: BTreeMap<Channel, Vec<(u64, Place<'a>)>>,
    received: BTreeMap<Channel, Vec<(u64, Place<'a>)>>,
    /// Collectives of each member.
    collectives: BTreeMap<Group, BTreeMap<usize, Vec<Place<'a>>>>,
}

/// Checks the calls of all ranks.
///
/// # Errors
/// The first call without a counterpart, with its rank and number.
pub(super) fn check(recording: &Recording) -> Result<(), RecordingError> {
    let mut calls = Calls::default();
    for (rank, lines) in recording.ranks.iter().enumerate() {
        calls.add_rank(rank, lines);
    }
    calls.check_messages()?;
    calls.check_collectives()
}

impl<'a> Calls<'a> {
    fn add_rank(&mut self, rank: usize, lines: &'a [Line]) {
        let (mut groups, mut counts): (Vec<Group>, BTreeMap<Vec<i64>, u32>) = Default::default();
        // The communicator of each receive request.
        let mut requests = BTreeMap::new();
        let mut number = 0;
        for line in lines {
            let call = match line {
                Line::Communicator(new) => {
                    let count = counts.entry(new.members.clone()).or_default();
                    groups.push((new.members.clone(), *count));
                    *count += 1;
                    continue;
                }
                Line::Call(call) => &**call,
            };
            let place = Place { rank, number, call };
            number += usize::from(!call.is_poll());
            let group = call.comm.and_then(|comm| groups.get(comm as usize)).cloned();
            self.add_ended(rank, place, &requests);
            // A probe looks at a message that a receive takes.
            let Some(group) = group.filter(|_| call.name != "MPI_Probe") else { continue };
            if let (Some(request), Some(_)) = (call.request, call.from) {
                requests.insert(request, group.clone());
            }
            if call.to.is_none() && call.from.is_none() {
                self.collectives.entry(group).or_default().entry(rank).or_default().push(place);
                continue;
            }
            let own = rank as i64;
            if let (Some(to @ (0..)), Some(tag), Some(bytes), false) = (call.to, call.tag, call.bytes, call.name.ends_with("_init")) {
                self.sent.entry((own, to, group.clone(), tag)).or_default().push((bytes, place));
            }
            if let Some([from @ (0..), tag, bytes]) = call.got {
                self.received.entry((from, own, group, tag)).or_default().push((bytes as u64, place));
            }
        }
    }

    /// Adds the receives that end with a call.
    fn add_ended(&mut self, rank: usize, place: Place<'a>, requests: &BTreeMap<u64, Group>) {
        for done in place.call.done.iter().flatten() {
            if let [request, from @ (0..), tag, bytes] = done[..]
                && let Some(group) = requests.get(&(request as u64))
            {
                self.received.entry((from, rank as i64, group.clone(), tag)).or_default().push((bytes as u64, place));
            }
        }
    }

    fn check_messages(&mut self) -> Result<(), RecordingError> {
        let none = Vec::new();
        for (channel, sent) in &mut self.sent {
            let received = self.received.get_mut(channel).map_or_else(Vec::new, std::mem::take);
            compare(channel, sent, &received)?;
        }
        self.received.iter().try_for_each(|(channel, received)| compare(channel, &none, received))
    }

    fn check_collectives(&self) -> Result<(), RecordingError> {
        for ((members, _), of_members) in &self.collectives {
            let Some((first, calls)) = of_members.iter().next() else { continue };
            for member in members {
                let others: &[Place<'_>] = of_members.get(&(*member as usize)).map_or(&[], |calls| calls);
                let differs = calls.iter().zip(others).find(|(one, other)| words(one.call) != words(other.call));
                if let Some((one, other)) = differs {
                    return refuse(*other, &format!("is {}, and call {} of rank {first} is {}", words(other.call), one.number, words(one.call)));
                }
                let more = if calls.len() > others.len() { calls.get(others.len()) } else { others.get(calls.len()) };
                if let Some(place) = more {
                    let lacks = if place.rank == *first { *member } else { *first as i64 };
                    return refuse(*place, &format!("is {}, which rank {lacks} does not make", words(place.call)));
                }
            }
        }
        Ok(())
    }
}

/// Compares the messages of a channel at both ends.
fn compare((from, to, _, tag): &Channel, sent: &[(u64, Place<'_>)], received: &[(u64, Place<'_>)]) -> Result<(), RecordingError> {
    let by_size = |list: &[(u64, Place<'_>)]| {
        let mut sizes: Vec<u64> = list.iter().map(|(bytes, _)| *bytes).collect();
        sizes.sort_unstable();
        sizes
    };
    if by_size(sent) == by_size(received) {
        return Ok(());
    }
    if sent.len() == received.len() {
        let wrong = sent.iter().zip(received).find(|(one, other)| one.0 != other.0);
        let Some(((bytes, place), (other, _))) = wrong else { return Ok(()) };
        return refuse(*place, &format!("sends {bytes} bytes to rank {to} with tag {tag}, which receives {other}"));
    }
    match (sent.get(received.len()), received.get(sent.len())) {
        (Some((bytes, place)), _) => refuse(*place, &format!("sends {bytes} bytes to rank {to} with tag {tag}, which does not receive them")),
        (None, Some((bytes, place))) => refuse(*place, &format!("receives {bytes} bytes of rank {from} with tag {tag}, which does not send them")),
        (None, None) => Ok(()),
    }
}

fn refuse(place: Place<'_>, what: &str) -> Result<(), RecordingError> {
    fail(format!("rank {} of the larger grid, call {}: {} {what}", place.rank, place.number, place.call.name), GRID)
}

/// Returns the call with what all members must agree on.
fn words(call: &Call) -> String {
    let uniform = ["MPI_Bcast", "MPI_Reduce", "MPI_Allreduce", "MPI_Alltoall", "MPI_Allgather", "MPI_Scan"].contains(&call.name.as_str());
    let bytes = call.bytes.filter(|_| uniform).map_or_else(String::new, |bytes| format!(" of {bytes} bytes"));
    let root = call.root.map_or_else(String::new, |root| format!(" with root {root}"));
    format!("{}{bytes}{root}", call.name)
}
