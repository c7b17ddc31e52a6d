//! The objects behind descriptors of programs: sockets, completion channels, channels of
//! asynchronous events, MAD devices, timers.

use rustix::net::SocketAddrUnix;
use softband_ipc::calls::readiness;
use softband_sim::SimTime;
use std::collections::{BTreeMap, VecDeque};

/// An object behind descriptors. Sockets and MAD devices also have their own tables.
#[derive(Debug)]
pub(crate) enum Object {
    Socket,
    DatagramSocket,
    /// A socket of either kind that the host's stack carries.
    StackSocket,
    /// Events of CQs: time from which the event is visible, cookie, CQ.
    CompletionChannel(VecDeque<(SimTime, u64, u32)>),
    /// Asynchronous events of an HCA: time from which the event is visible, event, element.
    AsyncChannel {
        process: u32,
        hca: u32,
        events: VecDeque<(SimTime, u32, u32)>,
    },
    /// An open `umadN` or `issmN`.
    ManagementDevice,
    /// An open `rdma_cm`.
    ConnectionManager,
    Timer {
        at: SimTime,
        interval_picos: u64,
        expirations: u64,
        generation: u32,
    },
}

/// The edges of an object: moments at which a program that waits for edges learns of its readiness.
/// Each has a number. The fields have the numbers of the last ones.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Edges {
    last: u32,
    readable: u32,
    writable: u32,
    /// A change of the object's state, which concerns any interest.
    any: u32,
}

impl Edges {
    /// Notes an edge that concerns these readiness bits.
    fn note(&mut self, bits: u32) {
        self.last += 1;
        match bits {
            readiness::READABLE => self.readable = self.last,
            readiness::WRITABLE => self.writable = self.last,
            _ => self.any = self.last,
        }
    }

    pub(crate) fn last(self) -> u32 {
        self.last
    }

    /// Returns whether an edge behind number `seen` concerns an interest.
    pub(crate) fn has_news(self, interest: u32, seen: u32) -> bool {
        let concerns = |bit: u32, edge: u32| interest & bit != 0 && edge > seen;
        self.any > seen || concerns(readiness::READABLE, self.readable) || concerns(readiness::WRITABLE, self.writable)
    }
}

/// All objects, each with the number of references that programs hold.
#[derive(Default)]
pub(crate) struct Objects {
    all: BTreeMap<u32, (Object, u32)>,
    /// Edges of the objects that have had any.
    edges: BTreeMap<u32, Edges>,
    /// In wall pace: sockets by which programs get the events of their channels.
    event_sockets: BTreeMap<u32, (usize, SocketAddrUnix)>,
    last: u32,
}

impl Objects {
    /// Adds an object with one reference, and returns its number.
    pub(crate) fn add(&mut self, object: Object) -> u32 {
        self.last += 1;
        self.all.insert(self.last, (object, 1));
        self.last
    }
    pub(crate) fn get(&self, number: u32) -> Option<&Object> {
        self.all.get(&number).map(|(object, _)| object)
    }
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Object> {
        self.all.get_mut(&number).map(|(object, _)| object)
    }
    /// Notes an edge of an object that concerns these readiness bits.
    pub(crate) fn note_edge(&mut self, number: u32, bits: u32) {
        if self.all.contains_key(&number) {
            self.edges.entry(number).or_default().note(bits);
        }
    }
    pub(crate) fn edges(&self, number: u32) -> Edges {
        self.edges.get(&number).copied().unwrap_or_default()
    }
    pub(crate) fn retain(&mut self, number: u32) -> bool {
        self.all.get_mut(&number).map(|(_, references)| *references += 1).is_some()
    }
    /// Returns the number of references to an object.
    pub(crate) fn references(&self, number: u32) -> u32 {
        self.all.get(&number).map_or(0, |(_, references)| *references)
    }
    /// Releases a reference. Returns the object if this was the last reference.
    pub(crate) fn release(&mut self, number: u32) -> Option<Object> {
        let (_, references) = self.all.get_mut(&number)?;
        *references -= 1;
        if *references > 0 {
            return None;
        }
        self.event_sockets.remove(&number);
        self.edges.remove(&number);
        self.all.remove(&number).map(|(object, _)| object)
    }
    /// Sets the socket by which the process gets the events of the object.
    pub(crate) fn set_event_socket(&mut self, number: u32, socket: (usize, SocketAddrUnix)) {
        if self.all.contains_key(&number) {
            self.event_sockets.insert(number, socket);
        }
    }
    pub(crate) fn event_socket(&self, number: u32) -> Option<(usize, &SocketAddrUnix)> {
        self.event_sockets.get(&number).map(|(process, socket)| (*process, socket))
    }
    /// Returns the times at which armed timers fire.
    pub(crate) fn timers(&self) -> impl Iterator<Item = SimTime> {
        self.all.values().filter_map(|(object, _)| match object {
            Object::Timer { at, .. } => Some(*at).filter(|at| *at > SimTime::ZERO),
            _ => None,
        })
    }

    /// Returns the channels for asynchronous events of `hca` in `process`.
    pub(crate) fn async_channel(&mut self, process: u32, hca: u32) -> Vec<u32> {
        let mine = |object: &Object| matches!(object, Object::AsyncChannel { process: p, hca: h, .. } if *p == process && *h == hca);
        self.all.iter().filter(|(_, (object, _))| mine(object)).map(|(number, _)| *number).collect()
    }
}

impl Object {
    /// Returns the readiness bits at `now`. Sockets and MAD devices have their own readiness.
    pub(crate) fn readiness(&self, now: SimTime) -> u32 {
        let visible = match self {
            Self::Socket | Self::DatagramSocket | Self::StackSocket | Self::ManagementDevice | Self::ConnectionManager => false,
            Self::CompletionChannel(events) => events.front().is_some_and(|(at, ..)| *at <= now),
            Self::AsyncChannel { events, .. } => events.front().is_some_and(|(at, ..)| *at <= now),
            Self::Timer { expirations, .. } => *expirations > 0,
        };
        u32::from(visible) * readiness::READABLE
    }
}

/// Kind of object whose destruction removes its asynchronous events.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    QueuePair,
    SharedQueue,
}

impl About {
    /// Returns whether the event of this number (`enum ibv_event_type`) concerns this kind.
    fn is_about(self, event: u32) -> bool {
        match self {
            Self::QueuePair => matches!(event, 1..=7 | 16),
            Self::SharedQueue => matches!(event, 14 | 15),
        }
    }
}

/// Removes the events of a destroyed object from a channel, and returns their number.
pub(crate) fn drop_async_events(channel: &mut Object, about: About, element: u32) -> usize {
    let Object::AsyncChannel { events, .. } = channel else { return 0 };
    let before = events.len();
    events.retain(|(_, event, of)| *of != element || !about.is_about(*event));
    before - events.len()
}

/// Removes the events of CQ `cq` from `channel`. They end with the queue.
pub(crate) fn drop_events_of(channel: &mut Object, cq: u32) {
    if let Object::CompletionChannel(events) = channel {
        events.retain(|(_, _, of)| *of != cq);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use readiness::{ANY, READABLE, WRITABLE};

    #[test]
    fn an_edge_is_news_for_the_interest_that_it_concerns() {
        let mut objects = Objects::default();
        let number = objects.add(Object::Socket);
        assert!(!objects.edges(number).has_news(READABLE | WRITABLE, 0));
        objects.note_edge(number, READABLE);
        assert!(objects.edges(number).has_news(READABLE, 0));
        assert!(!objects.edges(number).has_news(WRITABLE, 0));
        let seen = objects.edges(number).last();
        assert!(!objects.edges(number).has_news(READABLE, seen));
        objects.note_edge(number, WRITABLE);
        assert!(!objects.edges(number).has_news(READABLE, seen));
        assert!(objects.edges(number).has_news(READABLE | WRITABLE, seen));
        objects.note_edge(number, ANY);
        assert!(objects.edges(number).has_news(0, seen));
        objects.release(number);
        objects.note_edge(number, ANY);
        assert_eq!(objects.edges(number).last(), 0);
    }
}
