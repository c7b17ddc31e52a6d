//! The same seed gives the same packets at the same times.

use crate::common::{CLIENT, Net, SERVER, Transfer, Wire, kernel};
use softband_net::Body;
use softband_sim::SimDuration;
use std::cell::RefCell;
use std::rc::Rc;

/// Returns times and numbers of all packets of a lossy transfer.
fn trace(seed: u64) -> Vec<(u64, usize, u32, u32, u32)> {
    let kernel = kernel("linux-6.1");
    let wire = Wire { loss_ppm: 20_000, late_ppm: 50_000, late: SimDuration::from_micros(90), ..Wire::new(1_000, SimDuration::from_micros(40)) };
    let mut net = Net::new([&kernel, &kernel], wire, seed);
    let log = Rc::new(RefCell::new(Vec::new()));
    let tap = log.clone();
    net.tap = Some(Box::new(move |at, host, packet| {
        let Body::Tcp(segment) = &packet.body else { return };
        tap.borrow_mut().push((at.as_picos(), host, segment.seq.0, segment.ack.0, segment.payload.len()));
    }));
    let (client, server) = net.pair(&[]);
    let end = net.now + SimDuration::from_micros(60_000_000);
    Transfer::new((CLIENT, client), (SERVER, server), 2_000_000, true).run(&mut net, end, |_| {});
    log.take()
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    let first = trace(1);
    assert!(first.len() > 1_000);
    assert_eq!(first, trace(1));
    assert_ne!(first, trace(2));
}
