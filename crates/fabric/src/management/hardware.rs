//! A node's hardware for its agent, from the rooms that own it.

use crate::faults::Faults;
use crate::hca::Hcas;
use crate::link::Links;
use crate::numbering::{Numbering, Owner};
use crate::pdes::timeline::Timeline;
use crate::subnet::Subnet;
use softband_model::link::{ArbitrationTables, Sl2Vl};
use softband_model::management::LinkSettings;
use softband_model::management::agent::{Details, Hardware, LinkView, Tally};
use softband_model::switch::LifetimeCode;
use softband_spec::FabricSpec;
use softband_types::{HcaId, Lid, Mtu, OperationalVls, PKey, PortLids, ServiceLevel};

/// The rooms that own a node's hardware.
pub(crate) struct NodeHardware<'a> {
    pub(crate) spec: &'a FabricSpec,
    pub(crate) numbering: &'a Numbering,
    pub(crate) links: &'a mut Links,
    pub(crate) subnet: &'a mut Subnet,
    pub(crate) hcas: &'a mut Hcas,
    pub(crate) faults: &'a Faults,
    pub(crate) timeline: &'a Timeline,
    /// The node's first port.
    pub(crate) first_port: u32,
    pub(crate) owner: Owner,
    /// Number of the node's external ports.
    pub(crate) ports: u8,
}

impl NodeHardware<'_> {
    fn id(&self, port: u8) -> u32 {
        self.first_port + u32::from(port.max(1)) - 1
    }

    fn switch(&self) -> Option<u32> {
        match self.owner {
            Owner::Switch { switch, .. } => Some(switch),
            Owner::Hca { .. } => None,
        }
    }
}

impl Hardware for NodeHardware<'_> {
    fn link(&self, port: u8) -> Option<LinkView> {
        let id = self.id(port);
        let cabling = self.links.cabling(id).filter(|_| port > 0 && !self.faults.is_link_down(id))?;
        Some(LinkView { rate: cabling.rate, mtu: cabling.mtu, vls: cabling.vls })
    }

    fn configure(&mut self, port: u8, mtu: Mtu, vls: OperationalVls) {
        self.links.configure(self.spec, self.numbering, self.id(port), LinkSettings { mtu, vls });
    }

    fn let_data_pass(&mut self, port: u8, passes: bool) {
        self.links.let_data_pass(self.id(port), passes);
    }

    fn lids(&self, port: u8) -> PortLids {
        self.subnet.lids(self.id(port))
    }

    fn set_lids(&mut self, port: u8, lids: PortLids) {
        self.subnet.set_lids(self.id(port), lids);
    }

    fn route(&self, lid: Lid) -> Option<u8> {
        let switch = self.switch()?;
        if lid == self.lid(0) {
            return Some(0);
        }
        self.links.route(switch as usize, lid).map(|output| output + 1)
    }

    fn set_route(&mut self, lid: Lid, output: Option<u8>) {
        let Some(switch) = self.switch() else { return };
        match output {
            Some(output @ 1..) => self.links.set_route(switch as usize, lid, output - 1),
            // The switch knows its own LID without a table.
            Some(0) | None => self.links.clear_route(switch as usize, lid),
        }
    }

    fn multicast_outputs(&self, mlid: Lid) -> Vec<u8> {
        let outputs = self.switch().map(|switch| self.links.multicast_outputs(switch as usize, mlid));
        outputs.unwrap_or_default().into_iter().map(|output| output + 1).collect()
    }

    fn pkeys(&self, port: u8) -> Vec<PKey> {
        match self.owner {
            Owner::Hca { hca, .. } => self.hcas.pkeys(HcaId(hca)).to_vec(),
            // Only its own port has keys that nobody can set.
            Owner::Switch { .. } if port == 0 => vec![PKey::DEFAULT_FULL],
            Owner::Switch { .. } => self.links.switch_pkeys(self.id(port)).to_vec(),
        }
    }

    fn lanes(&self, input: u8, output: u8) -> Sl2Vl {
        let Some(cabling) = self.links.cabling(self.id(output)) else { return Sl2Vl::IDENTITY };
        let ports = (input.saturating_sub(1), output.saturating_sub(1));
        let lane = |level: u8| match self.owner {
            Owner::Hca { .. } => self.hcas.lane_at(self.links, self.id(output), ServiceLevel(level)).0,
            Owner::Switch { switch, .. } => self.subnet.lane((switch, ports.0, ports.1), ServiceLevel(level), cabling.vls).0,
        };
        Sl2Vl::new(std::array::from_fn(|level| lane(level as u8))).unwrap_or(Sl2Vl::IDENTITY)
    }

    fn set_multicast_outputs(&mut self, mlid: Lid, first: u8, mask: u16) {
        let Some(switch) = self.switch() else { return };
        // Port 0 receives no multicast packets here.
        for port in (0..16).map(|bit| first.saturating_add(bit)).filter(|port| (1..=self.ports).contains(port)) {
            self.links.set_multicast_output(switch as usize, mlid, port - 1, mask & 1 << (port - first) != 0);
        }
    }

    fn set_pkeys(&mut self, port: u8, keys: Vec<PKey>) {
        match self.owner {
            Owner::Hca { hca, .. } => self.hcas.set_pkeys(HcaId(hca), keys),
            Owner::Switch { .. } if port > 0 => self.links.set_switch_pkeys(self.id(port), keys),
            Owner::Switch { .. } => {}
        }
    }

    fn enforce_partitions(&mut self, port: u8, inbound: bool, outbound: bool) {
        if port > 0 && self.switch().is_some() {
            self.links.enforce(self.id(port), inbound, outbound);
        }
    }

    fn set_lanes(&mut self, input: u8, output: u8, lanes: Sl2Vl) {
        match self.owner {
            Owner::Hca { .. } => self.hcas.set_lanes(self.id(output), lanes),
            Owner::Switch { switch, .. } if input > 0 && output > 0 => self.subnet.set_lanes((switch, input - 1, output - 1), lanes),
            Owner::Switch { .. } => {}
        }
    }

    fn set_weights(&mut self, port: u8, tables: &ArbitrationTables) {
        if port > 0 {
            self.links.set_weights(self.id(port), tables);
        }
    }

    fn head_lifetime(&self, port: u8) -> LifetimeCode {
        if port == 0 { LifetimeCode::INFINITE } else { self.links.head_lifetime(self.id(port)) }
    }

    fn set_head_lifetime(&mut self, port: u8, limit: LifetimeCode) {
        if port > 0 {
            self.links.set_head_lifetime(self.id(port), limit);
        }
    }

    fn packet_lifetime(&self) -> LifetimeCode {
        self.switch().map_or(LifetimeCode::INFINITE, |switch| self.links.packet_lifetime(switch as usize))
    }

    fn set_packet_lifetime(&mut self, limit: LifetimeCode) {
        if let Some(switch) = self.switch() {
            self.links.set_packet_lifetime(switch as usize, limit);
        }
    }

    fn tally(&self, port: u8) -> Tally {
        let counters = self.links.counters_of(self.id(port), self.timeline, self.faults).filter(|_| port > 0);
        let Some(counters) = counters else { return Tally::default() };
        let (faults, unforwarded) = (counters.faults.unwrap_or_default(), self.links.unforwarded(self.id(port)));
        Tally {
            xmit_data: counters.port_xmit_data,
            rcv_data: counters.port_rcv_data,
            xmit_pkts: counters.port_xmit_pkts,
            rcv_pkts: counters.port_rcv_pkts,
            unicast_xmit_pkts: counters.unicast_xmit_pkts,
            unicast_rcv_pkts: counters.unicast_rcv_pkts,
            multicast_xmit_pkts: counters.multicast_xmit_pkts,
            multicast_rcv_pkts: counters.multicast_rcv_pkts,
            symbol_errors: faults.symbol_error,
            link_error_recoveries: faults.link_error_recovery,
            link_downed: faults.link_downed,
            rcv_errors: faults.port_rcv_errors,
            xmit_discards: counters.port_xmit_discards,
            rcv_switch_relay_errors: unforwarded.relay,
            rcv_constraint_errors: unforwarded.received_foreign,
            xmit_constraint_errors: unforwarded.sent_foreign,
            xmit_wait: counters.port_xmit_wait,
        }
    }

    fn details(&self, port: u8) -> Details {
        let id = self.id(port);
        let counters = self.links.counters_of(id, self.timeline, self.faults).filter(|_| port > 0);
        let Some(counters) = counters else { return Details::default() };
        let (faults, unforwarded) = (counters.faults.unwrap_or_default(), self.links.unforwarded(id));
        let discards = [unforwarded.too_large, unforwarded.outlived, unforwarded.outlived_at_head];
        let inactive = counters.port_xmit_discards - discards.iter().sum::<u64>();
        let ticks = |lane: usize| counters.port_vl_xmit_wait.get(lane).copied().unwrap_or(0);
        Details {
            rcv_errors: [faults.port_rcv_errors, 0, 0, unforwarded.relay - unforwarded.looping, 0, unforwarded.looping],
            xmit_discards: [inactive, discards[0], discards[1], discards[2]],
            lane_waits: std::array::from_fn(ticks),
            rcv_marks: [counters.port_pkt_rcv_fecn, counters.port_pkt_rcv_becn],
            time_congested: [counters.port_xmit_time_cong],
        }
    }
}
