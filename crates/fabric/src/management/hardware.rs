//! A node's hardware for its agent, from the rooms that own it.

use crate::faults::Faults;
use crate::hca::Hcas;
use crate::link::Links;
use crate::numbering::Owner;
use crate::pdes::timeline::Timeline;
use crate::subnet::Subnet;
use softband_model::link::Sl2Vl;
use softband_model::management::agent::{Hardware, LinkView, Tally};
use softband_types::{HcaId, Lid, PKey, ServiceLevel};

/// The rooms that own a node's hardware.
pub(crate) struct NodeHardware<'a> {
    pub(crate) links: &'a mut Links,
    pub(crate) subnet: &'a mut Subnet,
    pub(crate) hcas: &'a mut Hcas,
    pub(crate) faults: &'a Faults,
    pub(crate) timeline: &'a Timeline,
    /// The node's first port.
    pub(crate) first_port: u32,
    pub(crate) owner: Owner,
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

    fn lid(&self, port: u8) -> Lid {
        self.subnet.lid(self.id(port))
    }

    fn set_lid(&mut self, port: u8, lid: Lid) {
        self.subnet.set_lid(self.id(port), lid);
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
            // The switch knows its own LID without a table.
            Some(0) => {}
            Some(output) => self.links.set_route(switch as usize, lid, output - 1),
            None => self.links.clear_route(switch as usize, lid),
        }
    }

    fn multicast_outputs(&self, mlid: Lid) -> Vec<u8> {
        let outputs = self.switch().map(|switch| self.links.multicast_outputs(switch as usize, mlid));
        outputs.unwrap_or_default().into_iter().map(|output| output + 1).collect()
    }

    fn pkeys(&self, _port: u8) -> Vec<PKey> {
        match self.owner {
            Owner::Hca { hca, .. } => self.hcas.pkeys(HcaId(hca)).to_vec(),
            Owner::Switch { .. } => vec![PKey::DEFAULT_FULL],
        }
    }

    fn lanes(&self, input: u8, output: u8) -> Sl2Vl {
        let Some(cabling) = self.links.cabling(self.id(output)) else { return Sl2Vl::IDENTITY };
        let ports = (input.saturating_sub(1), output.saturating_sub(1));
        let lane = |level: u8| match self.owner {
            Owner::Hca { .. } => self.hcas.lane_at(self.links, self.id(output), ServiceLevel(level)).0,
            Owner::Switch { .. } => self.subnet.lane(ports, ServiceLevel(level), cabling.vls).0,
        };
        Sl2Vl::new(std::array::from_fn(|level| lane(level as u8))).unwrap_or(Sl2Vl::IDENTITY)
    }

    fn tally(&self, port: u8) -> Tally {
        let counters = self.links.counters_of(self.id(port), self.timeline, self.faults).filter(|_| port > 0);
        let Some(counters) = counters else { return Tally::default() };
        let faults = counters.faults.unwrap_or_default();
        Tally {
            xmit_data: counters.port_xmit_data,
            rcv_data: counters.port_rcv_data,
            xmit_pkts: counters.port_xmit_pkts,
            rcv_pkts: counters.port_rcv_pkts,
            symbol_errors: faults.symbol_error,
            link_error_recoveries: faults.link_error_recovery,
            link_downed: faults.link_downed,
            rcv_errors: faults.port_rcv_errors,
            xmit_discards: counters.port_xmit_discards,
            xmit_wait: counters.port_xmit_wait,
        }
    }
}
