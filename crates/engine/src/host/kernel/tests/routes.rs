//! Hosts that forward packets from one network to another.

use super::*;
use softband_model::parts::{IpoibOffloads, KernelPart};
use softband_spec::RouteSpec;

/// Host 0 is on IPoIB alone, host 2 on the management network alone, and host 1 between them.
fn chain(mode: IpoibMode, mtu_bytes: u32) -> FabricSpec {
    let mut spec = spec_of("three-hosts.toml", mode, mtu_bytes);
    spec.hosts[0].interfaces.remove(0);
    spec.hosts[2].interfaces.remove(1);
    let route = |network: [u8; 4], prefix: u8, gateway: IpAddr| RouteSpec {
        network: InterfaceAddress { address: network.into(), prefix },
        gateway,
        interface: 0,
    };
    spec.hosts[0].routes.push(route([198, 18, 0, 0], 16, ip(2)));
    spec.hosts[2].routes.push(route([10, 0, 0, 0], 24, [198, 18, 0, 2].into()));
    spec
}

const FAR: [u8; 4] = [198, 18, 0, 3];

/// Connects host 0 to host 2, and returns both ends.
fn ends(lab: &mut Lab) -> (SocketId, SocketId) {
    let (listener, client) = (lab.open(2, Protocol::Stream), lab.open(0, Protocol::Stream));
    let to = SocketAddr::new(FAR.into(), PORT);
    lab.call(2, Bind { socket: listener, address: to }).expect("a free port");
    lab.call(2, Listen { socket: listener, backlog: 4 }).expect("an address");
    assert_eq!(lab.call(0, Connect { socket: client, to }), Err(NetError::InProgress));
    let mut accepted = None;
    lab.run_until(|lab| {
        accepted = lab.call(2, Accept { socket: listener }).ok();
        accepted.is_some()
    });
    let (server, from) = accepted.expect("a connection");
    assert_eq!(from.ip(), ip(1));
    (client, server)
}

#[test]
fn a_stream_crosses_a_gateway_between_networks_of_different_mtus() {
    // Packets of connected mode are longer than those of the management network.
    for (mode, mtu_bytes) in [(IpoibMode::Datagram, 2_044), (IpoibMode::Connected, 65_520)] {
        let mut lab = Lab::new(&chain(mode, mtu_bytes));
        let (client, server) = ends(&mut lab);
        let data = bytes(1 << 20);
        let (mut sent, mut received) = (0, Vec::new());
        lab.run_until(|lab| {
            if sent < data.len() {
                let payload = Payload::from(&data[sent..data.len().min(sent + CALL_BYTES as usize)]);
                sent += lab.call(0, Send { socket: client, payload, urgent: false, more: false }).unwrap_or(0) as usize;
            }
            if let Ok(part) = lab.call(2, Receive { socket: server, most: CALL_BYTES, peek: false }) {
                received.extend(part.to_vec());
            }
            received.len() == data.len()
        });
        assert_eq!(received, data.to_vec());
        let forwarded = lab.kernels.stack(1).interfaces().nth(1).expect("eth0").2.sent_packets;
        assert!(forwarded > 700, "{forwarded} packets");
        let seconds = lab.now.as_secs_f64();
        assert!(seconds < 0.5, "{mode:?}: {seconds}");
    }
}

#[test]
fn a_gateway_reports_a_far_host_that_is_down() {
    let mut lab = Lab::new(&chain(IpoibMode::Datagram, 2_044));
    lab.kernels.host_died(2);
    let (error, seconds) = failed_connect(&mut lab, FAR.into());
    assert_eq!(error, NetError::HostUnreachable);
    assert!((3.0..3.2).contains(&seconds), "{seconds}");
    // A gateway that is down does not answer, either.
    lab.kernels.host_died(1);
    let (error, _) = failed_connect(&mut lab, FAR.into());
    assert_eq!(error, NetError::HostUnreachable);
}

#[test]
fn a_gateway_reads_no_segments_but_those_that_it_joins() {
    let time = |joins| {
        let mut spec = chain(IpoibMode::Datagram, 2_044);
        let host = &mut spec.hosts[1];
        host.kernel = KernelPart { checksum_with_copy: false, ipoib_aggregation: joins, ..host.kernel.clone() };
        host.hcas[0].part.ipoib_offloads = IpoibOffloads { checksums: false, segmentation: false };
        host.part.kernel_path.copy_bytes_per_second = 1_000_000;
        let mut lab = Lab::new(&spec);
        let (client, server) = ends(&mut lab);
        let begin = lab.now;
        lab.call(0, Send { socket: client, payload: Payload::counted(1_000), urgent: false, more: false }).expect("room");
        lab.run_until(|lab| lab.call(2, Receive { socket: server, most: CALL_BYTES, peek: false }).is_ok());
        (lab.now - begin).as_nanos() / 1_000
    };
    let (reads, passes) = (time(true), time(false));
    println!("{reads} us by joins, {passes} us without");
    assert!(reads > 1_000 && passes < 500);
}
