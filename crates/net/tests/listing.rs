//! Lists of sockets.

use crate::common::{CLIENT, Net, SERVER, Wire, address, kernel};
use softband_net::calls::{Accept, Close, Connect};
use softband_net::{ListPlace, Listed, NetError, Protocol, State};
use softband_sim::SimDuration;
use std::net::SocketAddr;

const SECOND: SimDuration = SimDuration::from_micros(1_000_000);

/// Opens a connection, and closes it at the client first.
fn visit(net: &mut Net, listener: softband_net::SocketId) {
    let socket = net.open(CLIENT, Protocol::Stream);
    assert_eq!(net.call(CLIENT, Connect { socket, to: SocketAddr::new(address(SERVER), 80) }), Err(NetError::InProgress));
    net.run_for(SECOND);
    let (server, _) = net.call(SERVER, Accept { socket: listener }).expect("a connection");
    net.call(CLIENT, Close { socket }).unwrap();
    net.run_for(SECOND);
    net.call(SERVER, Close { socket: server }).unwrap();
    net.run_for(SECOND);
}

#[test]
fn a_list_goes_on_behind_a_connection_that_has_ended_meanwhile() {
    let kernel = kernel("linux-6.1");
    let mut net = Net::new([&kernel, &kernel], Wire::new(10_000, SimDuration::from_micros(5)), 5);
    let listener = net.listen(80, 128);
    (0..3).for_each(|_| visit(&mut net, listener));
    let next = |net: &Net, after: Option<ListPlace>| net.hosts[CLIENT].stack.next_listed(after);
    let all: Vec<_> = std::iter::successors(next(&net, None), |(place, _)| next(&net, Some(*place))).collect();
    assert_eq!(all.len(), 3);
    assert!(all.iter().all(|(place, of)| of.state == Listed::Connection(State::TimeWait) && matches!(place, ListPlace::TimeWait(..))));
    // Ports rise, so the first in the list is the oldest. Its 60 s end first.
    let first = next(&net, None).expect("a connection").0;
    while net.hosts[CLIENT].stack.time_waits() == 3 {
        net.run_for(SECOND);
    }
    let rest: Vec<_> = std::iter::successors(next(&net, Some(first)), |(place, _)| next(&net, Some(*place))).collect();
    assert_eq!(rest.len(), net.hosts[CLIENT].stack.time_waits());
    assert!(next(&net, Some(rest[1].0)).is_none());
}
