//! Groups that each host has, without a socket that joined them.

use crate::common::{CLIENT, Net, SERVER, Wire, address_v6, kernel};
use softband_net::calls::{Bind, Open, ReceiveFrom, SendTo, SetOption, SocketOption};
use softband_net::{Family, InterfaceId, Payload, Protocol};
use softband_sim::SimDuration;
use std::net::{IpAddr, SocketAddr};

#[test]
fn each_host_hears_the_groups_of_all_hosts_and_of_its_addresses() {
    let kernel = kernel("linux-6.1");
    for resolves in [false, true] {
        let mut net = Net::new([&kernel, &kernel], Wire { resolves, ..Wire::new(1_000, SimDuration::from_micros(25)) }, 5);
        for (family, group, arrives) in [
            (Family::V4, "224.0.0.1", true),
            (Family::V4, "224.0.0.2", false),
            (Family::V6, "ff02::1", true),
            (Family::V6, "ff02::2", false),
            (Family::V6, "ff02::1:ff00:2", true),
            (Family::V6, "ff02::1:ff00:3", false),
        ] {
            let group: IpAddr = group.parse().unwrap();
            let [client, server] = [CLIENT, SERVER].map(|host| net.call(host, Open { family, protocol: Protocol::Datagram }).unwrap());
            net.call(SERVER, Bind { socket: server, address: SocketAddr::new(family.unspecified(), 7) }).unwrap();
            net.call(CLIENT, SendTo { socket: client, payload: Payload::from(&b"all"[..]), to: Some(SocketAddr::new(group, 7)) }).unwrap();
            net.run_for(SimDuration::from_micros(1_000));
            let read = net.call(SERVER, ReceiveFrom { socket: server, most: 9, peek: false });
            assert_eq!(read.map(|read| read.payload.to_vec()).ok(), arrives.then(|| b"all".to_vec()), "{group}");
            net.call(SERVER, softband_net::calls::Close { socket: server }).unwrap();
        }
    }
}

#[test]
fn sockets_join_and_leave_a_group_of_all_hosts_without_its_link() {
    let kernel = kernel("linux-6.1");
    let mut net = Net::new([&kernel, &kernel], Wire::new(1_000, SimDuration::from_micros(25)), 5);
    let group = IpAddr::from([224, 0, 0, 1]);
    let interface = Some(InterfaceId(1));
    let socket = net.open(SERVER, Protocol::Datagram);
    for option in [SocketOption::Join { group, interface }, SocketOption::Leave { group, interface }] {
        net.call(SERVER, SetOption { socket, option }).unwrap();
    }
    assert!(net.hosts[SERVER].joined.is_empty());
    // `lo` has the groups too, and no link that must know.
    assert!(net.hosts[SERVER].groups.contains(&group) && net.hosts[SERVER].groups.len() == 3);
    assert!(net.hosts[SERVER].groups.iter().all(|group| *group != address_v6(SERVER)));
}
