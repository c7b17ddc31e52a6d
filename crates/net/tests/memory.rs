//! Hosts whose connections have used up their memory.

use crate::common::{CLIENT, Net, SERVER, Transfer, Wire, kernel};
use softband_net::calls::{Close, LocalAddress, SetOption, SocketOption};
use softband_net::{Body, Events, KernelPart, NetError, SocketId};
use softband_sim::SimDuration;

const MILLI: SimDuration = SimDuration::from_micros(1_000);
const SECOND: SimDuration = SimDuration::from_micros(1_000_000);

#[test]
fn a_gap_closes_although_early_data_fills_the_hosts_memory() {
    for name in ["linux-2.6.9", "linux-6.1"] {
        let ample = kernel(name);
        let tight = KernelPart { tcp_memory_bytes: 2_000, ..ample.clone() };
        let mut net = Net::new([&ample, &tight], Wire::new(1_000, SimDuration::from_micros(25)), 5);
        let (client, server) = net.pair(&[]);
        let mut is_first = true;
        net.drop = Some(Box::new(move |host, packet| host == CLIENT && packet.payload_bytes() > 0 && std::mem::take(&mut is_first)));
        let mut transfer = Transfer::new((CLIENT, client), (SERVER, server), 30_000, true);
        let end = net.now + SECOND * 60;
        transfer.run(&mut net, end, |_| {});
        assert_eq!((net.lost, transfer.received), (1, 30_000), "{name}");
    }
}

/// Returns a net in which the first connection of the client holds all memory, and a write of the second
/// has just failed. The program's first packets are lost for ever.
fn starved() -> (Net, SocketId, SocketId) {
    let ample = kernel("linux-6.1");
    let tight = KernelPart { tcp_memory_bytes: 20_000, ..ample.clone() };
    let mut net = Net::new([&tight, &ample], Wire::new(1_000, SimDuration::from_micros(25)), 5);
    let pairs = net.pairs(2);
    let (full, hungry) = (pairs[0].0, pairs[1].0);
    for socket in [full, hungry] {
        net.call(CLIENT, SetOption { socket, option: SocketOption::SendBuffer(15_000) }).unwrap();
    }
    let port = net.call(CLIENT, LocalAddress { socket: full }).unwrap().port();
    net.drop = Some(Box::new(move |_, packet| matches!(&packet.body, Body::Tcp(segment) if segment.source_port == port)));
    assert_eq!(net.send(CLIENT, full, &[0; 30_000]), Ok(30_000));
    assert_eq!(net.send(CLIENT, hungry, &[0; 6_000]), Ok(6_000), "an empty queue always takes data");
    assert!(net.hosts[CLIENT].stack.readiness(hungry).intersects(Events::WRITABLE));
    assert_eq!(net.send(CLIENT, hungry, &[0; 6_000]), Err(NetError::WouldBlock));
    assert!(!net.hosts[CLIENT].stack.readiness(hungry).intersects(Events::WRITABLE), "a poll agrees with the write");
    net.hosts[CLIENT].ready.clear();
    (net, full, hungry)
}

fn is_told(net: &Net, of: SocketId) -> bool {
    let host = &net.hosts[CLIENT];
    let told = host.ready.iter().any(|(socket, events)| *socket == of && events.intersects(Events::WRITABLE));
    assert_eq!(told, host.stack.readiness(of).intersects(Events::WRITABLE));
    told
}

#[test]
fn a_write_without_memory_waits_for_that_of_others() {
    let (mut net, full, hungry) = starved();
    net.call(CLIENT, SetOption { socket: full, option: SocketOption::Linger(Some(SimDuration::ZERO)) }).unwrap();
    assert!(!is_told(&net, hungry));
    net.call(CLIENT, Close { socket: full }).unwrap();
    assert!(is_told(&net, hungry));
    assert_eq!(net.send(CLIENT, hungry, &[0; 6_000]), Ok(6_000));
}

#[test]
fn a_write_without_memory_waits_for_its_own_data_at_most() {
    let (mut net, _, hungry) = starved();
    net.run_for(MILLI * 100);
    assert!(is_told(&net, hungry));
    assert_eq!(net.send(CLIENT, hungry, &[0; 6_000]), Ok(6_000));
}
