//! Sockets of programs that the TCP/IP of their hosts carries.
//!
//! The stack has the state of a socket. This table has the state in front of it: the socket's
//! name, a connection that waits for a listener, and the readiness that programs last saw.

use softband_ipc::calls::readiness;
use softband_net::SocketId;
use softband_sim::SimTime;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A socket of a host's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host: usize,
    pub(crate) socket: SocketId,
    pub(crate) is_datagram: bool,
}

/// Connection that the stack has not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    None,
    /// No program listens at the address yet. The wait has an end.
    Seeking(SocketAddr, SimTime),
    /// No program came to listen. A call tells the program once.
    Refused(i32),
    /// The program has closed the socket, and waits for the peer (`SO_LINGER`).
    Closed,
}

#[derive(Debug)]
struct Entry {
    place: Place,
    attempt: Attempt,
    /// Readiness bits at the last look at the stack.
    ready: u32,
    /// Process that gets signals about urgent data.
    owner: Option<usize>,
    /// A rule lets the socket use SDP beside TCP.
    may_use_sdp: bool,
    /// Listening socket of SDP behind the same object.
    twin: Option<SocketId>,
}

/// All sockets that stacks carry, by object.
#[derive(Debug, Default)]
pub(crate) struct StackSockets {
    entries: BTreeMap<u32, Entry>,
    /// Sockets without an object, which their stacks have to close.
    closed: Vec<Place>,
}

impl StackSockets {
    pub(crate) fn open(&mut self, object: u32, place: Place) {
        self.entries.insert(object, Entry { place, attempt: Attempt::None, ready: 0, owner: None, may_use_sdp: false, twin: None });
    }

    /// Forgets the socket of an object whose last reference has gone.
    pub(crate) fn close(&mut self, object: u32) {
        if let Some(entry) = self.entries.remove(&object) {
            self.closed.push(entry.place);
            self.closed.extend(entry.twin.map(|socket| Place { socket, ..entry.place }));
        }
    }

    /// Takes the sockets that stacks have to close.
    pub(crate) fn take_closed(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.closed)
    }

    pub(crate) fn place(&self, object: u32) -> Option<Place> {
        self.entries.get(&object).map(|entry| entry.place)
    }

    /// Lets a socket use SDP beside TCP.
    pub(crate) fn allow_sdp(&mut self, object: u32) {
        if let Some(entry) = self.entries.get_mut(&object) {
            entry.may_use_sdp = true;
        }
    }

    pub(crate) fn may_use_sdp(&self, object: u32) -> bool {
        self.entries.get(&object).is_some_and(|entry| entry.may_use_sdp)
    }

    /// Adds a listening socket of SDP to an object.
    pub(crate) fn set_twin(&mut self, object: u32, twin: SocketId) {
        if let Some(entry) = self.entries.get_mut(&object) {
            entry.twin = Some(twin);
        }
    }

    /// Takes the listening socket of SDP from an object, for its stack to close. Returns whether there
    /// was one.
    pub(crate) fn close_twin(&mut self, object: u32) -> bool {
        let Some(entry) = self.entries.get_mut(&object) else { return false };
        let twin = entry.twin.take().map(|socket| Place { socket, ..entry.place });
        self.closed.extend(twin);
        twin.is_some()
    }

    /// Returns the listening socket of SDP behind an object.
    pub(crate) fn twin(&self, object: u32) -> Option<SocketId> {
        self.entries.get(&object)?.twin
    }

    pub(crate) fn readiness(&self, object: u32) -> u32 {
        let Some(entry) = self.entries.get(&object) else { return readiness::ERROR | readiness::HANG_UP };
        match entry.attempt {
            Attempt::None => entry.ready,
            Attempt::Seeking(..) => 0,
            Attempt::Refused(_) => readiness::ANY,
            Attempt::Closed => entry.ready & readiness::DRAINED,
        }
    }

    /// Names the process that gets signals about urgent data.
    pub(crate) fn set_owner(&mut self, object: u32, owner: Option<usize>) {
        if let Some(entry) = self.entries.get_mut(&object) {
            entry.owner = owner;
        }
    }

    pub(crate) fn owner(&self, object: u32) -> Option<usize> {
        self.entries.get(&object)?.owner
    }

    pub(crate) fn set_readiness(&mut self, object: u32, ready: u32) {
        if let Some(entry) = self.entries.get_mut(&object) {
            entry.ready = ready;
        }
    }

    /// Notes that a socket waits for a listener at `to`.
    pub(crate) fn seek(&mut self, object: u32, to: SocketAddr, until: SimTime) {
        self.set_attempt(object, Attempt::Seeking(to, until));
    }

    /// Notes that the stack carries out the attempt from now on, or that it has ended.
    pub(crate) fn end_seek(&mut self, object: u32) {
        self.set_attempt(object, Attempt::None);
    }

    /// Notes that the attempt failed.
    pub(crate) fn refuse(&mut self, object: u32, errno: i32) {
        self.set_attempt(object, Attempt::Refused(errno));
    }

    /// Notes that the program has closed the socket, whose object stays while `close` waits.
    pub(crate) fn linger(&mut self, object: u32) {
        self.set_attempt(object, Attempt::Closed);
    }

    fn set_attempt(&mut self, object: u32, attempt: Attempt) {
        if let Some(entry) = self.entries.get_mut(&object) {
            entry.attempt = attempt;
        }
    }

    /// Returns the address at which a socket waits for a listener.
    pub(crate) fn sought(&self, object: u32) -> Option<SocketAddr> {
        self.seeking(object).map(|(to, _)| to)
    }

    /// Returns until when a socket waits for a listener.
    pub(crate) fn seeks_until(&self, object: u32) -> Option<SimTime> {
        self.seeking(object).map(|(_, until)| until)
    }

    fn seeking(&self, object: u32) -> Option<(SocketAddr, SimTime)> {
        match self.entries.get(&object)?.attempt {
            Attempt::Seeking(to, until) => Some((to, until)),
            Attempt::None | Attempt::Refused(_) | Attempt::Closed => None,
        }
    }

    /// Fails with the error of a refused attempt, which a call sees once.
    pub(crate) fn take_refusal(&mut self, object: u32) -> Result<(), i32> {
        match self.entries.get_mut(&object) {
            Some(Entry { attempt: attempt @ Attempt::Refused(_), .. }) => {
                let Attempt::Refused(errno) = std::mem::replace(attempt, Attempt::None) else { return Ok(()) };
                Err(errno)
            }
            _ => Ok(()),
        }
    }

    /// Returns the sockets that wait for a listener, each with its host and the listener's address.
    pub(crate) fn seekers(&self) -> Vec<(u32, usize, SocketAddr)> {
        let seeking = |(object, entry): (&u32, &Entry)| match entry.attempt {
            Attempt::Seeking(to, _) => Some((*object, entry.place.host, to)),
            Attempt::None | Attempt::Refused(_) | Attempt::Closed => None,
        };
        self.entries.iter().filter_map(seeking).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_net::calls::Open;
    use softband_net::{Family, Protocol, Stack};

    fn place() -> Place {
        let mut stack = Stack::new(softband_model::parts::KernelPart::linux_6_1(), 1);
        let socket = stack.call(SimTime::ZERO, Open { family: Family::V4, protocol: Protocol::Stream }).unwrap();
        Place { host: 3, socket, is_datagram: false }
    }

    #[test]
    fn an_attempt_ends_by_a_listener_or_by_one_refusal() {
        let (mut table, to) = (StackSockets::default(), "198.18.0.2:80".parse().unwrap());
        table.open(7, place());
        table.set_readiness(7, readiness::WRITABLE);
        table.seek(7, to, SimTime::from_picos(9));
        assert_eq!((table.readiness(7), table.seekers(), table.sought(7)), (0, vec![(7, 3, to)], Some(to)));
        table.refuse(7, 111);
        assert_eq!((table.readiness(7), table.sought(7)), (readiness::ANY, None));
        assert_eq!((table.take_refusal(7), table.take_refusal(7)), (Err(111), Ok(())));
        assert_eq!(table.readiness(7), readiness::WRITABLE);
    }

    #[test]
    fn a_twin_closes_once() {
        let mut table = StackSockets::default();
        table.open(7, place());
        table.set_twin(7, place().socket);
        assert_eq!((table.close_twin(7), table.close_twin(7), table.twin(7)), (true, false, None));
        table.close(7);
        assert_eq!(table.take_closed(), [place(), place()]);
    }

    #[test]
    fn a_closed_socket_waits_for_its_stack() {
        let mut table = StackSockets::default();
        table.open(7, place());
        table.close(7);
        table.close(7);
        assert_eq!((table.take_closed(), table.take_closed()), (vec![place()], vec![]));
        assert_eq!(table.readiness(7) & readiness::ERROR, readiness::ERROR);
    }
}
