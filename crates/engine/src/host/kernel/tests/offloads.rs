//! Work that HCAs and drivers of IPoIB do for the kernel.

use super::{Lab, PORT, bytes, ip, spec, stream_time};
use softband_model::parts::{IpoibOffloads, KernelPart, KernelPath};
use softband_net::calls::{Open, Receive, Send, SendTo};
use softband_net::{Family, Payload, Protocol};
use softband_sim::{SimDuration, SimTime};
use softband_spec::FabricSpec;
use std::net::SocketAddr;

/// Two hosts whose HCAs compute checksums and cut super-segments.
const MODERN: &str = "qdr-through-switch.toml";

fn with_kernels(file: &str, change: impl Fn(&mut KernelPart)) -> FabricSpec {
    let mut spec = spec(file, 2_044);
    spec.hosts.iter_mut().for_each(|host| change(&mut host.kernel));
    spec
}

#[test]
fn each_offload_of_a_modern_hca_makes_a_stream_faster() {
    let whole = stream_time(&with_kernels(MODERN, |_| {}));
    let without_joins = stream_time(&with_kernels(MODERN, |kernel| kernel.ipoib_aggregation = false));
    let without_all = stream_time(&with_kernels(MODERN, |kernel| (kernel.ipoib_aggregation, kernel.ipoib_offloads) = (false, false)));
    println!("all {whole:?}, without GRO {without_joins:?}, without offloads {without_all:?}");
    assert!(whole < without_joins && without_joins < without_all);
}

#[test]
fn an_hca_cuts_super_segments_into_datagrams_of_the_mtu() {
    let mut lab = Lab::new(&with_kernels(MODERN, |_| {}));
    let ends = lab.connect();
    let data = bytes(1 << 20);
    let (received, _) = lab.transfer(ends, &data);
    assert_eq!(received, data.to_vec());
    let interface = lab.kernels.stack(0).interfaces().nth(2).expect("ib0");
    assert!(interface.1.has_segmentation && interface.2.sent_packets >= (1 << 20) / 1_992);
}

#[test]
fn super_segments_fit_into_a_small_send_ring() {
    let mut spec = with_kernels(MODERN, |_| {});
    for host in &mut spec.hosts {
        host.hcas[0].part.max_qp_wr = 16;
    }
    let mut lab = Lab::new(&spec);
    let ends = lab.connect();
    let data = bytes(1 << 20);
    assert_eq!(lab.transfer(ends, &data).0, data.to_vec());
    assert!(lab.now < SimTime::ZERO + SimDuration::from_micros(100_000), "{:?}", lab.now);
}

#[test]
fn without_checksums_the_kernel_reads_the_bytes_again() {
    let time = |checksums| {
        let mut spec = with_kernels(MODERN, |kernel| kernel.ipoib_aggregation = false);
        for host in &mut spec.hosts {
            host.hcas[0].part.ipoib_offloads = IpoibOffloads { checksums, segmentation: false };
        }
        stream_time(&spec)
    };
    assert!(time(true) < time(false));
}

#[test]
fn a_core_reads_joined_segments_for_their_checksums() {
    let time = |checksums| {
        let mut spec = with_kernels(MODERN, |_| {});
        // The core of the receiver limits the stream.
        let join_packet = SimDuration::from_micros(2);
        spec.hosts[1].part.kernel_path = KernelPath { copy_bytes_per_second: 1_000_000_000, join_packet, ..KernelPath::free() };
        spec.hosts[1].hcas[0].part.ipoib_offloads.checksums = checksums;
        stream_time(&spec)
    };
    let (reads, passes) = (time(false), time(true));
    println!("with checksums {reads:?}, without {passes:?}");
    assert!(reads.as_picos() > passes.as_picos() / 2 * 3);
}

/// Returns the packets that a slow receiver loses of a burst.
fn lost(backlog: Option<u32>) -> u64 {
    let mut spec = with_kernels("two-hosts.toml", |kernel| kernel.ipoib_backlog_packets = backlog);
    spec.hosts[1].part.kernel_path.receive_packet = SimDuration::from_micros(40);
    spec.hosts[1].part.kernel_path.interrupt = SimDuration::from_micros(40_000);
    let mut lab = Lab::new(&spec);
    // The neighbours know each other before the burst.
    lab.connect();
    let socket = lab.call(0, Open { family: Family::V4, protocol: Protocol::Datagram }).expect("a socket");
    let to = Some(SocketAddr::new(ip(2), PORT));
    let mut left = 400;
    lab.run_until(|lab| {
        while left > 0 && lab.call(0, SendTo { socket, payload: Payload::counted(1_000), to }).is_ok() {
            left -= 1;
        }
        left == 0
    });
    lab.run_to(SimTime::ZERO + SimDuration::from_micros(200_000));
    let counters = |host: usize| lab.kernels.stack(host).interfaces().nth(2).expect("ib0").2;
    counters(0).sent_packets - counters(1).received_packets
}

#[test]
fn a_backlog_holds_what_the_ring_of_a_driver_with_napi_loses() {
    assert!(lost(None) > 50, "the ring has 256 packets");
    assert_eq!(lost(Some(1_000)), 0);
    assert!(lost(Some(100)) > 250);
}

/// Returns the time of a message to the sender of a stream, from the stream's last byte on.
fn message_time(backlog: Option<u32>) -> SimDuration {
    // The hosts of this file have a kernel without NAPI and tail loss probes.
    let old = spec("ipoib.toml", 2_044).hosts[0].kernel.clone();
    let spec = with_kernels("two-hosts.toml", |kernel| *kernel = KernelPart { ipoib_backlog_packets: backlog, ..old.clone() });
    let mut lab = Lab::new(&spec);
    let (control, stream) = (lab.connect_from(0, PORT + 1), lab.connect());
    let mut left = 4_u32 << 20;
    lab.run_until(|lab| {
        while left > 0
            && let Ok(sent) = lab.call(0, Send { socket: stream.0, payload: Payload::counted(left.min(65_536)), urgent: false, more: false })
        {
            left -= sent;
        }
        while lab.call(1, Receive { socket: stream.1, most: 65_536, peek: false }).is_ok() {}
        left == 0
    });
    let begin = lab.now;
    lab.call(1, Send { socket: control.1, payload: Payload::counted(1), urgent: false, more: false }).expect("room");
    lab.run_until(|lab| {
        while lab.call(1, Receive { socket: stream.1, most: 65_536, peek: false }).is_ok() {}
        lab.call(0, Receive { socket: control.0, most: 1, peek: false }).is_ok()
    });
    lab.now - begin
}

#[test]
fn a_message_beside_a_stream_arrives_without_a_timeout() {
    println!("with the ring alone {:?}", message_time(None));
    let time = message_time(Some(1_000));
    assert!(time < SimDuration::from_micros(50_000), "{time:?}");
}
