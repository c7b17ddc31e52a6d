//! Hosts that talk over modelled interfaces, without programs.

use super::Kernels;
use softband_catalog::{Catalog, LoadOptions, load_fabric};
use softband_fabric::World;
use softband_fabric::notice::Notice;
use softband_model::verbs::api::{HostMemory, MemoryFault, PayloadSlice};
use softband_net::calls::{Accept, Bind, Close, Connect, Listen, Open, Receive, ReceiveFrom, Send, SendTo};
use softband_net::{Call, Family, NetError, Payload, Protocol, SocketId};
use softband_sim::{SimDuration, SimTime};
use softband_spec::faults::{FaultKind, FaultSpec};
use softband_spec::{FabricSpec, InterfaceAddress, InterfaceKind, InterfaceSpec, IpoibMode};
use softband_types::{PKey, PortNumber, ProcessId};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

const PORT: u16 = 5_001;
/// Most bytes of a call of the tests' programs.
const CALL_BYTES: u32 = 65_536;

mod ethernet;
mod neighbours;
mod offloads;
mod routes;
mod sdp;
mod subnet;

struct NoPrograms;

impl HostMemory for NoPrograms {
    fn read(&mut self, _: ProcessId, _: u64, _: &mut [u8]) -> Result<(), MemoryFault> {
        Err(MemoryFault)
    }
    fn write(&mut self, _: ProcessId, _: u64, _: &PayloadSlice) -> Result<(), MemoryFault> {
        Err(MemoryFault)
    }
}

/// A fabric with kernels, and the loop of the engine.
struct Lab {
    world: World,
    kernels: Kernels,
    now: SimTime,
}

fn spec(file: &str, mtu_bytes: u32) -> FabricSpec {
    spec_of(file, IpoibMode::Datagram, mtu_bytes)
}

fn spec_of(file: &str, mode: IpoibMode, mtu_bytes: u32) -> FabricSpec {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let catalog = Catalog::load(&root.join("catalog")).expect("the catalogue");
    let mut spec = load_fabric(&root.join("fabrics").join(file), &catalog, &LoadOptions::default()).expect("a fabric").spec;
    for (number, host) in (1..).zip(&mut spec.hosts) {
        let kind = InterfaceKind::Ipoib { hca: 0, port: PortNumber(1), mode, pkey: PKey::DEFAULT_FULL };
        let addresses = vec![InterfaceAddress { address: ip(number), prefix: 24 }];
        host.interfaces.push(InterfaceSpec { name: "ib0".into(), kind, addresses, mtu_bytes });
    }
    spec
}

fn ip(number: u8) -> IpAddr {
    [10, 0, 0, number].into()
}

impl Lab {
    fn new(spec: &FabricSpec) -> Self {
        Self::with_seed(spec, 1)
    }

    fn with_seed(spec: &FabricSpec, seed: u64) -> Self {
        let mut world = World::new(spec, seed);
        let kernels = Kernels::new(&mut world, seed, false).expect("interfaces that exist").expect("a modelled network");
        Self { world, kernels, now: SimTime::ZERO }
    }

    fn call<C: Call>(&mut self, host: usize, call: C) -> Result<C::Reply, NetError> {
        let (reply, cost) = self.kernels.call(&mut self.world, self.now, host, call);
        assert!(cost > SimDuration::ZERO, "a call without a cost lets programs poll for ever");
        reply
    }

    /// Executes the events until a time, which then is the present.
    fn run_to(&mut self, end: SimTime) {
        while [self.world.next_event_time(), self.kernels.next_time()].into_iter().flatten().any(|at| at <= end) {
            self.step();
        }
        self.now = self.now.max(end);
    }

    /// Executes the next event. Returns false without one.
    fn step(&mut self) -> bool {
        let _ = self.kernels.take_due();
        let (fabric, own) = (self.world.next_event_time(), self.kernels.next_time());
        match (fabric, own) {
            (Some(at), own) if own.is_none_or(|own| at <= own) => {
                let mut notices = Vec::new();
                self.world.step(&mut self.kernels.memory_beside(&mut NoPrograms), &mut notices);
                self.now = self.now.max(self.world.now());
                for notice in notices {
                    match notice {
                        Notice::Completed { cq, completion, .. } => self.kernels.completed(&mut self.world, self.now, cq, &completion),
                        // Requests that come before the manager works reach its host.
                        Notice::ManagementArrived { hca, port, packet } => {
                            self.kernels.arrived(&mut self.world, self.now, (hca, port), &packet);
                        }
                        Notice::FrameSent { hca, port } => self.kernels.frame_sent(&mut self.world, self.now, (hca, port)),
                        Notice::FrameArrived { hca, port, frame } => self.kernels.frame_arrived(&mut self.world, self.now, (hca, port), frame),
                        Notice::PortEvent { hca, port, event } => self.kernels.port_event(&mut self.world, self.now, (hca, port), event),
                        _ => {}
                    }
                }
                true
            }
            (_, Some(at)) => {
                self.now = at;
                self.kernels.run(&mut self.world, at);
                true
            }
            _ => false,
        }
    }

    fn run_until(&mut self, mut is_over: impl FnMut(&mut Self) -> bool) {
        while !is_over(self) {
            assert!(self.step(), "nothing more happens at {:?}", self.now);
        }
    }

    fn open(&mut self, host: usize, protocol: Protocol) -> SocketId {
        self.call(host, Open { family: Family::V4, protocol }).expect("a socket")
    }

    /// Connects a socket of host 0 to host 1, and returns both ends.
    fn connect(&mut self) -> (SocketId, SocketId) {
        self.connect_from(0, PORT)
    }

    /// Connects a socket of a host to a port of host 1, and returns both ends.
    fn connect_from(&mut self, host: usize, port: u16) -> (SocketId, SocketId) {
        let listener = self.open(1, Protocol::Stream);
        let to = SocketAddr::new(ip(2), port);
        self.call(1, Bind { socket: listener, address: to }).expect("a free port");
        self.call(1, Listen { socket: listener, backlog: 8 }).expect("a bound socket");
        let client = self.open(host, Protocol::Stream);
        assert_eq!(self.call(host, Connect { socket: client, to }), Err(NetError::InProgress));
        let mut server = None;
        self.run_until(|lab| {
            server = lab.call(1, Accept { socket: listener }).ok();
            server.is_some()
        });
        (client, server.expect("a connection").0)
    }

    /// Sends bytes from host 0 to host 1. Returns the received bytes and the time of the last.
    fn transfer(&mut self, (client, server): (SocketId, SocketId), data: &Arc<[u8]>) -> (Vec<u8>, SimTime) {
        let whole = Payload::from(data.clone());
        let (mut sent, mut received) = (0, Vec::new());
        self.run_until(|lab| {
            while sent < whole.len() {
                match lab.call(0, Send { socket: client, payload: whole.part(sent, CALL_BYTES), urgent: false, more: false }) {
                    Ok(count) => sent += count,
                    Err(NetError::WouldBlock) => break,
                    Err(error) => panic!("{error} at {:?}", lab.now),
                }
            }
            while let Ok(part) = lab.call(1, Receive { socket: server, most: CALL_BYTES, peek: false }) {
                received.extend(part.to_vec());
                if part.is_empty() {
                    break;
                }
            }
            received.len() >= data.len()
        });
        (received, self.now)
    }
}

fn bytes(count: usize) -> Arc<[u8]> {
    (0..count).map(|index| (index * 7 + index / 251) as u8).collect()
}

#[test]
fn datagrams_cross_the_fabric_with_their_bytes() {
    let mut lab = Lab::new(&spec("two-hosts.toml", 2_044));
    let (a, b) = (lab.open(0, Protocol::Datagram), lab.open(1, Protocol::Datagram));
    lab.call(1, Bind { socket: b, address: SocketAddr::new(ip(2), PORT) }).expect("a free port");
    let data = bytes(1_000);
    lab.call(0, SendTo { socket: a, payload: data.clone().into(), to: Some(SocketAddr::new(ip(2), PORT)) }).expect("room");
    let mut received = None;
    lab.run_until(|lab| {
        received = lab.call(1, ReceiveFrom { socket: b, most: CALL_BYTES, peek: false }).ok();
        received.is_some()
    });
    let received = received.expect("a datagram");
    assert_eq!((received.payload.to_vec(), received.from.ip()), (data.to_vec(), ip(1)));
    assert!(lab.now < SimTime::from_picos(1_000_000_000), "it took {:?}", lab.now);
}

#[test]
fn a_stream_arrives_whole_at_the_same_times_each_run() {
    let run = || {
        let mut lab = Lab::new(&spec("two-hosts.toml", 2_044));
        let ends = lab.connect();
        let begin = lab.now;
        let data = bytes(4 << 20);
        let (received, end) = lab.transfer(ends, &data);
        assert_eq!(received, data.to_vec());
        lab.call(0, Close { socket: ends.0 }).expect("an open socket");
        (begin, end, data.len())
    };
    let (begin, end, len) = run();
    let gigabits = len as f64 * 8e-9 / (end - begin).as_secs_f64();
    println!("TCP over IPoIB: {gigabits:.3} Gb/s");
    assert_eq!((begin, end, len), run());
}

/// Connects host 0 to an address, and returns the failure with its time.
fn failed_connect(lab: &mut Lab, to: IpAddr) -> (NetError, f64) {
    let client = lab.open(0, Protocol::Stream);
    let to = SocketAddr::new(to, PORT);
    assert_eq!(lab.call(0, Connect { socket: client, to }), Err(NetError::InProgress));
    let mut error = NetError::Already;
    lab.run_until(|lab| {
        error = lab.call(0, Connect { socket: client, to }).expect_err("nobody listens");
        error != NetError::Already
    });
    (error, lab.now.as_secs_f64())
}

#[test]
fn an_address_without_a_host_is_unreachable_after_three_requests() {
    let mut lab = Lab::new(&spec("two-hosts.toml", 2_044));
    let (error, seconds) = failed_connect(&mut lab, ip(77));
    assert_eq!(error, NetError::HostUnreachable);
    assert!((3.0..3.1).contains(&seconds), "{seconds}");
    let management = IpAddr::from([198, 18, 0, 77]);
    let (error, seconds) = failed_connect(&mut lab, management);
    assert_eq!(error, NetError::HostUnreachable);
    assert!((6.0..6.2).contains(&seconds), "{seconds}");
}

#[test]
fn a_port_without_a_listener_refuses_on_both_networks() {
    let mut lab = Lab::new(&spec("two-hosts.toml", 2_044));
    for to in [ip(2), IpAddr::from([198, 18, 0, 2]), IpAddr::from([127, 0, 0, 1])] {
        assert_eq!(failed_connect(&mut lab, to).0, NetError::Refused, "{to}");
    }
}

#[test]
fn a_lost_packet_is_sent_again_and_the_stream_is_whole() {
    let mut spec = spec("two-hosts.toml", 2_044);
    let lossless = stream_time(&spec);
    let from = softband_spec::PortRef::Hca { host: 0, hca: 0, port: PortNumber(1) };
    for number in [200, 900, 901, 902] {
        let kind = FaultKind::Drop { port: from, packet: softband_spec::faults::PacketClass::Datagram, number };
        spec.faults.push(FaultSpec { at: SimTime::ZERO, kind });
    }
    let lossy = stream_time(&spec);
    assert!(lossy > lossless, "{lossy:?} against {lossless:?}");
    assert!(lossy < lossless + SimDuration::from_micros(20_000), "recovery without a timeout: {lossy:?} against {lossless:?}");
}

/// Returns the time of a transfer of 4 MiB.
fn stream_time(spec: &FabricSpec) -> SimDuration {
    let mut lab = Lab::new(spec);
    let ends = lab.connect();
    let begin = lab.now;
    let data = bytes(4 << 20);
    let (received, end) = lab.transfer(ends, &data);
    assert_eq!(received, data.to_vec());
    end - begin
}

#[test]
fn a_slow_receiver_loses_packets_and_tcp_goes_on() {
    let mut spec = spec("two-hosts.toml", 2_044);
    // A core that takes 40 us a packet falls far behind the link.
    spec.hosts[1].part.kernel_path.receive_packet = SimDuration::from_micros(40);
    spec.hosts[1].part.kernel_path.interrupt = SimDuration::from_micros(40_000);
    let mut lab = Lab::new(&spec);
    let ends = lab.connect();
    // Four senders of datagrams fill the ring of 256 packets before the core takes the first.
    for _ in 0..4 {
        let socket = lab.open(0, Protocol::Datagram);
        let to = Some(SocketAddr::new(ip(2), PORT));
        while lab.call(0, SendTo { socket, payload: Payload::counted(1_000), to }).is_ok() {}
    }
    let data = bytes(2 << 20);
    let (received, _) = lab.transfer(ends, &data);
    assert_eq!(received, data.to_vec());
    let sent = lab.kernels.stack(0).interfaces().nth(2).expect("ib0").2.sent_packets;
    let arrived = lab.kernels.stack(1).interfaces().nth(2).expect("ib0").2.received_packets;
    assert!(sent > arrived + 50, "the ring dropped some: {sent} sent, {arrived} received");
}

#[test]
fn a_link_that_comes_back_carries_the_stream_on() {
    let mut spec = spec("two-hosts.toml", 2_044);
    let at = |micros| SimTime::ZERO + SimDuration::from_micros(micros);
    spec.faults.push(FaultSpec { at: at(3_000), kind: FaultKind::LinkDown { cable: 0 } });
    spec.faults.push(FaultSpec { at: at(2_000_000), kind: FaultKind::LinkUp { cable: 0 } });
    let time = stream_time(&spec);
    assert!(time > SimDuration::from_micros(1_900_000) && time < SimDuration::from_micros(20_000_000), "{time:?}");
}

#[test]
fn a_link_that_stays_down_ends_a_connection_as_in_linux() {
    let mut spec = spec("two-hosts.toml", 2_044);
    spec.faults.push(FaultSpec { at: SimTime::ZERO + SimDuration::from_micros(1_000_000), kind: FaultKind::LinkDown { cable: 0 } });
    let mut lab = Lab::new(&spec);
    let (client, _) = lab.connect();
    lab.run_until(|lab| lab.now.as_secs_f64() >= 1.0);
    let payload = Payload::counted(1_000);
    lab.call(0, Send { socket: client, payload, urgent: false, more: false }).expect("room");
    let mut error = NetError::WouldBlock;
    lab.run_until(|lab| {
        error = lab.call(0, Receive { socket: client, most: 1, peek: false }).err().unwrap_or(NetError::WouldBlock);
        error != NetError::WouldBlock
    });
    let seconds = lab.now.as_secs_f64();
    println!("{error} after {seconds} s");
    // RTO_MIN doubles up to 120 s, fifteen times: 924.6 s (tcp(7), tcp_retries2). The neighbour
    // fails earlier, and Linux keeps that error for the end.
    assert!(matches!(error, NetError::TimedOut | NetError::HostUnreachable), "{error}");
    assert!((900.0..1_000.0).contains(&seconds), "{seconds}");
}

#[test]
fn connected_mode_carries_large_packets() {
    let mut lab = Lab::new(&spec_of("two-hosts.toml", IpoibMode::Connected, 65_520));
    let ends = lab.connect();
    let begin = lab.now;
    let data = bytes(4 << 20);
    let (received, end) = lab.transfer(ends, &data);
    assert_eq!(received, data.to_vec());
    let gigabits = data.len() as f64 * 8e-9 / (end - begin).as_secs_f64();
    println!("TCP over IPoIB, connected: {gigabits:.3} Gb/s");
    let packets = lab.kernels.stack(0).interfaces().nth(2).expect("ib0").2.sent_packets;
    assert!(packets < 200, "{packets} packets of some 64 KiB");
}

#[test]
fn a_failed_connection_of_connected_mode_is_made_again() {
    let mut spec = spec_of("two-hosts.toml", IpoibMode::Connected, 65_520);
    let at = |micros| SimTime::ZERO + SimDuration::from_micros(micros);
    spec.faults.push(FaultSpec { at: at(3_000), kind: FaultKind::LinkDown { cable: 0 } });
    spec.faults.push(FaultSpec { at: at(8_000_000), kind: FaultKind::LinkUp { cable: 0 } });
    let time = stream_time(&spec);
    assert!(time > SimDuration::from_micros(7_900_000) && time < SimDuration::from_micros(60_000_000), "{time:?}");
}

#[test]
fn a_host_of_datagram_mode_reaches_one_of_connected_mode() {
    let mut spec = spec_of("two-hosts.toml", IpoibMode::Connected, 65_520);
    let kind = InterfaceKind::Ipoib { hca: 0, port: PortNumber(1), mode: IpoibMode::Datagram, pkey: PKey::DEFAULT_FULL };
    (spec.hosts[1].interfaces[1].kind, spec.hosts[1].interfaces[1].mtu_bytes) = (kind, 2_044);
    assert!(stream_time(&spec) > SimDuration::ZERO);
}

/// Packets of 2,044 bytes carry 1,992 bytes of TCP with timestamps. On the link they have 4 bytes of
/// IPoIB and 34 of InfiniBand: LRH, BTH, DETH, ICRC and VCRC.
const SHARE_OF_LINK: f64 = 1_992.0 / (2_044.0 + 4.0 + 34.0);

#[test]
fn tcp_fills_a_link_whose_kernel_costs_nothing() {
    let mut spec = spec("cables/sdr-cx4.toml", 2_044);
    for host in &mut spec.hosts {
        host.part.kernel_path = softband_model::parts::KernelPath::free();
    }
    // The HCA starts a datagram each 2.25 us, which leaves less than the link does.
    let by_gap = 1_992.0 * 8e-9 / spec.hosts[0].hcas[0].part.gaps.datagram.as_secs_f64();
    let limit = by_gap.min(8.0 * SHARE_OF_LINK);
    let gigabits = (4 << 20) as f64 * 8e-9 / stream_time(&spec).as_secs_f64();
    println!("SDR 4x: {gigabits:.3} Gb/s of at most {limit:.3}");
    assert!((0.99 * limit..=limit).contains(&gigabits), "{gigabits} of {limit}");
}
