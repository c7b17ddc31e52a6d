//! Bytes arrive once and in order, on wires that lose, delay, repeat and reorder packets.

use crate::common::{CLIENT, Net, SERVER, Transfer, Wire, kernel};
use proptest::prelude::*;
use softband_net::calls::{Close, Receive, Shutdown, SocketOption};
use softband_net::{Body, Events, State};
use softband_sim::SimDuration;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const KERNELS: [&str; 4] = ["linux-2.6.9", "linux-2.6.18", "linux-3.10", "linux-6.1"];

fn wire() -> impl Strategy<Value = Wire> {
    let rate = prop_oneof![Just(100_u64), Just(1_000), Just(10_000)];
    (rate, 1..500_u64, prop_oneof![Just(1_500_u32), Just(9_000), Just(576)], 0..50_000_u64, 0..20_000_u64, 0..100_000_u64, 1..400_u64).prop_map(
        |(megabits, delay, mtu_bytes, loss_ppm, duplicate_ppm, late_ppm, late)| Wire {
            mtu_bytes,
            loss_ppm,
            duplicate_ppm,
            late_ppm,
            late: SimDuration::from_micros(late),
            ..Wire::new(megabits, SimDuration::from_micros(delay))
        },
    )
}

/// Follows the packets of a connection: what the receiver reports, and what the sender may send.
#[derive(Default)]
struct Watch {
    first: BTreeMap<usize, u32>,
    scale: BTreeMap<usize, u8>,
}

impl Watch {
    /// Checks the packets of the sender against the largest window that the receiver stated.
    fn watch(net: &mut Net) {
        let watch = Rc::new(RefCell::new(Self::default()));
        let edge = Rc::new(RefCell::new(None::<u32>));
        net.tap = Some(Box::new(move |_, host, packet| {
            let Body::Tcp(segment) = &packet.body else { return };
            let mut watch = watch.borrow_mut();
            if segment.flags.syn {
                watch.first.insert(host, segment.seq.0);
                watch.scale.insert(host, segment.options.window_scale.unwrap_or(0));
                return;
            }
            let mut edge = edge.borrow_mut();
            if host == SERVER {
                let scale = watch.scale.get(&SERVER).copied().unwrap_or(0);
                let right = segment.ack.0.wrapping_add(u32::from(segment.window) << scale);
                let base = watch.first[&CLIENT];
                let further = edge.is_none_or(|edge: u32| right.wrapping_sub(base) > edge.wrapping_sub(base));
                if further {
                    *edge = Some(right);
                }
            } else if let (Some(edge), false) = (*edge, segment.payload.is_empty()) {
                let base = watch.first[&CLIENT];
                let end = segment.seq.plus(segment.payload.len()).0.wrapping_sub(base);
                assert!(end <= edge.wrapping_sub(base), "a segment ends {} bytes beyond the window", end - edge.wrapping_sub(base));
            }
        }));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 6, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_arrive_once_and_in_order(
        wire in wire(),
        seed in any::<u64>(),
        kernels in (0..KERNELS.len(), 0..KERNELS.len()),
        total in 1..600_000_u64,
        chunk in prop_oneof![Just(65_536_u32), Just(1_000), Just(7_001)],
        small_buffer in any::<bool>(),
        no_delay in any::<bool>(),
    ) {
        let kernels = [kernel(KERNELS[kernels.0]), kernel(KERNELS[kernels.1])];
        let mut net = Net::new([&kernels[0], &kernels[1]], wire, seed >> 1);
        Watch::watch(&mut net);
        let mut options = vec![SocketOption::NoDelay(no_delay)];
        if small_buffer {
            options.extend([SocketOption::ReceiveBuffer(8_192), SocketOption::SendBuffer(8_192)]);
        }
        let (client, server) = net.pair(&options);
        let mut transfer = Transfer::new((CLIENT, client), (SERVER, server), total, true);
        transfer.chunk = chunk;
        let end = net.now + SimDuration::from_micros(600_000_000);
        transfer.run(&mut net, end, |net| {
            let info = net.info(SERVER, server);
            assert!(info.queued_bytes <= u64::from(info.receive_buffer), "the receive queue exceeds its buffer");
            let info = net.info(CLIENT, client);
            assert!(info.unacknowledged_bytes <= u64::from(info.send_buffer), "the send queue exceeds its buffer");
        });
        prop_assert_eq!(transfer.received, total);
        close_both(&mut net, client, server);
    }
}

/// Closes the client, then the server, and waits until nothing is left but TIME_WAIT.
fn close_both(net: &mut Net, client: softband_net::SocketId, server: softband_net::SocketId) {
    net.call(CLIENT, Shutdown { socket: client, receive: false, send: true }).expect("a connection");
    let end = net.now + SimDuration::from_micros(300_000_000);
    while net.next_time().is_some_and(|at| at <= end) && net.call(SERVER, Receive { socket: server, most: 1, peek: false }).is_err() {
        net.step();
    }
    assert!(net.hosts[SERVER].stack.readiness(server).intersects(Events::READ_CLOSED));
    net.call(SERVER, Close { socket: server }).expect("a socket");
    net.run_until(end);
    let state = net.info(CLIENT, client).state;
    assert!(matches!(state, State::TimeWait | State::Closed), "the client is in {state:?}");
    net.call(CLIENT, Close { socket: client }).expect("a socket");
    assert_eq!((net.hosts[CLIENT].stack.sockets(), net.hosts[SERVER].stack.sockets()), (0, 1), "only the listening socket is left");
}
