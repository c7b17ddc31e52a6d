//! The block of a rank: steps and their order.

use super::collectives::{Collective, Round};
use super::{CONTROL_BYTES, Channel, Options, Role, Tags};
use crate::recording::{AGAIN, Call, Communicator, Line, RecordingError, fail};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Most steps that each later step names before a step joins them.
const JOIN_MAX: usize = 3;
/// Largest message of a trace, in bytes.
const BYTES_MAX: u64 = 1 << 30;
/// Longest computation that a trace may state in one step, in nanoseconds.
const CALC_NANOS_MAX: u64 = 3_600_000_000_000;

/// Event of a step that later steps wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Begun(u32),
    Done(u32),
}

/// Communicator of this rank: number in the trace, and members.
struct Group {
    number: u32,
    members: Vec<u32>,
    is_plain: bool,
}

/// Message that a request received: sender, tag and bytes.
type Got = [i64; 3];

pub(super) struct RankTrace<'a> {
    rank: u32,
    options: &'a Options,
    tags: &'a mut Tags,
    text: &'a mut String,
    steps: u32,
    /// Events that the next step waits for.
    frontier: Vec<Event>,
    /// Events at the end of each open request.
    requests: BTreeMap<u64, Vec<Event>>,
    /// What each receive request will get.
    results: BTreeMap<u64, Got>,
    groups: Vec<Group>,
    group_counts: BTreeMap<Vec<i64>, u32>,
}

impl<'a> RankTrace<'a> {
    pub(super) fn new(rank: u32, options: &'a Options, tags: &'a mut Tags, text: &'a mut String) -> Self {
        let (requests, results, groups, group_counts) = Default::default();
        Self { rank, options, tags, text, steps: 0, frontier: Vec::new(), requests, results, groups, group_counts }
    }

    pub(super) fn write(mut self, lines: &[Line]) -> Result<(), RecordingError> {
        for done in lines.iter().filter_map(Line::call).filter_map(|call| call.done.as_ref()).flatten() {
            if let [request, from, tag, bytes] = done[..] {
                self.results.insert(request as u64, [from, tag, bytes]);
            }
        }
        let mut number = 0;
        for line in lines {
            match line {
                Line::Communicator(new) => self.add_group(new),
                Line::Call(call) => {
                    self.compute((call.nanos as f64 * self.options.factor).round() as u64);
                    self.compute(call.at.unwrap_or_default());
                    self.call(call)
                        .map_err(|error| RecordingError { message: format!("rank {}, call {number}: {}", self.rank, error.message), ..error })?;
                    number += usize::from(!call.is_poll());
                }
            }
        }
        Ok(())
    }

    fn add_group(&mut self, new: &Communicator) {
        let count = self.group_counts.entry(new.members.clone()).or_default();
        let number = self.tags.communicator(&new.members, *count);
        *count += 1;
        let members: Vec<u32> = new.members.iter().filter_map(|member| u32::try_from(*member).ok()).collect();
        let is_plain = new.inter == 0 && members.len() == new.members.len();
        self.groups.push(Group { number, members, is_plain });
    }

    fn compute(&mut self, mut nanos: u64) {
        while nanos > 0 {
            let part = nanos.min(CALC_NANOS_MAX);
            let step = self.step(&format!("calc {part}"), &self.frontier.clone());
            self.frontier = vec![Event::Done(step)];
            nanos -= part;
        }
    }

    /// Writes a step and its order. Returns its number.
    fn step(&mut self, what: &str, after: &[Event]) -> u32 {
        let step = self.steps;
        self.steps += 1;
        let _ = writeln!(self.text, "l{step}: {what}");
        for event in after {
            let _ = match event {
                Event::Begun(earlier) => writeln!(self.text, "l{step} irequires l{earlier}"),
                Event::Done(earlier) => writeln!(self.text, "l{step} requires l{earlier}"),
            };
        }
        step
    }

    fn set_frontier(&mut self, mut events: Vec<Event>) {
        events.dedup();
        if events.len() > JOIN_MAX {
            let join = self.step("calc 0", &events);
            events = vec![Event::Done(join)];
        }
        if !events.is_empty() {
            self.frontier = events;
        }
    }

    fn call(&mut self, call: &Call) -> Result<(), RecordingError> {
        let sizes = call.bytes.iter().chain(call.sizes.iter().flatten()).chain(call.receive_sizes.iter().flatten());
        if let Some(bytes) = sizes.copied().find(|bytes| *bytes > BYTES_MAX) {
            return fail(format!("{} of {bytes} bytes is too large", call.name), format!("{BYTES_MAX} are the most: use a smaller problem"));
        }
        match call.name.as_str() {
            "MPI_Init" | "MPI_Wtime" | "MPI_Finalize" | "MPI_Comm_free" | "MPI_Comm_create_group" | "MPI_Probe" => Ok(()),
            "MPI_Send" | "MPI_Rsend" => self.send(call, Completion::Blocking),
            "MPI_Bsend" => self.send(call, Completion::Buffered),
            "MPI_Isend" | "MPI_Irsend" | "MPI_Ibsend" | "MPI_Irecv" | "MPI_Start" => self.start(call),
            "MPI_Send_init" | "MPI_Bsend_init" | "MPI_Rsend_init" | "MPI_Recv_init" => Ok(()),
            "MPI_Recv" => self.exchange(call),
            "MPI_Sendrecv" | "MPI_Sendrecv_replace" => self.exchange(call),
            "MPI_Request_free" => Ok(()),
            name if name.starts_with("MPI_Wait") || call.is_poll() => {
                self.finish(call);
                Ok(())
            }
            name => match Collective::of(call) {
                Some(collective) => self.collective(call, &collective),
                None => fail(
                    format!("a trace cannot express {name}"),
                    "docs/mpi-recording.md lists the calls of traces; `--compute recorded` replays the others too",
                ),
            },
        }
    }

    fn group(&self, call: &Call) -> Result<&Group, RecordingError> {
        match call.comm.and_then(|comm| self.groups.get(comm as usize)) {
            Some(group) if group.is_plain => Ok(group),
            Some(_) => fail(format!("{} is on an intercommunicator, which a trace cannot express", call.name), "use a communicator of one group"),
            None => fail(format!("{} has no communicator", call.name), AGAIN),
        }
    }

    fn channel(&self, call: &Call, tag: i64) -> Result<Channel, RecordingError> {
        Ok(Channel { communicator: self.group(call)?.number, tag: Some(tag), role: Role::Data })
    }

    /// Starts a send or a receive, and keeps its end for the request.
    fn start(&mut self, call: &Call) -> Result<(), RecordingError> {
        let Some(request) = call.request else {
            return Ok(()); // MPI had finished the request at once, as with MPI_PROC_NULL
        };
        let ends = if call.to.is_some() {
            let (ends, begun) = self.put_send(call)?;
            if let Some(begun) = begun {
                self.frontier = vec![begun];
            }
            if call.name == "MPI_Ibsend" { Vec::new() } else { ends }
        } else {
            match self.results.get(&request).copied() {
                Some(got) => self.put_receive(call, got)?,
                None => return fail(format!("the receive of {} never ended", call.name), "let the program wait for each receive"),
            }
        };
        self.requests.insert(request, ends);
        Ok(())
    }

    fn send(&mut self, call: &Call, completion: Completion) -> Result<(), RecordingError> {
        let (ends, begun) = self.put_send(call)?;
        match completion {
            Completion::Blocking if !ends.is_empty() => self.set_frontier(ends),
            _ => self.set_frontier(begun.into_iter().collect()),
        }
        Ok(())
    }

    /// Receives, and sends at the same time if the call does.
    fn exchange(&mut self, call: &Call) -> Result<(), RecordingError> {
        let mut ends = Vec::new();
        if let Some(got) = call.got {
            ends.extend(self.put_receive(call, got)?);
        }
        if call.to.is_some() {
            let (sent, begun) = self.put_send(call)?;
            ends.extend(if sent.is_empty() { begun.into_iter().collect() } else { sent });
        }
        self.set_frontier(ends);
        Ok(())
    }

    fn finish(&mut self, call: &Call) {
        let mut events = self.frontier.clone();
        for done in call.done.iter().flatten() {
            events.extend(self.requests.remove(&(done[0] as u64)).unwrap_or_default());
        }
        self.set_frontier(events);
    }

    /// Writes the sent message of a call. Returns the events at its end, none if it ends at once,
    /// and the event that lets the rank continue.
    fn put_send(&mut self, call: &Call) -> Result<(Vec<Event>, Option<Event>), RecordingError> {
        let (Some(to), Some(tag), Some(bytes)) = (call.to, call.tag, call.bytes) else {
            return fail(format!("{} lacks its receiver, tag or size", call.name), AGAIN);
        };
        let Ok(to) = u32::try_from(to) else { return Ok((Vec::new(), None)) };
        let channel = self.channel(call, tag)?;
        Ok(self.message_out(to, bytes, channel, &self.frontier.clone()))
    }

    fn put_receive(&mut self, call: &Call, [from, tag, bytes]: Got) -> Result<Vec<Event>, RecordingError> {
        let Ok(from) = u32::try_from(from) else { return Ok(Vec::new()) };
        let channel = self.channel(call, tag)?;
        Ok(vec![self.message_in(from, bytes.max(0) as u64, channel, &self.frontier.clone())])
    }

    fn message_out(&mut self, to: u32, bytes: u64, channel: Channel, after: &[Event]) -> (Vec<Event>, Option<Event>) {
        let tag = self.tags.of(channel);
        if self.options.protocol.is_some() {
            let send = self.step(&format!("send {bytes}b to {to} tag {tag}"), after);
            return (vec![Event::Done(send)], Some(Event::Begun(send)));
        }
        if bytes <= self.options.eager_bytes {
            let send = self.step(&format!("send {bytes}b to {to} tag {tag}"), after);
            return (Vec::new(), Some(Event::Begun(send)));
        }
        let announced = self.tags.of(Channel { role: Role::Announcement, ..channel });
        let answered = self.tags.of(Channel { role: Role::Answer, ..channel });
        let announcement = self.step(&format!("send {CONTROL_BYTES}b to {to} tag {announced}"), after);
        let answer = self.step(&format!("recv {CONTROL_BYTES}b from {to} tag {answered}"), &[Event::Begun(announcement)]);
        let data = self.step(&format!("send {bytes}b to {to} tag {tag}"), &[Event::Done(answer)]);
        (vec![Event::Done(data)], Some(Event::Begun(announcement)))
    }

    fn message_in(&mut self, from: u32, bytes: u64, channel: Channel, after: &[Event]) -> Event {
        let tag = self.tags.of(channel);
        if self.options.protocol.is_some() || bytes <= self.options.eager_bytes {
            return Event::Done(self.step(&format!("recv {bytes}b from {from} tag {tag}"), after));
        }
        let announced = self.tags.of(Channel { role: Role::Announcement, ..channel });
        let answered = self.tags.of(Channel { role: Role::Answer, ..channel });
        let announcement = self.step(&format!("recv {CONTROL_BYTES}b from {from} tag {announced}"), after);
        let answer = self.step(&format!("send {CONTROL_BYTES}b to {from} tag {answered}"), &[Event::Done(announcement)]);
        Event::Done(self.step(&format!("recv {bytes}b from {from} tag {tag}"), &[Event::Begun(answer)]))
    }

    fn collective(&mut self, call: &Call, collective: &Collective) -> Result<(), RecordingError> {
        let group = self.group(call)?;
        let members = group.members.clone();
        let channel = Channel { communicator: group.number, tag: None, role: Role::Data };
        let place = |rank: i64| members.iter().position(|member| i64::from(*member) == rank).map(|place| place as u32);
        let Some(own) = place(i64::from(self.rank)) else { return fail(format!("{} is on a communicator without this rank", call.name), AGAIN) };
        let root = match call.root {
            None => 0,
            Some(root) => match place(root) {
                Some(root) => root,
                None => return fail(format!("the root of {} is not in its communicator", call.name), AGAIN),
            },
        };
        for round in collective.rounds(own, root, members.len() as u32) {
            self.round(&round, &members, channel);
        }
        Ok(())
    }

    /// Writes the messages of a round, which begin together. The next round waits for all.
    fn round(&mut self, round: &Round, members: &[u32], channel: Channel) {
        let after = self.frontier.clone();
        let mut ends = Vec::new();
        for (from, bytes) in &round.receives {
            ends.push(self.message_in(members[*from as usize], *bytes, channel, &after));
        }
        for (to, bytes) in &round.sends {
            let (sent, begun) = self.message_out(members[*to as usize], *bytes, channel, &after);
            ends.extend(if sent.is_empty() { begun.into_iter().collect() } else { sent });
        }
        self.set_frontier(ends);
    }
}

/// Event at which a send lets the program continue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Completion {
    /// The data are sent, or copied if the message is eager.
    Blocking,
    /// The data are copied.
    Buffered,
}
