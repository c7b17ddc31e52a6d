//! Port counters, with names of the performance management agent (IBTA 16.1.3.5, PortCounters and
//! PortCountersExtended).

use super::Links;
use super::port::Tally;
use crate::faults::{FaultCounters, Faults};
use crate::pdes::timeline::Timeline;
use crate::traffic::Traffic;
use softband_model::link::{Framing, symbol_time};
use softband_sim::{SimDuration, SimTime};
use softband_types::{LinkRate, PortNumber};

/// Counters of a port since the fabric began. Names without a unit are those of the performance
/// management agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// HCA as `host/device`, or the name of a switch.
    pub node: String,
    /// Number of the port, from 1.
    pub port: PortNumber,
    /// Data sent, in words of 4 bytes: LRH to ICRC without VCRC (IBTA 16.1.3.5), or whole frames.
    pub port_xmit_data: u64,
    /// Data received, in words of 4 bytes.
    pub port_rcv_data: u64,
    /// All bytes of packets and frames sent: they determine the link's busy time.
    pub sent_bytes: u64,
    /// All bytes of packets and frames received.
    pub received_bytes: u64,
    /// Packets sent.
    pub port_xmit_pkts: u64,
    /// Packets received.
    pub port_rcv_pkts: u64,
    /// Unicast packets sent.
    pub unicast_xmit_pkts: u64,
    /// Unicast packets received.
    pub unicast_rcv_pkts: u64,
    /// Multicast packets sent.
    pub multicast_xmit_pkts: u64,
    /// Multicast packets received.
    pub multicast_rcv_pkts: u64,
    /// Time for which the port's own traffic occupied the link, in picoseconds.
    pub xmit_busy_picos: u64,
    /// Packets that the port discarded instead of sending.
    pub port_xmit_discards: u64,
    /// Symbol times spent sending packets of congested lanes (IBTA annex A10, PortXmitConCtrl); 0
    /// without congestion control.
    pub port_xmit_time_cong: u64,
    /// Packets that arrived with a FECN (IBTA annex A10, PortRcvConCtrl).
    pub port_pkt_rcv_fecn: u64,
    /// Packets that arrived with a BECN (IBTA annex A10, PortRcvConCtrl).
    pub port_pkt_rcv_becn: u64,
    /// Symbol times (a byte of data on a lane) during which packets waited and the link idled,
    /// because no lane had credits.
    pub port_xmit_wait: u64,
    /// Stall time of each data lane, in picoseconds: packets waited, and the lane had no credits.
    pub credit_stall_picos: Vec<u64>,
    /// Stall time of each data lane in symbol times (PortVLXmitWaitCounters), at the rates that the
    /// link had meanwhile.
    pub port_vl_xmit_wait: Vec<u64>,
    /// Counters of an Ethernet port, or `None` on InfiniBand.
    pub ethernet: Option<EthernetCounters>,
    /// Fault counters; `None` in a fabric without faults.
    pub faults: Option<FaultCounters>,
}

/// Additional counters of an Ethernet port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EthernetCounters {
    /// Pause frames sent, with those that resume a priority.
    pub xmit_pauses: u64,
    /// Pause frames received, with those that resume a priority.
    pub rcv_pauses: u64,
    /// Frames for which the receive buffer had no room.
    pub rcv_discards: u64,
}

/// Counters that depend on the rate of a port's link, up to the last time it trained to another.
#[derive(Clone, Debug)]
pub(super) struct Retrained {
    /// The rate of the link at the start of the fabric.
    pub(super) full: LinkRate,
    sent_bytes: u64,
    wait: SimDuration,
    lane_wait: Vec<SimDuration>,
    congested: SimDuration,
    busy_picos: u64,
    wait_symbols: u64,
    lane_wait_symbols: Vec<u64>,
    congested_symbols: u64,
}

impl Retrained {
    /// Returns the counters of a port whose link still has its first rate.
    pub(super) fn first(full: LinkRate) -> Self {
        let none = SimDuration::ZERO;
        Self {
            full,
            sent_bytes: 0,
            wait: none,
            lane_wait: Vec::new(),
            congested: none,
            busy_picos: 0,
            wait_symbols: 0,
            lane_wait_symbols: Vec::new(),
            congested_symbols: 0,
        }
    }

    /// Returns the counters after a span at a rate. `sent_bytes` and `tally` count from the start.
    pub(super) fn after(&self, rate: LinkRate, sent_bytes: u64, tally: &Tally) -> Self {
        let symbols = |now: SimDuration, before: SimDuration| (now - before).as_picos() / symbol_time(rate).as_picos();
        let of_lane = |(lane, now): (usize, &SimDuration)| {
            let (before, counted) = (self.lane_wait.get(lane).copied(), self.lane_wait_symbols.get(lane).copied());
            counted.unwrap_or(0) + symbols(*now, before.unwrap_or(SimDuration::ZERO))
        };
        Self {
            full: self.full,
            sent_bytes,
            wait: tally.wait,
            lane_wait: tally.lane_wait.clone(),
            congested: tally.xmit_time_congested,
            busy_picos: self.busy_picos + busy_picos(rate, sent_bytes - self.sent_bytes),
            wait_symbols: self.wait_symbols + symbols(tally.wait, self.wait),
            lane_wait_symbols: tally.lane_wait.iter().enumerate().map(of_lane).collect(),
            congested_symbols: self.congested_symbols + symbols(tally.xmit_time_congested, self.congested),
        }
    }
}

impl Links {
    /// Returns the counters of every cabled port of this partition, HCAs first, in the order of the
    /// fabric file.
    pub(crate) fn counters(&self, timeline: &Timeline, faults: &Faults) -> Vec<PortCounters> {
        let ids = (0..self.ports.len() as u32).filter(|id| timeline.has_node(self.ports[*id as usize].node));
        ids.filter_map(|id| self.counters_of(id, timeline, faults)).collect()
    }

    /// Returns the counters of a port; `None` without a cable.
    pub(crate) fn counters_of(&self, id: u32, timeline: &Timeline, faults: &Faults) -> Option<PortCounters> {
        let port = self.ports.get(id as usize)?;
        let cabling = port.cabling?;
        // With windows, every partition reads at the same window end, independent of its last
        // event.
        let heard_until = timeline.heard_until();
        let until = timeline.happened_until();
        let (tally, sent) = (port.tally_at(heard_until), self.sent_by(id, until) + self.elsewhere.sent_by(id));
        let sent_bytes = self.sent_by(id, until).bytes;
        let received = port.ethernet.as_ref().map_or_else(|| self.what_has_come(id, (cabling.peer, until), faults), |ethernet| ethernet.received);
        let received = received + self.elsewhere.sent_by(cabling.peer);
        let lanes = usize::from(cabling.vls.data_lanes());
        let over_time = self.span_since_training(id, (cabling.rate, sent_bytes), &tally);
        Some(PortCounters {
            node: self.name_of_node(port.node).to_owned(),
            port: port.number,
            port_xmit_data: data_words(port.framing, sent),
            port_rcv_data: data_words(port.framing, received),
            sent_bytes: sent.bytes,
            received_bytes: received.bytes,
            port_xmit_pkts: sent.packets,
            port_rcv_pkts: received.packets,
            unicast_xmit_pkts: sent.unicast(),
            unicast_rcv_pkts: received.unicast(),
            multicast_xmit_pkts: sent.multicast,
            multicast_rcv_pkts: received.multicast,
            xmit_busy_picos: over_time.busy_picos,
            port_xmit_discards: tally.xmit_discards,
            port_xmit_time_cong: over_time.congested_symbols,
            port_pkt_rcv_fecn: tally.rcv_fecn,
            port_pkt_rcv_becn: tally.rcv_becn,
            port_xmit_wait: over_time.wait_symbols,
            credit_stall_picos: (0..lanes).map(|lane| tally.lane_wait.get(lane).map_or(0, |wait| wait.as_picos())).collect(),
            port_vl_xmit_wait: (0..lanes).map(|lane| over_time.lane_wait_symbols.get(lane).copied().unwrap_or(0)).collect(),
            faults: faults.counters(id),
            ethernet: port
                .ethernet
                .as_ref()
                .map(|ethernet| EthernetCounters { rcv_pauses: port.flow_control.pauses_received(heard_until), ..ethernet.counters }),
        })
    }

    /// Returns the counters that depend on the rate of a port's link, up to the moment of `tally`.
    pub(super) fn span_since_training(&self, id: u32, (rate, sent_bytes): (LinkRate, u64), tally: &Tally) -> Retrained {
        match self.retrained.get(&id) {
            Some(former) => former.after(rate, sent_bytes, tally),
            None => Retrained::first(rate).after(rate, sent_bytes, tally),
        }
    }

    /// Returns the traffic that a port's peer sent, minus the losses on the cable.
    fn what_has_come(&self, port: u32, (peer, until): (u32, SimTime), faults: &Faults) -> Traffic {
        self.sent_by(peer, until) - faults.lost(port)
    }

    /// Returns all that a port has sent by `until`.
    fn sent_by(&self, id: u32, until: SimTime) -> Traffic {
        let unseen = self.passed_unseen(id, until);
        self.ports[id as usize].sent_traffic() + Traffic { bytes: unseen.bytes, packets: unseen.packets, multicast: 0 }
    }
}

/// Returns the time for which `bytes` occupy a link, in picoseconds.
fn busy_picos(rate: LinkRate, bytes: u64) -> u64 {
    let picos = u128::from(rate.picos_of_bytes(1_000_000)) * u128::from(bytes) / 1_000_000;
    u64::try_from(picos).unwrap_or(u64::MAX)
}

/// Returns the data words of a port's traffic, without the bytes that its link layer does not
/// count.
fn data_words(framing: Framing, passed: Traffic) -> u64 {
    passed.bytes.saturating_sub(framing.uncounted_bytes(passed.packets)) / 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_types::{LinkSpeed, LinkWidth};

    #[test]
    fn ticks_of_waits_keep_the_rates_that_the_link_had() {
        let [fast, slow] = [LinkSpeed::Qdr, LinkSpeed::Sdr].map(|speed| LinkRate { width: LinkWidth::X4, speed });
        let waited = |lanes: &[u64]| {
            let lane_wait: Vec<SimDuration> = lanes.iter().map(|nanos| SimDuration::from_nanos(*nanos)).collect();
            Tally { wait: lane_wait[0], lane_wait, ..Tally::default() }
        };
        // A tick is 1 ns at QDR, and 4 ns at SDR.
        let at_first = Retrained::first(fast).after(fast, 0, &waited(&[8_000]));
        let now = at_first.after(slow, 0, &waited(&[12_000, 4_000]));
        assert_eq!((now.wait_symbols, now.lane_wait_symbols), (9_000, vec![9_000, 1_000]));
    }
}
