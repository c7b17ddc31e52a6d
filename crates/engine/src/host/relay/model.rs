//! The model's side of the relay: calls to the TCP/IP of a host, at the time of the machine's clock.

use super::pump::{Given, PIECE_BYTES, Put, Sink, Source};
use crate::host::kernel::Kernels;
use softband_fabric::World;
use softband_net::calls::{Close, PeerAddress, Receive, Send, SetOption, Shutdown, SocketOption};
use softband_net::{Call, NetError, Payload, SocketId};
use softband_sim::{SimDuration, SimTime};

/// The kernels of all hosts, for one moment.
pub(crate) struct Model<'a> {
    pub(crate) kernels: &'a mut Kernels,
    pub(crate) world: &'a mut World,
    pub(crate) now: SimTime,
}

impl Model<'_> {
    pub(super) fn ask<C: Call>(&mut self, host: usize, call: C) -> (Result<C::Reply, NetError>, SimDuration) {
        self.kernels.call(self.world, self.now, host, call)
    }

    /// Sets an option that every stream has.
    pub(super) fn set(&mut self, host: usize, socket: SocketId, option: SocketOption) {
        let (done, _) = self.ask(host, SetOption { socket, option });
        debug_assert!(done.is_ok() || done == Err(NetError::BadSocket), "a stream has the option");
    }

    /// Lets a socket have an address that ended connections still have.
    pub(super) fn share_address(&mut self, host: usize, socket: SocketId) {
        self.set(host, socket, SocketOption::ReuseAddress(true));
    }

    pub(super) fn is_connected(&mut self, host: usize, socket: SocketId) -> bool {
        self.ask(host, PeerAddress { socket }).0.is_ok()
    }

    pub(super) fn close(&mut self, host: usize, socket: SocketId) {
        let _ = self.ask(host, Close { socket });
    }

    /// Closes a connection by a reset.
    pub(super) fn reset(&mut self, host: usize, socket: SocketId) {
        self.set(host, socket, SocketOption::Linger(Some(SimDuration::ZERO)));
        self.close(host, socket);
    }
}

/// Longest time that a thread makes up for.
const CATCH_UP: SimDuration = SimDuration::from_micros(10_000);

/// The thread that a program has for one direction. Its calls take the time of the host's part.
///
/// The relay comes late to each call, because the machine has other work. A thread with more to do
/// makes up for the delay: its next call counts from the end of the last one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Thread {
    free_at: SimTime,
    /// The thread has had work since its last call.
    has_work: bool,
}

impl Thread {
    /// Returns whether the thread is in a call. It has work for afterwards.
    pub(super) fn is_busy(&mut self, now: SimTime) -> bool {
        self.has_work |= now < self.free_at;
        now < self.free_at
    }

    /// Returns the end of the thread's last call, if it lies ahead.
    pub(super) fn busy_until(self, now: SimTime) -> Option<SimTime> {
        (now < self.free_at).then_some(self.free_at)
    }

    pub(super) fn pay(&mut self, now: SimTime, cost: SimDuration) {
        let earliest = if self.has_work { now.checked_sub(CATCH_UP).unwrap_or(SimTime::ZERO) } else { now };
        self.free_at = self.free_at.max(earliest) + cost;
    }

    /// Notes that the thread waits.
    pub(super) fn rests(&mut self) {
        self.has_work = false;
    }
}

/// A stream socket of a host's TCP/IP, as one of the threads sees it.
pub(super) struct Stream<'a, 'model> {
    pub(super) model: &'a mut Model<'model>,
    pub(super) host: usize,
    pub(super) socket: SocketId,
    pub(super) thread: &'a mut Thread,
}

impl Source for Stream<'_, '_> {
    fn give(&mut self) -> Given {
        if self.thread.is_busy(self.model.now) {
            return Given::Later;
        }
        let (received, cost) = self.model.ask(self.host, Receive { socket: self.socket, most: PIECE_BYTES as u32, peek: false });
        match received {
            Ok(payload) if payload.is_empty() => Given::End,
            Ok(payload) => {
                self.thread.pay(self.model.now, cost);
                Given::Piece(payload.to_vec())
            }
            Err(NetError::WouldBlock) => Given::Nothing,
            Err(_) => Given::Broken,
        }
    }
}

impl Sink for Stream<'_, '_> {
    fn put(&mut self, bytes: &[u8]) -> Put {
        if self.thread.is_busy(self.model.now) {
            return Put::Later;
        }
        let send = Send { socket: self.socket, payload: Payload::from(bytes), urgent: false, more: false };
        match self.model.ask(self.host, send) {
            (Ok(count), cost) => {
                self.thread.pay(self.model.now, cost);
                Put::Taken(count as usize)
            }
            (Err(NetError::WouldBlock), _) => Put::Full,
            (Err(_), _) => Put::Broken,
        }
    }

    fn end(&mut self) {
        let _ = self.model.ask(self.host, Shutdown { socket: self.socket, receive: false, send: true });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> SimTime {
        SimTime::from_picos(nanos * 1_000)
    }

    #[test]
    fn a_thread_makes_up_for_delays_of_the_relay_and_not_for_rests() {
        let (mut thread, cost) = (Thread::default(), SimDuration::from_nanos(100));
        thread.pay(at(1_000), cost);
        assert!(thread.is_busy(at(1_050)) && !thread.is_busy(at(1_250)));
        thread.pay(at(1_250), cost);
        assert!(!thread.is_busy(at(1_250)), "the second call ended at 1,200");
        thread.pay(at(1_250), cost);
        assert_eq!(thread.busy_until(at(1_250)), Some(at(1_300)));
        thread.rests();
        thread.pay(at(9_000), cost);
        assert_eq!(thread.busy_until(at(9_000)), Some(at(9_100)));
    }

    #[test]
    fn a_thread_makes_up_for_a_short_time_only() {
        let (mut thread, cost) = (Thread::default(), SimDuration::from_nanos(100));
        thread.pay(at(0), cost);
        assert!(thread.is_busy(at(50)));
        thread.pay(at(100_000_000), cost);
        assert!(!thread.is_busy(at(90_000_100)) && thread.is_busy(at(90_000_099)));
    }
}
