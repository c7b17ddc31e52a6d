//! Connections of SDP between hosts, without programs.

use super::*;
use crate::host::kernel::store::SPAN_BYTES;
use softband_net::calls::{Disconnect, ReceivePart, ReceiveUrgent, SendPart, Shutdown, TakeError};
use softband_net::sdp::source_address;
use softband_net::{Events, State};
use softband_types::{Access, MrHandle, QpType};

/// Bytes of a part of a program's call, as the library in programs has them.
const PART_BYTES: u32 = 32_704;

fn lab(file: &str) -> Lab {
    Lab::new(&spec(file, 2_044))
}

/// Connects a socket of host 0 to host 1 at an address, and returns both ends.
fn connect_to(lab: &mut Lab, to: SocketAddr) -> (SocketId, SocketId, SocketId) {
    let listener = lab.open(1, Protocol::Sdp);
    lab.call(1, Bind { socket: listener, address: to }).expect("a free port");
    lab.call(1, Listen { socket: listener, backlog: 8 }).expect("a bound socket");
    let client = lab.open(0, Protocol::Sdp);
    assert_eq!(lab.call(0, Connect { socket: client, to }), Err(NetError::InProgress));
    let mut server = None;
    lab.run_until(|lab| {
        server = lab.call(1, Accept { socket: listener }).ok();
        server.is_some()
    });
    lab.run_until(|lab| lab.kernels.stack(0).state(client) == Some(State::Established));
    (client, server.expect("a connection").0, listener)
}

fn connected(lab: &mut Lab) -> (SocketId, SocketId) {
    let (client, server, _) = connect_to(lab, SocketAddr::new(ip(2), PORT));
    (client, server)
}

/// Sends bytes in blocking calls of `call` bytes, and reads them in calls of as many. Returns the rate
/// in Gb/s.
fn stream(lab: &mut Lab, (client, server): (SocketId, SocketId), count: usize, call: u32) -> f64 {
    let data = bytes(count);
    let whole = Payload::from(data.clone());
    let (mut sent, mut received, begin) = (0, Vec::new(), lab.now);
    lab.run_until(|lab| {
        while sent < whole.len() {
            let in_call = (call - sent % call).min(whole.len() - sent);
            let len = in_call.min(PART_BYTES);
            let part = Send { socket: client, payload: whole.part(sent, len), urgent: false, more: in_call > len };
            match lab.call(0, SendPart { part, rest: in_call - len }) {
                Ok(count) => sent += count,
                Err(NetError::WouldBlock) => break,
                Err(error) => panic!("{error} at {:?}", lab.now),
            }
        }
        loop {
            let part = Receive { socket: server, most: PART_BYTES, peek: false };
            match lab.call(1, ReceivePart { part, rest: call.saturating_sub(PART_BYTES) }) {
                Ok(part) => received.extend(part.to_vec()),
                Err(NetError::WouldBlock) => break,
                Err(error) => panic!("{error} at {:?}", lab.now),
            }
        }
        received.len() >= data.len()
    });
    assert!(received == data.to_vec(), "the stream arrives whole");
    count as f64 * 8e-9 / (lab.now - begin).as_secs_f64()
}

#[test]
fn small_calls_go_by_copy_and_take_the_same_time_each_run() {
    let run = || {
        let mut lab = lab("two-hosts.toml");
        let ends = connected(&mut lab);
        let rate = stream(&mut lab, ends, 4 << 20, 8_192);
        (lab.now, rate)
    };
    assert_eq!(run(), run());
}

#[test]
fn large_calls_cross_the_link_by_reads() {
    let mut lab = lab("two-hosts.toml");
    let ends = connected(&mut lab);
    stream(&mut lab, ends, 8 << 20, 1 << 20);
    let reads = lab.kernels.sdp_reads();
    assert_eq!(reads, 8, "a read for each call");
    stream(&mut lab, ends, 1 << 20, 32_768);
    assert_eq!(lab.kernels.sdp_reads(), reads);
}

#[test]
fn sdp_is_faster_than_tcp_over_ipoib() {
    let tcp = (4 << 20) as f64 * 8e-9 / stream_time(&spec("two-hosts.toml", 2_044)).as_secs_f64();
    let mut lab = lab("two-hosts.toml");
    let ends = connected(&mut lab);
    let sdp = stream(&mut lab, ends, 4 << 20, 65_535);
    assert!(sdp > 1.5 * tcp, "SDP {sdp:.3} Gb/s, TCP {tcp:.3} Gb/s");
}

#[test]
fn both_ends_know_their_addresses_and_an_urgent_byte() {
    use softband_net::calls::{LocalAddress, PeerAddress};
    let mut lab = lab("two-hosts.toml");
    let (client, server) = connected(&mut lab);
    let to = SocketAddr::new(ip(2), PORT);
    let own = lab.call(0, LocalAddress { socket: client }).expect("an address");
    assert_eq!((own.ip(), lab.call(0, PeerAddress { socket: client })), (ip(1), Ok(to)));
    assert_eq!((lab.call(1, LocalAddress { socket: server }), lab.call(1, PeerAddress { socket: server })), (Ok(to), Ok(own)));
    lab.call(0, Send { socket: client, payload: b"abU"[..].into(), urgent: true, more: false }).expect("room");
    lab.run_until(|lab| lab.kernels.stack(1).readiness(server).intersects(Events::URGENT));
    assert_eq!(lab.call(1, ReceiveUrgent { socket: server, peek: false }), Ok(b'U'));
    assert_eq!(lab.call(1, Receive { socket: server, most: 9, peek: false }).map(|data| data.to_vec()), Ok(b"ab".to_vec()));
}

#[test]
fn a_half_closed_connection_still_answers_and_leaves_nothing_behind() {
    let mut lab = lab("two-hosts.toml");
    let before = lab.world.queue_pairs().count();
    let (client, server) = connected(&mut lab);
    lab.call(0, Send { socket: client, payload: b"question"[..].into(), urgent: false, more: false }).expect("room");
    lab.call(0, Shutdown { socket: client, receive: false, send: true }).expect("a connection");
    lab.run_until(|lab| lab.kernels.stack(1).readiness(server).intersects(Events::READ_CLOSED));
    assert_eq!(lab.call(1, Receive { socket: server, most: 99, peek: false }).map(|data| data.to_vec()), Ok(b"question".to_vec()));
    assert_eq!(lab.call(1, Receive { socket: server, most: 99, peek: false }).map(|data| data.len()), Ok(0));
    lab.call(1, Send { socket: server, payload: b"answer"[..].into(), urgent: false, more: false }).expect("room");
    lab.call(1, Close { socket: server }).expect("a connection");
    lab.run_until(|lab| lab.kernels.stack(0).readiness(client).intersects(Events::HANG_UP));
    assert_eq!(lab.call(0, Receive { socket: client, most: 99, peek: false }).map(|data| data.to_vec()), Ok(b"answer".to_vec()));
    assert_eq!(lab.call(0, Receive { socket: client, most: 99, peek: false }).map(|data| data.len()), Ok(0));
    lab.call(0, Close { socket: client }).expect("a socket");
    let end = lab.now + SimDuration::from_micros(1_000_000);
    lab.run_to(end);
    assert_eq!(lab.world.queue_pairs().count(), before);
}

#[test]
fn a_program_that_dies_with_unread_data_resets_its_peer() {
    let mut lab = lab("two-hosts.toml");
    let (client, server) = connected(&mut lab);
    lab.call(0, Send { socket: client, payload: b"lost"[..].into(), urgent: false, more: false }).expect("room");
    lab.run_until(|lab| lab.kernels.stack(1).readiness(server).intersects(Events::READABLE));
    lab.call(1, Close { socket: server }).expect("a connection");
    lab.run_until(|lab| lab.kernels.stack(0).readiness(client).intersects(Events::ERROR));
    assert_eq!(lab.call(0, TakeError { socket: client }), Err(NetError::Reset));
}

#[test]
fn a_host_that_dies_resets_a_peer_that_sends() {
    let mut spec = spec("two-hosts.toml", 2_044);
    let at = SimTime::ZERO + SimDuration::from_micros(1_000_000);
    spec.faults.push(FaultSpec { at, kind: FaultKind::HostDies { host: 1 } });
    let mut lab = Lab::new(&spec);
    let before = lab.world.queue_pairs().count();
    let (client, _) = connected(&mut lab);
    lab.run_to(at);
    lab.kernels.host_died(1);
    lab.call(0, Send { socket: client, payload: b"hello"[..].into(), urgent: false, more: false }).expect("room");
    lab.run_until(|lab| lab.kernels.stack(0).readiness(client).intersects(Events::ERROR));
    assert_eq!(lab.call(0, TakeError { socket: client }), Err(NetError::Reset));
    assert!(lab.now.as_secs_f64() < 10.0, "{:?}", lab.now);
    // The end of the dead host goes with that of its peer.
    lab.call(0, Close { socket: client }).expect("a socket");
    let end = lab.now + SimDuration::from_micros(1_000_000);
    lab.run_to(end);
    assert_eq!((lab.kernels.sdp_ends(), lab.world.queue_pairs().count()), (0, before));
}

#[test]
fn peers_reach_announced_sources_alone() {
    let mut lab = lab("two-hosts.toml");
    connected(&mut lab);
    for host in [0, 1] {
        let interface = lab.kernels.stack(host).interfaces().find(|(_, config, _)| config.name == "ib0").expect("an interface").0;
        let rkey = lab.kernels.hosts[host].sdp_mut().rkey(&mut lab.world, interface).expect("a key");
        let (_, region) = lab.world.region(MrHandle(rkey)).expect("a region of the key");
        assert_eq!((region.address, region.address + region.len_bytes), (source_address(0), SPAN_BYTES));
        assert_eq!(region.access, Access { remote_read: true, ..Access::default() });
    }
}

#[test]
fn first_sequence_numbers_come_from_the_seed() {
    let psns = |seed: u64| {
        let mut lab = Lab::with_seed(&spec("two-hosts.toml", 2_044), seed);
        connected(&mut lab);
        let pairs = lab.world.queue_pairs().filter(|(.., pair)| pair.init.qp_type == QpType::Rc);
        pairs.map(|(.., pair)| pair.send_psn).collect::<Vec<_>>()
    };
    let (first, second) = (psns(1), psns(2));
    assert_eq!((first.len(), &first), (2, &psns(1)));
    assert!(first[0] != first[1] && first != second, "{first:?} {second:?}");
}

#[test]
fn a_failure_concerns_its_own_attempt_alone() {
    let mut lab = lab("two-hosts.toml");
    let listener = lab.open(1, Protocol::Sdp);
    let to = SocketAddr::new(ip(2), PORT);
    lab.call(1, Bind { socket: listener, address: to }).expect("a free port");
    lab.call(1, Listen { socket: listener, backlog: 8 }).expect("a bound socket");
    let client = lab.open(0, Protocol::Sdp);
    assert_eq!(lab.call(0, Connect { socket: client, to: SocketAddr::new(ip(77), PORT) }), Err(NetError::InProgress));
    let end = lab.now + SimDuration::from_micros(500_000);
    lab.run_to(end);
    lab.call(0, Disconnect { socket: client }).expect("a socket");
    let end = lab.now + SimDuration::from_micros(500_000);
    lab.run_to(end);
    assert_eq!(lab.call(0, Connect { socket: client, to }), Err(NetError::InProgress));
    let end = lab.now + SimDuration::from_micros(5_000_000);
    lab.run_to(end);
    assert_eq!(lab.kernels.stack(0).state(client), Some(State::Established));
}

#[test]
fn a_full_hca_refuses_connections_at_once() {
    for (host, expected) in [(0, NetError::NoBuffers), (1, NetError::Refused)] {
        let mut spec = spec("two-hosts.toml", 2_044);
        // The interface of IPoIB has the only queue pair.
        spec.hosts[host].hcas[0].part.max_qp = 1;
        let mut lab = Lab::new(&spec);
        let (error, seconds) = failed(&mut lab, SocketAddr::new(ip(2), PORT));
        assert_eq!(error, expected);
        assert!(seconds < 0.1, "{seconds}");
        assert_eq!(lab.world.queue_pairs().count(), 2, "nothing is left");
    }
}

/// Connects host 0 to an address, and returns the failure with its time.
fn failed(lab: &mut Lab, to: SocketAddr) -> (NetError, f64) {
    let client = lab.open(0, Protocol::Sdp);
    let begun = lab.call(0, Connect { socket: client, to });
    if begun != Err(NetError::InProgress) {
        return (begun.expect_err("nobody listens"), lab.now.as_secs_f64());
    }
    let mut error = NetError::Already;
    lab.run_until(|lab| {
        error = lab.call(0, Connect { socket: client, to }).expect_err("nobody listens");
        error != NetError::Already
    });
    (error, lab.now.as_secs_f64())
}

#[test]
fn connections_fail_for_the_reasons_of_linux() {
    let mut lab = lab("two-hosts.toml");
    assert_eq!(failed(&mut lab, SocketAddr::new(ip(2), PORT)).0, NetError::Refused);
    let (error, seconds) = failed(&mut lab, SocketAddr::new(ip(77), PORT));
    assert_eq!(error, NetError::HostUnreachable);
    assert!((2.9..4.0).contains(&seconds), "{seconds}");
    let management = SocketAddr::new([198, 18, 0, 2].into(), PORT);
    assert_eq!(failed(&mut lab, management).0, NetError::HostUnreachable, "no HCA leads there");
}

#[test]
fn a_host_reaches_itself() {
    let mut lab = lab("two-hosts.toml");
    let listener = lab.open(0, Protocol::Sdp);
    let to = SocketAddr::new([127, 0, 0, 1].into(), PORT);
    lab.call(0, Bind { socket: listener, address: to }).expect("a free port");
    lab.call(0, Listen { socket: listener, backlog: 8 }).expect("a bound socket");
    let client = lab.open(0, Protocol::Sdp);
    assert_eq!(lab.call(0, Connect { socket: client, to }), Err(NetError::InProgress));
    lab.run_until(|lab| lab.kernels.stack(0).state(client) == Some(State::Established));
    assert!(lab.call(0, Accept { socket: listener }).is_ok());
}

#[test]
fn ports_of_sdp_and_of_tcp_are_apart() {
    let mut lab = lab("two-hosts.toml");
    let (_, _, listener) = connect_to(&mut lab, SocketAddr::new(ip(2), PORT));
    let (client, server) = lab.connect();
    let data = bytes(10_000);
    assert_eq!(lab.transfer((client, server), &data).0, data.to_vec());
    assert!(lab.call(1, Accept { socket: listener }).is_err());
}
