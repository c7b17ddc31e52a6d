//! Sockets of programs that the engine relays over the modelled network, in wall pace.

use crate::host::relay::places::Places;
use crate::host::relay::{Kind, Model, Relay};
use crate::protocol::Caller;
use crate::rpc::host_calls::HostCalls;
use softband_ipc::calls::RelaySocket;
use softband_sim::SimTime;
use std::net::SocketAddrV4;

impl HostCalls<'_> {
    /// Passes the relay to `act`, with the model at `at` or at its own later time. Returns `None`
    /// without a relay.
    fn with_relay<R>(&mut self, at: SimTime, act: impl FnOnce(&mut Relay, &Places, &mut Model<'_>) -> R) -> Option<R> {
        let kernels = self.kernels.as_mut()?;
        let (relay, places) = self.host.relay_mut()?;
        let mut model = Model { kernels, world: self.world, now: relay.advance_to(at) };
        let result = act(relay, places, &mut model);
        let warning = relay.take_warning();
        self.settle_kernels();
        if let Some(warning) = warning {
            self.report.warn(warning);
        }
        Some(result)
    }

    /// Relays to a socket that a program has bound.
    pub(crate) fn relay_socket(&mut self, caller: Caller, socket: &RelaySocket) -> Result<(), i32> {
        let host = self.processes[caller.process].host();
        let port = u16::try_from(socket.port).map_err(|_| libc::EINVAL)?;
        let at = SocketAddrV4::new(socket.address.into(), port);
        let kind = if socket.datagram != 0 { Kind::Datagrams } else { Kind::Listens { backlog: socket.backlog } };
        self.with_relay(SimTime::ZERO, |relay, places, model| relay.open(places, model, host, at, kind)).unwrap_or(Err(libc::ENOSYS))
    }

    /// Moves what relayed sockets have, and what has arrived in the model, which has reached the
    /// present. Returns whether anything was to do.
    pub(crate) fn relay_moves(&mut self) -> bool {
        self.with_relay(self.scheduler.now(), Relay::turn).unwrap_or(false)
    }

    /// Ends the relayed sockets of a host that has died.
    pub(crate) fn relay_host_died(&mut self, host: usize) {
        self.with_relay(SimTime::ZERO, |relay, _, model| relay.host_died(host, model));
    }

    /// Returns when the kernels or the relay have something to do.
    pub(crate) fn next_relay_time(&mut self, now: SimTime) -> Option<SimTime> {
        let kernels = self.kernels.as_ref()?.next_time();
        let (relay, _) = self.host.relay_mut()?;
        relay.wake_at_news();
        kernels.into_iter().chain(relay.next_time(now)).min()
    }
}
