//! Port counters of the packets that programs carried themselves
//! ([`softband_shm_transport::traffic`]). The engine looks at the numbers of all programs only when
//! somebody asks for counters and before members of a group change. It looks at those of a program
//! when it ends.

use crate::realtime::room::DataPlane;
use softband_fabric::{CarriedElsewhere, World};
use softband_model::verbs::api::QpSnapshot;
use softband_shm_transport::traffic::{Exchange, Readings, RouteHeader, Way};
use softband_sim::{SimDuration, SimTime};
use softband_types::{Gid, HcaId, Lid, LinkLayer, PortNumber, ProcessId, QpType};
use std::collections::BTreeMap;

/// Shortest time between two looks at the numbers of all programs: a look holds the engine up, and
/// any program can ask for counters in a loop.
const DISTANCE: SimDuration = SimDuration::from_micros(1_000);

/// The last numbers of each process.
#[derive(Default)]
pub(super) struct DirectTraffic {
    readings: BTreeMap<ProcessId, Readings>,
    /// Time of the last look at all of them.
    seen: Option<SimTime>,
}

impl DirectTraffic {
    /// Checks whether a look at all numbers is due, and notes it then.
    fn is_due(&mut self, now: SimTime) -> bool {
        let is_due = self.seen.is_none_or(|seen| now >= seen + DISTANCE);
        if is_due {
            self.seen = Some(now);
        }
        is_due
    }
}

impl DataPlane<'_> {
    /// Adds the packets that programs have carried to the counters of ports, if the last call was not
    /// just before.
    pub(crate) fn count_direct_traffic(&mut self) {
        if self.scheduler.is_wall() && self.realtime.traffic.is_due(self.scheduler.wall_time()) {
            self.count_all_direct_traffic();
        }
    }

    /// Adds the packets that programs have carried, before the members of a group change: packets
    /// count on the present ways.
    pub(crate) fn count_all_direct_traffic(&mut self) {
        if !self.scheduler.is_wall() {
            return;
        }
        let attached: Vec<ProcessId> = self.processes.living().filter(|process| process.is_attached()).map(|process| process.number()).collect();
        attached.into_iter().for_each(|process| self.count_direct_traffic_of(process));
    }

    /// Adds the last packets of a process that ends.
    pub(super) fn end_direct_traffic_of(&mut self, process: ProcessId) {
        self.count_direct_traffic_of(process);
        self.realtime.traffic.readings.remove(&process);
    }

    fn count_direct_traffic_of(&mut self, process: ProcessId) {
        if !self.scheduler.is_wall() {
            return;
        }
        let owner = &self.processes[process.0 as usize];
        let readings = self.realtime.traffic.readings.entry(process).or_default();
        for (hca, way, growth) in readings.growth(owner.shared().traffic()) {
            // A program speaks only for HCAs of its own host.
            let port = (HcaId(hca), PortNumber(way.port()));
            if self.world.port(port.0, port.1).is_some() && self.world.place_of(port.0).0 == owner.host() {
                self.world.count_elsewhere(port, Lid(way.lid()), &carried(way, growth));
            }
        }
    }
}

fn carried(way: Way, growth: Exchange) -> CarriedElsewhere {
    CarriedElsewhere {
        sent_packets: growth.sent.packets,
        sent_bytes: growth.sent.bytes,
        returned_packets: growth.returned.packets,
        returned_bytes: growth.returned.bytes,
        writes: growth.requests.writes,
        reads: growth.requests.reads,
        atomics: growth.requests.atomics,
        lost: growth.requests.lost,
        destination: match way.header() {
            RouteHeader::None => None,
            RouteHeader::Global => Some(Gid::default()),
            RouteHeader::Ipv4 => Some(Gid::of_ipv4([0; 4])),
        },
    }
}

/// Returns the way of a queue pair's packets. Datagrams name their destinations themselves.
pub(super) fn way_of(world: &World, hca: HcaId, qp: &QpSnapshot) -> Way {
    let is_ethernet = world.link_layer(hca) == LinkLayer::Ethernet;
    let (lid, grh) = match qp.init.qp_type {
        QpType::Ud => (Lid::NONE, None),
        _ => (qp.address_vector.dlid, qp.address_vector.grh),
    };
    let header = match grh {
        Some(route) if is_ethernet && route.dgid.ipv4().is_some() => RouteHeader::Ipv4,
        Some(_) => RouteHeader::Global,
        None => RouteHeader::None,
    };
    Way::new(qp.port.0, lid.0, qp.path_mtu.bytes(), header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_keep_their_distance() {
        let mut traffic = DirectTraffic::default();
        let at = |micros| SimTime::ZERO + SimDuration::from_micros(micros);
        assert_eq!([0, 999, 1_000, 1_500, 2_000].map(|micros| traffic.is_due(at(micros))), [true, false, true, false, true]);
    }
}
