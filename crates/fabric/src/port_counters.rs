//! Port counters, by the names of the performance management agent (IBTA 16.1.3.5, PortCounters and PortCountersExtended).

use crate::World;
use crate::faults::FaultCounters;
use crate::port::{Owner, Traffic};
use softband_model::link::{FlowControl, Framing, symbol_time};
use softband_types::{LinkRate, PortNumber};

/// Counters of one port since the fabric began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// `host/device` of an HCA, the name of a switch.
    pub node: String,
    pub port: PortNumber,
    /// In words of four bytes: from LRH to ICRC, since the VCRC is not counted (IBTA 16.1.3.5), or of whole frames.
    pub port_xmit_data: u64,
    pub port_rcv_data: u64,
    /// All bytes of packets and frames: what takes the link's time.
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub port_xmit_pkts: u64,
    pub port_rcv_pkts: u64,
    pub unicast_xmit_pkts: u64,
    pub unicast_rcv_pkts: u64,
    /// How long the link was taken by what the port sent, in picoseconds.
    pub xmit_busy_picos: u64,
    /// Packets that a switch gave up because they waited for too long.
    pub port_xmit_discards: u64,
    /// Symbol times during which packets of congested lanes were sent (IBTA annex A10, PortXmitConCtrl); 0 without congestion control.
    pub port_xmit_time_cong: u64,
    /// Packets that came with a FECN and a BECN (IBTA annex A10, PortRcvConCtrl).
    pub port_pkt_rcv_fecn: u64,
    pub port_pkt_rcv_becn: u64,
    /// Symbol times (a byte of data on a lane) during which packets waited, the link stood still and no lane had credits.
    pub port_xmit_wait: u64,
    /// The same by data lane, in picoseconds.
    pub credit_stall_picos: Vec<u64>,
    pub ethernet: Option<EthernetCounters>,
    /// Where the fabric has faults.
    pub faults: Option<FaultCounters>,
}

/// What an Ethernet port counts beside that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EthernetCounters {
    /// Pause frames, those that let a priority go on among them.
    pub xmit_pauses: u64,
    pub rcv_pauses: u64,
    /// Frames that the receive buffer had no room for.
    pub rcv_discards: u64,
}

impl World {
    /// Counters of every cabled port of the nodes that are here, HCAs first, in the order of the fabric file.
    pub fn counters(&self) -> Vec<PortCounters> {
        // In windows every partition is at the same window's end, whatever was its own last event.
        let heard_until = self.queue.window_end().unwrap_or_else(|| self.queue.now());
        self.ports
            .iter()
            .enumerate()
            .filter(|(_, port)| self.has_node(port.node))
            .filter_map(|(id, port)| port.cabling.map(|cabling| (id as u32, port, cabling)))
            .map(|(id, port, cabling)| {
                let (tally, sent) = (port.tally_at(heard_until), port.sent);
                let received = port.ethernet.as_ref().map_or_else(|| self.what_has_come(id, cabling.peer), |ethernet| ethernet.received);
                let node = match port.owner {
                    Owner::Hca { hca, .. } => {
                        let place = self.hcas[hca as usize].place;
                        let host = &self.spec.hosts[place.0];
                        format!("{}/{}", host.name, host.hcas[place.1].device)
                    }
                    Owner::Switch { switch, .. } => self.spec.switches[switch as usize].name.clone(),
                };
                let lanes = usize::from(cabling.vls.data_lanes());
                PortCounters {
                    node,
                    port: port.number,
                    port_xmit_data: data_words(port.framing, sent),
                    port_rcv_data: data_words(port.framing, received),
                    sent_bytes: sent.bytes,
                    received_bytes: received.bytes,
                    port_xmit_pkts: sent.packets,
                    port_rcv_pkts: received.packets,
                    unicast_xmit_pkts: sent.packets,
                    unicast_rcv_pkts: received.packets,
                    xmit_busy_picos: busy_picos(cabling.rate, sent.bytes),
                    port_xmit_discards: tally.xmit_discards,
                    port_xmit_time_cong: tally.xmit_time_congested.as_picos() / symbol_time(cabling.rate).as_picos(),
                    port_pkt_rcv_fecn: tally.rcv_fecn,
                    port_pkt_rcv_becn: tally.rcv_becn,
                    port_xmit_wait: tally.wait.as_picos() / symbol_time(cabling.rate).as_picos(),
                    credit_stall_picos: (0..lanes).map(|lane| tally.lane_wait.get(lane).map_or(0, |wait| wait.as_picos())).collect(),
                    faults: self.fault_counters(id),
                    ethernet: port.ethernet.as_ref().map(|ethernet| EthernetCounters {
                        rcv_pauses: match &port.flow_control {
                            FlowControl::Pause(ledger) => ledger.received(heard_until),
                            FlowControl::Credits(_) => 0,
                        },
                        ..ethernet.counters
                    }),
                }
            })
            .collect()
    }
}

/// How long a link is taken by bytes, in picoseconds.
fn busy_picos(rate: LinkRate, bytes: u64) -> u64 {
    let picos = u128::from(rate.picos_of_bytes(1_000_000)) * u128::from(bytes) / 1_000_000;
    u64::try_from(picos).unwrap_or(u64::MAX)
}

/// What counts as a port's data.
fn data_words(framing: Framing, passed: Traffic) -> u64 {
    let uncounted = match framing {
        Framing::Infiniband => u64::from(softband_wire::VCRC_BYTES) * passed.packets,
        Framing::Ethernet { .. } => 0,
    };
    (passed.bytes - uncounted) / 4
}
