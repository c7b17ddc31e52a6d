//! Interfaces of IPoIB whose neighbours fail, differ, or move.

use super::*;

const MIB: usize = 1 << 20;

/// Opens a socket for datagrams on a host, at the tests' port.
fn bound(lab: &mut Lab, host: usize) -> SocketId {
    let socket = lab.open(host, Protocol::Datagram);
    let own = SocketAddr::new(ip(host as u8 + 1), PORT);
    lab.call(host, Bind { socket, address: own }).expect("a free port");
    socket
}

/// Sends a datagram to a host. Returns whether the socket had room.
fn send(lab: &mut Lab, (host, socket): (usize, SocketId), to: usize, bytes: u32) -> bool {
    let to = Some(SocketAddr::new(ip(to as u8 + 1), PORT));
    lab.call(host, SendTo { socket, payload: Payload::counted(bytes), to }).is_ok()
}

/// Takes the datagrams of a socket. Returns their number.
fn taken(lab: &mut Lab, host: usize, socket: SocketId) -> usize {
    let mut count = 0;
    while lab.call(host, ReceiveFrom { socket, most: CALL_BYTES, peek: false }).is_ok() {
        count += 1;
    }
    count
}

fn run_until_seconds(lab: &mut Lab, seconds: f64) {
    lab.run_to(SimTime::ZERO + SimDuration::from_micros((seconds * 1e6) as u64));
}

#[test]
fn a_connection_that_cannot_be_made_leaves_no_queue_pairs() {
    let mut spec = spec_of("three-hosts.toml", IpoibMode::Connected, 65_520);
    let at = SimTime::ZERO + SimDuration::from_micros(1_000_000);
    spec.faults.push(FaultSpec { at, kind: FaultKind::HostDies { host: 2 } });
    let mut lab = Lab::new(&spec);
    let (a, c) = (bound(&mut lab, 0), bound(&mut lab, 2));
    assert!(send(&mut lab, (0, a), 2, 100));
    run_until_seconds(&mut lab, 0.5);
    assert_eq!(taken(&mut lab, 2, c), 1);
    run_until_seconds(&mut lab, 1.0);
    lab.kernels.host_died(2);
    let before = lab.world.queue_pairs().count();
    for second in 0..20 {
        send(&mut lab, (0, a), 2, 100);
        run_until_seconds(&mut lab, 1.0 + f64::from(second));
    }
    run_until_seconds(&mut lab, 60.0);
    let after = lab.world.queue_pairs().count();
    assert!(after <= before, "{before} queue pairs before, {after} after");
}

#[test]
fn an_acceptor_without_queue_pairs_refuses_connections_without_a_trace() {
    let mut spec = spec_of("two-hosts.toml", IpoibMode::Connected, 65_520);
    // The queue pair of datagrams, and the connection for the answer to the request for an address.
    spec.hosts[1].hcas[0].part.max_qp = 2;
    let mut lab = Lab::new(&spec);
    let (a, b) = (bound(&mut lab, 0), bound(&mut lab, 1));
    for number in 0..20 {
        send(&mut lab, (0, a), 1, 100);
        run_until_seconds(&mut lab, 0.1 + 0.1 * f64::from(number));
    }
    assert_eq!(taken(&mut lab, 1, b), 0, "no connection leads to the host");
    // On the first host: datagrams, and the end of the answer's connection.
    assert_eq!(lab.world.queue_pairs().count(), 4);
}

#[test]
fn packets_beyond_the_own_mtu_keep_their_receive_buffers() {
    let mut spec = spec_of("two-hosts.toml", IpoibMode::Connected, 65_520);
    spec.hosts[0].interfaces[1].mtu_bytes = 1_500;
    let mut lab = Lab::new(&spec);
    let (a, b) = (bound(&mut lab, 0), bound(&mut lab, 1));
    let mut arrived = 0;
    for number in 0..600 {
        assert!(send(&mut lab, (1, b), 0, 4_000));
        run_until_seconds(&mut lab, 0.001 * f64::from(number));
        arrived += taken(&mut lab, 0, a);
    }
    run_until_seconds(&mut lab, 1.0);
    assert_eq!(arrived + taken(&mut lab, 0, a), 600);
}

#[test]
fn a_silent_neighbour_holds_up_no_other() {
    let mut spec = spec_of("three-hosts.toml", IpoibMode::Connected, 65_520);
    let at = SimTime::ZERO + SimDuration::from_micros(1_000_000);
    spec.faults.push(FaultSpec { at, kind: FaultKind::LinkDown { cable: 2 } });
    let mut lab = Lab::new(&spec);
    let (a, b) = (bound(&mut lab, 0), bound(&mut lab, 1));
    for to in [1, 2] {
        assert!(send(&mut lab, (0, a), to, 100));
    }
    run_until_seconds(&mut lab, 1.1);
    assert_eq!(taken(&mut lab, 1, b), 1);
    // The packets to the third host wait 4.3 s for their acknowledgements.
    for _ in 0..100 {
        assert!(send(&mut lab, (0, a), 2, 100));
    }
    for number in 0..100 {
        assert!(send(&mut lab, (0, a), 1, 100), "datagram {number}");
        run_until_seconds(&mut lab, 1.1 + 0.001 * f64::from(number));
    }
    run_until_seconds(&mut lab, 1.3);
    assert_eq!(taken(&mut lab, 1, b), 100);
}

#[test]
fn long_datagrams_reach_hosts_without_connections_in_fragments() {
    let mut spec = spec_of("two-hosts.toml", IpoibMode::Connected, 65_520);
    let kind = InterfaceKind::Ipoib { hca: 0, port: PortNumber(1), mode: IpoibMode::Datagram, pkey: PKey::DEFAULT_FULL };
    (spec.hosts[1].interfaces[1].kind, spec.hosts[1].interfaces[1].mtu_bytes) = (kind, 2_044);
    let mut lab = Lab::new(&spec);
    let (a, b) = (bound(&mut lab, 0), bound(&mut lab, 1));
    for (number, expected) in [0, 1, 1].into_iter().enumerate() {
        assert!(send(&mut lab, (0, a), 1, 20_000));
        run_until_seconds(&mut lab, 0.1 * (number + 1) as f64);
        assert_eq!(taken(&mut lab, 1, b), expected, "datagram {number}");
    }
    let counters = lab.kernels.stack(0).interfaces().nth(2).expect("ib0").2;
    assert_eq!(counters.sent_dropped, 1);
}

#[test]
fn a_call_from_the_past_of_the_fabric_is_carried_out() {
    let mut lab = Lab::new(&spec("two-hosts.toml", 2_044));
    let (a, b) = (bound(&mut lab, 0), bound(&mut lab, 1));
    assert!(send(&mut lab, (0, a), 1, 100));
    run_until_seconds(&mut lab, 0.01);
    lab.now = SimTime::ZERO;
    assert!(send(&mut lab, (0, a), 1, 100));
    run_until_seconds(&mut lab, 0.02);
    assert_eq!(taken(&mut lab, 1, b), 2);
}

#[test]
fn the_caller_has_few_events_of_its_own() {
    let mut lab = Lab::new(&spec("two-hosts.toml", 2_044));
    let ends = lab.connect();
    lab.transfer(ends, &bytes(MIB));
    let times = &lab.kernels.scheduled;
    assert!(times.len() < 10, "{} events", times.len());
}
