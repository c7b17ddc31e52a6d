//! Raw Ethernet frames of network interfaces: their time on links, losses in full buffers, and frames to
//! all.

use crate::common::*;
use softband_fabric::notice::Notice;
use softband_fabric::{EthernetCounters, FrameError, World};
use softband_model::parts::{CablePart, CardInterface, EthernetCable, EthernetPorts, HostPart, NicOffloads, NicPart, SwitchPart};
use softband_sim::{SimDuration, SimTime};
use softband_spec::{BuildError, EthernetFlowControl, EthernetSpec, FabricBuilder, FabricSpec};
use softband_types::*;
use std::sync::Arc;

const PORT_1: PortNumber = PortNumber(1);
const TO_ALL: [u8; 6] = [0xFF; 6];

fn nic(rate: EthernetRate) -> NicPart {
    NicPart {
        name: "test card".into(),
        driver: "test".into(),
        ports: 1,
        rates: vec![rate],
        mtu_max_bytes: 9_000,
        interface: CardInterface::PciExpress { generation: 1, lanes: 4 },
        outstanding_reads: 8,
        transmit_ring_frames: 64,
        receive_ring_frames: 256,
        buffer_bytes: 65_536,
        pause_response: nanos(600),
        doorbell: nanos(100),
        descriptor_fetch: nanos(300),
        transmit_processing: nanos(200),
        receive_processing: nanos(200),
        descriptor_write: nanos(200),
        offloads: NicOffloads::default(),
        moderation_frames: 1,
        moderation_time: SimDuration::ZERO,
        interrupt_interval: SimDuration::ZERO,
    }
}

fn switch(rate: EthernetRate, buffer_bytes: u32) -> SwitchPart {
    let ports = EthernetPorts { rates: vec![rate], buffer_bytes, pause_response: nanos(600) };
    SwitchPart { ethernet: Some(ports), forward_latency: vec![(rate.link_rate().speed, nanos(2_000))], ..SwitchPart::ideal(24) }
}

fn wire(rate: EthernetRate) -> CablePart {
    CablePart { ethernet: Some(EthernetCable { rate_max: rate, fec_latency: Vec::new() }), ..CablePart::ideal(1_000) }
}

/// Returns hosts with a NIC each on a switch with this buffer for a port.
fn star(hosts: usize, flow_control: EthernetFlowControl, buffer_bytes: u32) -> FabricSpec {
    let rate = EthernetRate::G1;
    let mut fabric = FabricBuilder::new("star");
    let middle = fabric.switch("sw", switch(rate, buffer_bytes));
    for number in 0..hosts {
        let host = fabric.host(format!("h{number}"), HostPart::ideal());
        let card = fabric.nic(host, "eth1", nic(rate));
        fabric.cable(card, middle, wire(rate));
    }
    fabric.ethernet(EthernetSpec { flow_control, ..EthernetSpec::default() });
    fabric.build().unwrap()
}

/// Hosts that send frames, and the arrivals: time, host and frame.
struct Net {
    world: World,
    memory: Memory,
    arrived: Vec<(SimTime, usize, Arc<[u8]>)>,
    /// Frames that each host has still to send.
    waiting: Vec<Vec<Arc<[u8]>>>,
}

impl Net {
    fn new(spec: &FabricSpec) -> Self {
        let waiting = vec![Vec::new(); spec.hosts.len()];
        Self { world: World::new(spec, 1), memory: Memory { blocks: Vec::new(), discard: false }, arrived: Vec::new(), waiting }
    }

    fn hca(&self, host: usize) -> HcaId {
        self.world.hca_id(host, 0)
    }

    fn frame(&self, from: usize, to: [u8; 6], bytes: usize) -> Arc<[u8]> {
        let mut frame = [to, self.world.mac(self.hca(from), PORT_1).unwrap()].concat();
        frame.extend_from_slice(&[0x08, 0x00]);
        frame.resize(bytes, 7);
        frame.into()
    }

    fn to(&self, host: usize) -> [u8; 6] {
        self.world.mac(self.hca(host), PORT_1).unwrap()
    }

    /// Posts a host's frames up to the first without a place in the ring.
    fn post(&mut self, host: usize) {
        while let Some(frame) = self.waiting[host].last().cloned() {
            let now = self.world.now();
            if self.world.send_frame(self.hca(host), PORT_1, frame, now) == Err(FrameError::RingFull) {
                return;
            }
            self.waiting[host].pop();
        }
    }

    /// Lets all frames go their way. Kernels return buffers at once if they `take` frames.
    fn run(&mut self, takes: bool) {
        (0..self.waiting.len()).for_each(|host| self.post(host));
        let mut notices = Vec::new();
        while self.world.next_event_time().is_some() {
            self.world.step(&mut self.memory, &mut notices);
            for notice in notices.drain(..) {
                match notice {
                    Notice::FrameSent { hca, .. } => self.post(self.world.place_of(hca).0),
                    Notice::FrameArrived { hca, port, frame } => {
                        self.arrived.push((self.world.now(), self.world.place_of(hca).0, frame));
                        if takes {
                            self.world.return_frames(hca, port, 1);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn counters(&self) -> EthernetCounters {
        let of_ports = self.world.counters().into_iter().filter_map(|port| port.ethernet);
        of_ports.fold(EthernetCounters::default(), |sum, port| EthernetCounters {
            xmit_pauses: sum.xmit_pauses + port.xmit_pauses,
            rcv_pauses: sum.rcv_pauses + port.rcv_pauses,
            rcv_discards: sum.rcv_discards + port.rcv_discards,
        })
    }
}

#[test]
fn full_frames_leave_941_megabits_a_second_for_tcp() {
    let mut net = Net::new(&star(2, EthernetFlowControl::None, 65_536));
    let frame = net.frame(0, net.to(1), 1_514);
    net.waiting[0] = vec![frame.clone(); 300];
    net.run(true);
    assert_eq!(net.arrived.len(), 300);
    assert!(net.arrived.iter().all(|(_, host, bytes)| *host == 1 && *bytes == frame));
    // 1,500 bytes of IP, 14 of MAC header, 4 of check sequence, 20 of preamble and gap, at 8 ns each.
    let span = net.arrived[299].0 - net.arrived[99].0;
    assert_eq!(span, SimDuration::from_nanos(200 * 1_538 * 8));
    // IP and TCP take 40 bytes of a packet, timestamps 12.
    let megabits = 200.0 * 1_448.0 * 8.0 / span.as_nanos() as f64 * 1_000.0;
    assert!((megabits - 941.5).abs() < 0.05, "{megabits}");
    assert_eq!(net.world.packets_under_way(), 0);
}

#[test]
fn a_short_frame_takes_the_time_of_64_bytes() {
    let mut net = Net::new(&star(2, EthernetFlowControl::None, 65_536));
    net.waiting[0] = vec![net.frame(0, net.to(1), 42); 200];
    net.run(true);
    let span = net.arrived[199].0 - net.arrived[99].0;
    assert_eq!(span, SimDuration::from_nanos(100 * 84 * 8));
    assert_eq!(net.arrived[0].2.len(), 42, "the kernel sees no padding");
}

#[test]
fn a_full_port_drops_frames_without_flow_control_and_none_with_it() {
    for (flow_control, loses) in [(EthernetFlowControl::None, true), (EthernetFlowControl::Pfc, false)] {
        let mut net = Net::new(&star(4, flow_control, 65_536));
        for from in 1..4 {
            net.waiting[from] = vec![net.frame(from, net.to(0), 1_514); 400];
        }
        net.run(true);
        let counters = net.counters();
        assert_eq!((counters.rcv_discards > 0, counters.xmit_pauses > 0), (loses, !loses), "{counters:?}");
        assert_eq!(net.arrived.len() as u64 + counters.rcv_discards, 1_200);
        assert_eq!(net.world.packets_under_way(), 0);
    }
}

#[test]
fn a_frame_to_all_reaches_all_others_once() {
    let mut net = Net::new(&star(5, EthernetFlowControl::None, 65_536));
    net.waiting[2] = vec![net.frame(2, TO_ALL, 100)];
    net.run(true);
    let mut reached: Vec<usize> = net.arrived.iter().map(|(_, host, _)| *host).collect();
    reached.sort_unstable();
    assert_eq!(reached, [0, 1, 3, 4]);
    // A card has no use for frames to an address that no card has.
    net.waiting[2] = vec![net.frame(2, [2, 0, 0, 0, 0, 9], 100)];
    net.run(true);
    assert_eq!(net.arrived.len(), 4);
    let received: u64 = net.world.counters().iter().filter(|port| port.node != "sw").map(|port| port.port_rcv_pkts).sum();
    assert_eq!(received, 8, "the switch has flooded both");
}

#[test]
fn two_hosts_on_a_cable_need_no_switch() {
    let rate = EthernetRate::G10;
    let mut fabric = FabricBuilder::new("pair");
    let cards = ["a", "b"].map(|name| {
        let host = fabric.host(name, HostPart::ideal());
        fabric.nic(host, "eth1", nic(rate))
    });
    fabric.cable(cards[0], cards[1], wire(rate));
    let mut net = Net::new(&fabric.build().unwrap());
    net.waiting[0] = vec![net.frame(0, TO_ALL, 60), net.frame(0, net.to(1), 1_000)];
    net.run(true);
    assert_eq!(net.arrived.iter().map(|(_, host, frame)| (*host, frame.len())).collect::<Vec<_>>(), [(1, 1_000), (1, 60)]);
}

#[test]
fn frames_without_a_buffer_in_the_ring_are_missed() {
    let mut net = Net::new(&star(2, EthernetFlowControl::None, 65_536));
    net.waiting[0] = vec![net.frame(0, net.to(1), 500); 300];
    net.run(false);
    assert_eq!((net.arrived.len(), net.world.frames_missed(net.hca(1), PORT_1)), (256, 44));
    net.world.return_frames(net.hca(1), PORT_1, 256);
    net.waiting[0] = vec![net.frame(0, net.to(1), 500)];
    net.run(false);
    assert_eq!(net.arrived.len(), 257);
}

#[test]
fn frames_that_no_port_takes_are_refused() {
    let mut net = Net::new(&star(2, EthernetFlowControl::None, 65_536));
    let (hca, now) = (net.hca(0), SimTime::ZERO);
    for bytes in [0, 13, 1_515] {
        assert_eq!(net.world.send_frame(hca, PORT_1, vec![0; bytes].into(), now), Err(FrameError::Length(bytes)));
    }
    assert_eq!(net.world.send_frame(hca, PortNumber(2), vec![0; 60].into(), now), Err(FrameError::Port));
    let frame = net.frame(0, net.to(1), 60);
    let taken = (0..100).filter(|_| net.world.send_frame(hca, PORT_1, frame.clone(), now).is_ok()).count();
    assert_eq!(taken, 64, "the ring has 64 places");
    net.run(true);
    assert_eq!(net.arrived.len(), 64);
    // InfiniBand has no frames.
    let mut world = World::new(&through_switch(LinkSpeed::Sdr, &[1, 1], 1, host_part(600, 300)), 1);
    let hca = world.hca_id(0, 0);
    assert_eq!(world.send_frame(hca, PORT_1, vec![0; 60].into(), now), Err(FrameError::Port));
    assert_eq!(world.mac(hca, PORT_1), None);
}

#[test]
fn a_loop_of_switches_is_refused_for_network_cards_alone() {
    let rate = EthernetRate::G1;
    let ring = |has_cards: bool| {
        let mut fabric = FabricBuilder::new("ring");
        let switches = ["s0", "s1", "s2"].map(|name| fabric.switch(name, switch(rate, 65_536)));
        for (one, other) in [(0, 1), (1, 2), (2, 0)] {
            fabric.cable(switches[one], switches[other], wire(rate));
        }
        if has_cards {
            let host = fabric.host("a", HostPart::ideal());
            let card = fabric.nic(host, "eth1", nic(rate));
            fabric.cable(card, switches[0], wire(rate));
        }
        fabric.build()
    };
    assert!(ring(false).is_ok());
    assert!(matches!(ring(true), Err(BuildError::EthernetLoop(_))));
}
