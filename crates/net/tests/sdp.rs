//! Sockets of SDP among the sockets of a host.

use softband_model::parts::KernelPart;
use softband_net::calls::{Bind, Close, Connect, Listen, ListenBeside, Open, Options, SetOption, SocketOption};
use softband_net::{Family, InterfaceAddress, InterfaceConfig, NetError, Protocol, Stack};
use softband_sim::SimTime;
use std::net::SocketAddr;

const NOW: SimTime = SimTime::ZERO;

#[test]
fn a_twin_listens_with_the_options_of_its_tcp_socket() {
    let mut stack = Stack::new(KernelPart::linux_6_1(), 1);
    let address = SocketAddr::new([127, 0, 0, 1].into(), 4_000);
    let socket = stack.call(NOW, Open { family: Family::V4, protocol: Protocol::Stream }).expect("a socket");
    stack.call(NOW, SetOption { socket, option: SocketOption::SendBuffer(50_000) }).expect("an option");
    stack.call(NOW, Bind { socket, address }).expect("a free port");
    let beside = ListenBeside { socket, backlog: 1 };
    assert_eq!(stack.call(NOW, beside.clone()), Err(NetError::Invalid), "not a listener");
    stack.call(NOW, Listen { socket, backlog: 1 }).expect("a bound socket");
    let twin = stack.call(NOW, beside.clone()).expect("a free port");
    assert!(stack.has_sdp_listener(address));
    assert_eq!(stack.call(NOW, Options { socket: twin }).map(|values| values.send_buffer), Ok(100_000));
    // Another socket of SDP has the port.
    assert_eq!(stack.call(NOW, beside.clone()), Err(NetError::AddressInUse));
    stack.call(NOW, Close { socket: twin }).expect("a socket");
    assert!(stack.call(NOW, beside).is_ok());
}

#[test]
fn a_pair_of_addresses_has_one_connection() {
    let mut stack = Stack::new(KernelPart::linux_6_1(), 1);
    let own = InterfaceAddress { address: [10, 0, 0, 1].into(), prefix: 24 };
    let interface = stack.add_interface(InterfaceConfig {
        name: "ib0".into(),
        mtu_bytes: 2_044,
        addresses: vec![own],
        link_address: None,
        has_segmentation: true,
        ring_packets: 8,
        queue_packets: 8,
    });
    stack.offer_sdp(interface);
    let mut connect = |last: u8| {
        let socket = stack.call(NOW, Open { family: Family::V4, protocol: Protocol::Sdp }).expect("a socket");
        stack.call(NOW, SetOption { socket, option: SocketOption::ReuseAddress(true) }).expect("an option");
        stack.call(NOW, Bind { socket, address: SocketAddr::new(own.address, 4_000) }).expect("a shared port");
        stack.call(NOW, Connect { socket, to: SocketAddr::new([10, 0, 0, last].into(), 5_000) })
    };
    assert_eq!([connect(2), connect(2), connect(3)], [NetError::InProgress, NetError::AddressNotAvailable, NetError::InProgress].map(Err));
}
