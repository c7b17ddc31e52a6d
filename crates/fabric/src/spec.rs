//! A fabric as the World is built from it: checked, with every part resolved.

use crate::faults::FaultSpec;
use softband_model::link::{ArbitrationTables, Framing, Sl2Vl};
use softband_model::management::Routing;
use softband_model::parts::{BusPart, CablePart, HcaPart, HostPart, SwitchPart};
use softband_model::switch::{MarkingSettings, PacketLifetimes};
use softband_model::transport::InjectionSettings;
use softband_types::{EthernetRate, Guid, LinkLayer, LinkRate, Mtu, OperationalVls, PKey, PortNumber};

/// A whole fabric. Hosts, switches and cables stand in the order of the fabric file, which numbers them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricSpec {
    pub title: String,
    pub hosts: Vec<HostSpec>,
    pub switches: Vec<SwitchSpec>,
    pub cables: Vec<CableSpec>,
    pub subnet: SubnetSpec,
    pub ethernet: EthernetSpec,
    /// In the order of the file.
    pub faults: Vec<FaultSpec>,
}

/// What the administrator of the Ethernet links sets on all their ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetSpec {
    /// Of IP packets, as interfaces have it.
    pub mtu_bytes: u32,
    pub flow_control: EthernetFlowControl,
    /// How many priorities have queues and buffers of their own: service levels are shared out among them.
    pub priorities: OperationalVls,
    /// The priority stands in a VLAN tag.
    pub tagged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EthernetFlowControl {
    /// Priority-based flow control on all priorities.
    Pfc,
    /// Full buffers drop.
    None,
}

impl Default for EthernetSpec {
    fn default() -> Self {
        let one = OperationalVls::from_code(1).expect("code 1 is one lane");
        Self { mtu_bytes: 1500, flow_control: EthernetFlowControl::Pfc, priorities: one, tagged: false }
    }
}

/// The settings of the subnet manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubnetSpec {
    /// OpenSM's `max_op_vls`: a code, taken as the minimum with both ports' VLCap.
    pub max_op_vls: OperationalVls,
    /// Upper limit of the MTU of every link; the parts' own limits hold as well.
    pub mtu_max: Mtu,
    /// The engine that chooses the routes.
    pub routing: Routing,
    /// When switches give packets up that cannot go on.
    pub lifetimes: PacketLifetimes,
    /// Off when there is none.
    pub congestion_control: Option<CongestionControl>,
    /// Weights and lanes of traffic classes. `None`: lanes take turns, and each service level has
    /// the lane of its number.
    pub qos: Option<QualityOfService>,
}

/// OpenSM's QoS settings, by kind of port. They are those of InfiniBand links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QualityOfService {
    /// Of HCAs' ports (`qos_ca_`).
    pub hca: PortClasses,
    /// Of switches' external ports (`qos_swe_`).
    pub switch: PortClasses,
}

impl QualityOfService {
    /// Of the port at this end of a cable.
    pub fn of(&self, end: PortRef) -> &PortClasses {
        match end {
            PortRef::Hca { .. } => &self.hca,
            PortRef::Switch { .. } => &self.switch,
        }
    }
}

/// What a port does with service levels and lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortClasses {
    pub tables: ArbitrationTables,
    pub sl2vl: Sl2Vl,
}

/// What the congestion control manager writes into switches and HCAs (IBTA annex A10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CongestionControl {
    pub marking: MarkingSettings,
    pub injection: InjectionSettings,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSpec {
    pub name: String,
    pub part: HostPart,
    pub hcas: Vec<HcaSpec>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HcaSpec {
    /// Device name as programs see it, such as `mthca0`.
    pub device: String,
    pub part: HcaPart,
    /// What it sits in, as card and slot have trained: the lesser of both.
    pub bus: BusPart,
    /// The host's bus that it is on together with others, by name; `None`: one of its own.
    pub shared_bus: Option<String>,
    /// The driver's option of this name: read requests as large as the HCA's tuned size.
    pub tune_pci: bool,
    pub node_guid: Guid,
    /// Of all its ports.
    pub link_layer: LinkLayer,
    /// P_Key table of its ports: the partitions that it belongs to.
    pub pkeys: Vec<PKey>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchSpec {
    pub name: String,
    pub part: SwitchPart,
    pub node_guid: Guid,
}

/// One end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortRef {
    Hca { host: usize, hca: usize, port: PortNumber },
    Switch { switch: usize, port: PortNumber },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CableSpec {
    pub part: CablePart,
    pub ends: [PortRef; 2],
    /// What the link trained to: the best that both ports, the cable and the file's `rate` allow.
    pub rate: LinkRate,
}

impl CableSpec {
    /// What the link trained to, as its link layer calls it.
    pub fn rate_name(&self) -> String {
        let ethernet = self.part.ethernet.as_ref().and_then(|_| EthernetRate::of(self.rate));
        ethernet.map_or_else(|| self.rate.to_string(), |rate| rate.to_string())
    }
}

impl FabricSpec {
    pub fn link_layer(&self, port: PortRef) -> LinkLayer {
        match port {
            PortRef::Hca { host, hca, .. } => self.hosts[host].hcas[hca].link_layer,
            PortRef::Switch { switch, .. } => self.switches[switch].part.link_layer(),
        }
    }

    pub fn framing(&self, layer: LinkLayer) -> Framing {
        match layer {
            LinkLayer::Infiniband => Framing::Infiniband,
            LinkLayer::Ethernet => Framing::Ethernet { tagged: self.ethernet.tagged },
        }
    }

    /// Whether anything of it is Ethernet.
    pub fn has_ethernet(&self) -> bool {
        let hcas = self.hosts.iter().flat_map(|host| &host.hcas).any(|hca| hca.link_layer == LinkLayer::Ethernet);
        hcas || self.switches.iter().any(|switch| switch.part.link_layer() == LinkLayer::Ethernet)
    }

    /// A port as a fabric file names it: `a/mthca0/1`, `sw/1`.
    pub fn port_name(&self, port: PortRef) -> String {
        match port {
            PortRef::Hca { host, hca, port } => format!("{}/{}/{}", self.hosts[host].name, self.hosts[host].hcas[hca].device, port.0),
            PortRef::Switch { switch, port } => format!("{}/{}", self.switches[switch].name, port.0),
        }
    }
}
