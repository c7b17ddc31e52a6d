//! Hosts that talk over Ethernet.

use super::*;
use softband_catalog::parse_fabric;
use softband_fabric::EthernetCounters;
use softband_model::parts::KernelPath;
use softband_net::calls::{SetOption, SocketOption};

/// Bytes of a full packet's payload, and of its time on the link: 1,500 of IP, 14 of MAC header, 4 of
/// check sequence, 20 of preamble and gap. IP and TCP with timestamps take 52.
const GOODPUT: f64 = 1_000.0 * 1_448.0 / 1_538.0;

/// Returns hosts with cards on a Gigabit switch. Host 0 has 10.0.0.1.
fn star(hosts: usize, lines: &str) -> FabricSpec {
    let mut text = format!("{}\n{lines}", include_str!("gigabit_switch.toml"));
    for number in 0..hosts {
        let host = include_str!("gigabit_host.toml").replace("NUMBER", &number.to_string());
        text += &host.replace("PORT", &(number + 1).to_string());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let catalog = Catalog::load(&root.join("catalog")).expect("the catalogue");
    parse_fabric("star.toml", &text, &catalog, &LoadOptions::default()).unwrap_or_else(|error| panic!("{}", error.to_text())).spec
}

const DROPS: &str = "[ethernet]\nflow_control = \"none\"\n";

/// Stream of a host to host 1.
struct Stream {
    host: usize,
    ends: (SocketId, SocketId),
    sent: u32,
    received: Vec<u8>,
}

impl Lab {
    fn streams(&mut self, hosts: &[usize]) -> Vec<Stream> {
        let ports = PORT..;
        let connected =
            hosts.iter().zip(ports).map(|(host, port)| Stream { host: *host, ends: self.connect_from(*host, port), sent: 0, received: Vec::new() });
        connected.collect()
    }

    /// Sends on all streams until `is_over`.
    fn carry(&mut self, streams: &mut [Stream], data: &Arc<[u8]>, is_over: impl Fn(&[Stream]) -> bool) -> SimTime {
        let whole = Payload::from(data.clone());
        self.run_until(|lab| {
            for stream in &mut *streams {
                while stream.sent < whole.len() {
                    let payload = whole.part(stream.sent, CALL_BYTES);
                    match lab.call(stream.host, Send { socket: stream.ends.0, payload, urgent: false, more: false }) {
                        Ok(count) => stream.sent += count,
                        Err(NetError::WouldBlock) => break,
                        Err(error) => panic!("{error} at {:?}", lab.now),
                    }
                }
                while let Ok(part) = lab.call(1, Receive { socket: stream.ends.1, most: CALL_BYTES, peek: false }) {
                    stream.received.extend(part.to_vec());
                }
            }
            is_over(streams)
        });
        self.now
    }

    fn ethernet(&self) -> EthernetCounters {
        let all = self.world.counters().into_iter().filter_map(|port| port.ethernet);
        all.fold(EthernetCounters::default(), |sum, port| EthernetCounters {
            xmit_pauses: sum.xmit_pauses + port.xmit_pauses,
            rcv_pauses: sum.rcv_pauses + port.rcv_pauses,
            rcv_discards: sum.rcv_discards + port.rcv_discards,
        })
    }
}

fn received(streams: &[Stream]) -> usize {
    streams.iter().map(|stream| stream.received.len()).sum()
}

fn megabits(bytes: usize, span: SimDuration) -> f64 {
    bytes as f64 * 8e-6 / span.as_secs_f64()
}

/// Returns the rate of TCP between two hosts without its start.
fn rate(spec: &FabricSpec) -> f64 {
    let mut lab = Lab::new(spec);
    let mut streams = lab.streams(&[0]);
    let data = bytes(8 << 20);
    let begin = lab.carry(&mut streams, &data, |streams| received(streams) > 2 << 20);
    let before = received(&streams);
    let end = lab.carry(&mut streams, &data, |streams| received(streams) == 8 << 20);
    assert_eq!(streams[0].received, data.to_vec());
    megabits((8 << 20) - before, end - begin)
}

#[test]
fn tcp_reaches_941_megabits_a_second() {
    let megabits = rate(&star(2, DROPS));
    println!("TCP over Gigabit Ethernet: {megabits:.2} Mb/s of {GOODPUT:.2}");
    assert!((megabits - GOODPUT).abs() < 1.0, "{megabits}");
}

#[test]
fn large_frames_leave_more_for_tcp() {
    let megabits = rate(&star(2, "[ethernet]\nflow_control = \"none\"\nmtu = 9000\n"));
    // 8,948 bytes of a frame that takes 9,038 bytes of time.
    assert!((megabits - 990.0).abs() < 1.5, "{megabits}");
}

#[test]
fn two_senders_fill_the_switch_and_tcp_recovers() {
    let run = || {
        let mut lab = Lab::new(&star(3, DROPS));
        let mut streams = lab.streams(&[0, 2]);
        let data = bytes(4 << 20);
        let begin = lab.now;
        let end = lab.carry(&mut streams, &data, |streams| received(streams) == 8 << 20);
        assert!(streams.iter().all(|stream| stream.received == data.to_vec()));
        (megabits(8 << 20, end - begin), end, lab.ethernet().rcv_discards)
    };
    let (rate, end, discards) = run();
    println!("two senders: {rate:.1} Mb/s, {discards} frames dropped");
    assert!(discards > 0);
    assert!((500.0..GOODPUT).contains(&rate), "{rate}");
    assert_eq!((rate, end, discards), run(), "a run is the same twice");
}

#[test]
fn with_flow_control_two_senders_lose_nothing() {
    let mut lab = Lab::new(&star(3, ""));
    let mut streams = lab.streams(&[0, 2]);
    let data = bytes(2 << 20);
    lab.carry(&mut streams, &data, |streams| received(streams) == 4 << 20);
    let counters = lab.ethernet();
    assert_eq!(counters.rcv_discards, 0);
    assert!(counters.xmit_pauses > 0);
}

#[test]
fn four_streams_share_a_link() {
    let mut lab = Lab::new(&star(2, DROPS));
    let mut streams = lab.streams(&[0; 4]);
    let data = bytes(4 << 20);
    let begin = lab.now;
    let end = lab.carry(&mut streams, &data, |streams| received(streams) > 8 << 20);
    let shares: Vec<usize> = streams.iter().map(|stream| stream.received.len() >> 10).collect();
    let rate = megabits(received(&streams), end - begin);
    println!("four streams: {rate:.1} Mb/s, KiB each: {shares:?}");
    assert!((0.95 * GOODPUT..GOODPUT + 0.5).contains(&rate), "{rate}");
    assert!(shares.iter().all(|share| *share > 1 << 10), "each has at least half of its share: {shares:?}");
}

#[test]
fn without_checksums_in_the_card_the_cores_pay() {
    let mut spec = star(2, DROPS);
    let quick = call_cost(&spec);
    for host in &mut spec.hosts {
        for card in &mut host.hcas {
            card.nic.as_mut().expect("a NIC").offloads.checksums = false;
        }
    }
    assert!(call_cost(&spec) > quick);
}

/// Returns the time that a call costs which sends 1,000 bytes.
fn call_cost(spec: &FabricSpec) -> SimDuration {
    let mut lab = Lab::new(spec);
    let ends = lab.connect();
    let payload = Payload::counted(1_000);
    lab.kernels.call(&mut lab.world, lab.now, 0, Send { socket: ends.0, payload, urgent: false, more: false }).1
}

#[test]
fn aggregation_spares_the_core() {
    let mut spec = star(2, DROPS);
    // A core that needs 20 us a packet takes 579 Mb/s.
    spec.hosts[1].part.kernel_path = KernelPath { receive_packet: SimDuration::from_micros(20), ..KernelPath::free() };
    let single = rate(&spec);
    spec.hosts[1].hcas[0].nic.as_mut().expect("a NIC").offloads.aggregation = true;
    let joined = rate(&spec);
    println!("without aggregation {single:.1} Mb/s, with it {joined:.1} Mb/s");
    assert!(single < 580.0, "{single}");
    assert!(joined > 900.0, "{joined}");
}

#[test]
fn the_card_passes_frames_of_joined_groups_alone() {
    let mut lab = Lab::new(&star(3, DROPS));
    let group = IpAddr::from([239, 1, 2, 3]);
    let interface = softband_net::InterfaceId(2);
    let sockets: Vec<SocketId> = (0..3).map(|host| lab.open(host, Protocol::Datagram)).collect();
    for (host, socket) in sockets.iter().copied().enumerate().skip(1) {
        lab.call(host, Bind { socket, address: SocketAddr::new(IpAddr::from([0, 0, 0, 0]), PORT) }).expect("a free port");
    }
    lab.call(2, SetOption { socket: sockets[2], option: SocketOption::Join { group, interface: Some(interface) } }).expect("a group");
    lab.call(0, SetOption { socket: sockets[0], option: SocketOption::MulticastInterface(Some(interface)) }).expect("an interface");
    lab.call(0, SendTo { socket: sockets[0], payload: bytes(100).into(), to: Some(SocketAddr::new(group, PORT)) }).expect("room");
    while lab.step() {}
    let received = |lab: &Lab, host: usize| lab.kernels.stack(host).interfaces().nth(2).expect("eth1").2.received_packets;
    assert_eq!((received(&lab, 1), received(&lab, 2)), (0, 1));
    assert!(lab.call(2, ReceiveFrom { socket: sockets[2], most: CALL_BYTES, peek: false }).is_ok());
}

#[test]
fn an_address_without_a_host_is_unreachable() {
    let (error, seconds) = failed_connect(&mut Lab::new(&star(2, DROPS)), ip(77));
    assert_eq!(error, NetError::HostUnreachable);
    assert!((3.0..3.1).contains(&seconds), "{seconds}");
}

#[test]
fn a_cable_that_comes_back_carries_the_stream_on() {
    let mut spec = star(2, DROPS);
    let at = |micros| SimTime::ZERO + SimDuration::from_micros(micros);
    spec.faults.push(FaultSpec { at: at(3_000), kind: FaultKind::LinkDown { cable: 0 } });
    spec.faults.push(FaultSpec { at: at(2_000_000), kind: FaultKind::LinkUp { cable: 0 } });
    let time = stream_time(&spec);
    assert!(time > SimDuration::from_micros(1_900_000) && time < SimDuration::from_micros(20_000_000), "{time:?}");
}

#[test]
fn interfaces_on_hcas_carry_streams_too() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let catalog = Catalog::load(&root.join("catalog")).expect("the catalogue");
    let file = std::fs::read_to_string(root.join("fabrics/roce-100g.toml")).expect("a fabric");
    let text = format!("{file}[interfaces.roce]\nkind = \"ethernet\"\nsubnet = \"10.0.0.0/24\"\n");
    let spec = parse_fabric("roce.toml", &text, &catalog, &LoadOptions::default()).unwrap_or_else(|error| panic!("{}", error.to_text())).spec;
    let gigabits = (4 << 20) as f64 * 8e-9 / stream_time(&spec).as_secs_f64();
    println!("TCP over 100GbE of HCAs: {gigabits:.2} Gb/s");
    assert!(gigabits > 1.0, "{gigabits}");
}
