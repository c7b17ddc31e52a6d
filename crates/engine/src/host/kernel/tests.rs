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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let catalog = Catalog::load(&root.join("catalog")).expect("the catalogue");
    let mut spec = load_fabric(&root.join("fabrics").join(file), &catalog, &LoadOptions::default()).expect("a fabric").spec;
    for (number, host) in (1..).zip(&mut spec.hosts) {
        let kind = InterfaceKind::Ipoib { hca: 0, port: PortNumber(1), mode: IpoibMode::Datagram, pkey: PKey::DEFAULT_FULL };
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
        let mut world = World::new(spec, 1);
        let kernels = Kernels::new(&mut world, 1).expect("interfaces that exist").expect("a modelled network");
        Self { world, kernels, now: SimTime::ZERO }
    }

    fn call<C: Call>(&mut self, host: usize, call: C) -> Result<C::Reply, NetError> {
        let (reply, cost) = self.kernels.call(&mut self.world, self.now, host, call);
        assert!(cost > SimDuration::ZERO, "a call without a cost lets programs poll for ever");
        reply
    }

    /// Executes the next event. Returns false without one.
    fn step(&mut self) -> bool {
        let (fabric, own) = (self.world.next_event_time(), self.kernels.next_time());
        match (fabric, own) {
            (Some(at), own) if own.is_none_or(|own| at <= own) => {
                let mut notices = Vec::new();
                self.world.step(&mut self.kernels.memory_beside(&mut NoPrograms), &mut notices);
                self.now = self.now.max(self.world.now());
                for notice in notices {
                    match notice {
                        Notice::Completed { cq, completion, .. } => self.kernels.completed(&mut self.world, self.now, cq, &completion),
                        Notice::ManagementArrived { hca, port, packet } => {
                            assert!(self.kernels.arrived(&mut self.world, self.now, (hca, port), &packet));
                        }
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
        let listener = self.open(1, Protocol::Stream);
        self.call(1, Bind { socket: listener, address: SocketAddr::new(ip(2), PORT) }).expect("a free port");
        self.call(1, Listen { socket: listener, backlog: 8 }).expect("a bound socket");
        let client = self.open(0, Protocol::Stream);
        let to = SocketAddr::new(ip(2), PORT);
        assert_eq!(self.call(0, Connect { socket: client, to }), Err(NetError::InProgress));
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
                match lab.call(0, Send { socket: client, payload: whole.part(sent, CALL_BYTES), urgent: false }) {
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
