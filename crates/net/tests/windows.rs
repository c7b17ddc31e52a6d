//! Windows that close and open again.

use crate::common::{CLIENT, Net, SERVER, Wire, kernel};
use softband_net::Body;
use softband_net::calls::SocketOption;
use softband_sim::SimDuration;
use std::cell::Cell;
use std::rc::Rc;

const MILLI: SimDuration = SimDuration::from_micros(1_000);

#[test]
fn an_open_window_ends_the_doubled_times_of_its_probes() {
    let kernel = kernel("linux-6.1");
    let mut net = Net::new([&kernel, &kernel], Wire::new(1_000, SimDuration::from_micros(25)), 5);
    let (client, server) = net.pair(&[SocketOption::ReceiveBuffer(20_000)]);
    for _ in 0..50 {
        while net.send(CLIENT, client, &[0; 10_000]).is_ok() {}
        net.run_for(MILLI);
    }
    // The window stays closed for many probes.
    net.run_for(MILLI * 20_000);
    let closed = net.info(CLIENT, client);
    assert!(closed.peer_window < closed.mss && closed.in_flight == 0, "{closed:?}");
    // The news of the open window arrives, and the data that it lets go is lost.
    let mut left = 1;
    net.drop = Some(Box::new(move |host, packet| host == CLIENT && packet.payload_bytes() > 0 && std::mem::replace(&mut left, 0) == 1));
    let lost = net.lost;
    while net.receive(SERVER, server, 1 << 20).is_ok() {}
    let begin = net.now;
    while net.info(CLIENT, client).retransmissions == 0 {
        net.step().expect("a retransmission");
    }
    assert_eq!(net.lost, lost + 1);
    let took = (net.now - begin).as_nanos() / 1_000_000;
    assert!(took <= 250, "the data came again after {took} ms");
}

#[test]
fn the_first_window_follows_the_kernel_and_the_mtu() {
    // RFC 3390: four packets of at most 1,095 B, three of 1,460 B, two beyond. Linux since 2.6.39: ten.
    for (name, mtu_bytes, first) in
        [("linux-2.6.9", 1_000, 4), ("linux-2.6.9", 1_500, 3), ("linux-2.6.9", 2_044, 2), ("linux-6.1", 1_500, 10), ("linux-6.1", 2_044, 10)]
    {
        let kernel = kernel(name);
        let mut net = Net::new([&kernel, &kernel], Wire { mtu_bytes, ..Wire::new(1_000, MILLI * 10) }, 5);
        let (client, _) = net.pair(&[]);
        let before = net.packets;
        net.send(CLIENT, client, &[0; 16_000]).unwrap();
        net.send(CLIENT, client, &[0; 16_000]).unwrap_or(0);
        net.run_for(MILLI * 5);
        assert_eq!(net.packets - before, first, "{name}, MTU {mtu_bytes} B");
    }
}

#[test]
fn both_sides_of_a_handshake_offer_the_first_windows_of_their_kernels() {
    // Linux 2.6: 4 segments up to 1,460 B, 3 up to 4,380 B, then 2. Linux 3.10: 20 segments of Ethernet, and
    // their bytes in whole larger segments, at least 2. Linux 6.1: half of 128 KiB in whole segments.
    // SYN-ACK counts segments without the timestamps that both sides use.
    let expected = [
        ("linux-2.6.9", [(4, 4), (3, 3), (3, 3), (2, 2)]),
        ("linux-3.10", [(20, 20), (14, 14), (7, 7), (3, 3)]),
        ("linux-6.1", [(44, 45), (32, 32), (16, 16), (7, 7)]),
    ];
    for (name, windows) in expected {
        for (mtu_bytes, (of_client, of_server)) in [1_500_u16, 2_044, 4_092, 9_000].into_iter().zip(windows) {
            let kernel = kernel(name);
            let mut net = Net::new([&kernel, &kernel], Wire { mtu_bytes: u32::from(mtu_bytes), ..Wire::new(1_000, MILLI) }, 5);
            let offered = Rc::new(Cell::new([0; 2]));
            let seen = offered.clone();
            net.tap = Some(Box::new(move |_, host, packet| {
                if let Body::Tcp(segment) = &packet.body
                    && segment.flags.syn
                {
                    let mut windows = seen.get();
                    windows[host] = segment.window;
                    seen.set(windows);
                }
            }));
            net.pair(&[]);
            let mss = mtu_bytes - 40;
            assert_eq!(offered.get(), [of_client * mss, of_server * (mss - 12)], "{name}, MTU {mtu_bytes} B");
        }
    }
}

#[test]
fn a_probe_that_was_not_needed_leaves_the_window() {
    let kernel = kernel("linux-6.1");
    let mut net = Net::new([&kernel, &kernel], Wire::new(1_000, SimDuration::from_micros(25)), 5);
    let (client, _) = net.pair(&[]);
    net.run_for(MILLI * 100);
    let before = net.info(CLIENT, client).window;
    net.send(CLIENT, client, &[0; 2 * 1_448]).unwrap();
    // Acknowledgements take longer from now on, so the probe leaves before they arrive.
    net.wire.delay = MILLI * 8;
    net.run_for(MILLI * 12);
    // The acknowledgement of the original says nothing about the probe.
    assert_eq!(net.info(CLIENT, client).retransmissions, 1);
    assert_eq!(net.info(CLIENT, client).unacknowledged_bytes, 0);
    assert!(net.info(CLIENT, client).window >= before);
    // The second copy shows that nothing was lost.
    net.run_for(MILLI * 40);
    net.send(CLIENT, client, &[0; 1_448]).unwrap();
    net.run_for(MILLI * 100);
    assert!(net.info(CLIENT, client).window >= before);
}
