//! Values of options that Linux refuses, and timers that must not hold time.

use crate::common;

use crate::common::{CLIENT, Net, Wire, kernel};
use softband_net::calls::{SetOption, SocketOption};
use softband_net::{Body, KernelPart, NetError, Protocol};
use softband_sim::SimDuration;

const MILLI: SimDuration = SimDuration::from_micros(1_000);
const SECOND: SimDuration = SimDuration::from_micros(1_000_000);

fn net_of(kernel: &KernelPart) -> Net {
    Net::new([kernel, kernel], Wire::new(1_000, SimDuration::from_micros(25)), 5)
}

#[test]
fn values_beyond_linux_bounds_are_refused() {
    let mut net = net_of(&kernel("linux-6.1"));
    let socket = net.open(CLIENT, Protocol::Stream);
    let mut set = |option| net.call(CLIENT, SetOption { socket, option });
    for refused in [
        SocketOption::KeepAliveIdle(SimDuration::ZERO),
        SocketOption::KeepAliveIdle(SECOND * 32_768),
        SocketOption::KeepAliveInterval(SimDuration::ZERO),
        SocketOption::KeepAliveProbes(0),
        SocketOption::KeepAliveProbes(128),
        SocketOption::SegmentMax(87),
        SocketOption::SegmentMax(32_768),
    ] {
        assert_eq!(set(refused), Err(NetError::Invalid), "{refused:?}");
    }
    for taken in [
        SocketOption::KeepAliveIdle(SECOND),
        SocketOption::KeepAliveInterval(SECOND * 32_767),
        SocketOption::KeepAliveProbes(127),
        SocketOption::SegmentMax(88),
        SocketOption::SegmentMax(0),
    ] {
        assert_eq!(set(taken), Ok(()), "{taken:?}");
    }
}

#[test]
fn a_deadline_in_the_past_does_not_hold_time() {
    let mut net = net_of(&KernelPart { keepalive_idle: SimDuration::ZERO, ..kernel("linux-6.1") });
    let (client, _) = net.pair(&[SocketOption::KeepAlive(true)]);
    net.drop = Some(Box::new(|_, packet| packet.payload_bytes() > 0));
    net.send(CLIENT, client, b"lost").unwrap();
    let end = net.now + MILLI;
    net.run_until(end);
    assert_eq!(net.now, end);
}

#[test]
fn a_peer_with_a_tiny_mss_does_not_cut_the_stream_into_crumbs() {
    let mut net = net_of(&kernel("linux-6.1"));
    let listener = net.listen(80, 4);
    let client = net.open(CLIENT, Protocol::Stream);
    let to = std::net::SocketAddr::new(common::address(common::SERVER), 80);
    // The SYN-ACK of the server is replaced by a copy with an MSS of one byte.
    let seen = std::rc::Rc::new(std::cell::RefCell::new(None));
    let copy = seen.clone();
    net.drop = Some(Box::new(move |host, packet| {
        let is_answer = host == common::SERVER && matches!(&packet.body, Body::Tcp(segment) if segment.flags.syn);
        if is_answer && copy.borrow().is_none() {
            *copy.borrow_mut() = Some(packet.clone());
        }
        is_answer
    }));
    assert_eq!(net.call(CLIENT, softband_net::calls::Connect { socket: client, to }), Err(NetError::InProgress));
    net.run_for(MILLI);
    let mut answer = seen.borrow().clone().expect("an answer");
    if let Body::Tcp(segment) = &mut answer.body {
        segment.options.mss = Some(1);
    }
    net.inject(CLIENT, answer);
    net.run_for(MILLI);
    assert_eq!(net.info(CLIENT, client).mss, 48 - 12);
    assert!(net.call(common::SERVER, softband_net::calls::Accept { socket: listener }).is_ok());
}
