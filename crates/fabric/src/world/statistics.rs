//! Counters of ports for operators: what performance management would answer now.

use super::World;
use crate::numbering::Owner;
use softband_model::management::agent::{Hardware, LinkState, LinkView};
use softband_model::transport::HardwareCounters;
use softband_types::{Guid, HcaId, Lid, LinkLayer, LinkRate, PortNumber};
use softband_wire::mad::{PortCounters, PortCountersExtended};

/// Node of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeOfPort {
    /// An HCA.
    Hca(HcaId),
    /// A switch, by its index in the fabric.
    Switch(usize),
}

/// State and counters of a port since their last resets by performance management.
#[derive(Clone, Copy, Debug)]
pub struct PortStatistics {
    /// Node of the port.
    pub node: NodeOfPort,
    /// GUID of the node.
    pub node_guid: Guid,
    /// LID of the node, or of the HCA's port.
    pub lid: Lid,
    /// Number of the port, from 1.
    pub port: PortNumber,
    /// Link layer of the port.
    pub link_layer: LinkLayer,
    /// Width and speed of the link, if it is up.
    pub rate: Option<LinkRate>,
    /// State of the port; `None` without a link.
    pub state: Option<LinkState>,
    /// A manager has disabled the port.
    pub is_disabled: bool,
    /// Counters that stop at their largest value.
    pub counters: PortCounters,
    /// Wide counters.
    pub extended: PortCountersExtended,
}

impl World {
    /// Returns the counters of a port of an HCA; `None` without that port. Only for a World without
    /// partitions.
    pub fn port_statistics(&mut self, hca: HcaId, port: PortNumber) -> Option<PortStatistics> {
        let id = self.hcas.port_index(hca, port)?;
        Some(self.statistics_of(id))
    }

    /// Returns the counters of the queue pairs of an HCA's port; `None` without that port.
    pub fn hardware_counters(&self, hca: HcaId, port: PortNumber) -> Option<HardwareCounters> {
        Some(self.hcas.hardware_counters(self.hcas.port_index(hca, port)?))
    }

    /// Returns the counters of all ports, HCAs first, in the order of the fabric file. Only for a
    /// World without partitions.
    pub fn statistics(&mut self) -> Vec<PortStatistics> {
        (0..self.numbering.owners().len() as u32).map(|id| self.statistics_of(id)).collect()
    }

    fn statistics_of(&mut self, id: u32) -> PortStatistics {
        let (node_number, port, state) = (self.links.node(id), self.links.number(id), self.link_state(id));
        let link_layer = self.links.framing(id).link_layer();
        let (node, node_guid) = match self.numbering.owners()[id as usize] {
            Owner::Hca { hca, .. } => (NodeOfPort::Hca(HcaId(hca)), self.node_guid(HcaId(hca))),
            Owner::Switch { switch, .. } => (NodeOfPort::Switch(switch as usize), self.spec.switches[switch as usize].node_guid),
        };
        let lid = self.lid_of_node(id);
        let (hardware, agents) = self.hardware(id);
        let agent = agents.agent(node_number);
        let (is_disabled, (counters, extended)) = (agent.is_disabled(port), agent.statistics(port, &hardware));
        let rate = hardware.link(port.0).map(|LinkView { rate, .. }| rate);
        PortStatistics { node, node_guid, lid, port, link_layer, rate, state, is_disabled, counters, extended }
    }
}
