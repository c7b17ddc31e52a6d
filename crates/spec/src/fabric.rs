//! The fabric description that builds a World: checked, with every part resolved.

use crate::faults::FaultSpec;
use softband_model::link::{ArbitrationTables, Framing, Sl2Vl};
use softband_model::management::Routing;
use softband_model::parts::{BusPart, CablePart, HcaPart, HostPart, SwitchPart};
use softband_model::switch::{MarkingSettings, PacketLifetimes};
use softband_model::transport::InjectionSettings;
use softband_types::{EthernetRate, Guid, LinkLayer, LinkRate, Mtu, OperationalVls, PKey, PortNumber};

/// A whole fabric. Hosts, switches and cables are in the order of the fabric file, which numbers
/// them.
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

/// The administrator's settings for all ports of the Ethernet links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetSpec {
    /// MTU of IP packets, as interfaces report it.
    pub mtu_bytes: u32,
    pub flow_control: EthernetFlowControl,
    /// Number of priorities with queues and buffers of their own. The service levels share them.
    pub priorities: OperationalVls,
    /// Frames carry their priority in a VLAN tag.
    pub tagged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EthernetFlowControl {
    /// Priority-based flow control on all priorities.
    Pfc,
    /// Full buffers drop packets.
    None,
}

impl Default for EthernetSpec {
    fn default() -> Self {
        let one = OperationalVls::from_code(1).expect("code 1 is one lane");
        Self { mtu_bytes: 1500, flow_control: EthernetFlowControl::Pfc, priorities: one, tagged: false }
    }
}

/// The subnet manager's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubnetSpec {
    /// OpenSM's `max_op_vls`: a code. The link uses the minimum of this code and both ports' VLCap.
    pub max_op_vls: OperationalVls,
    /// Upper limit of the MTU of every link. The parts' own limits also apply.
    pub mtu_max: Mtu,
    /// The engine that computes the routes.
    pub routing: Routing,
    /// Lifetimes after which switches discard blocked packets.
    pub lifetimes: PacketLifetimes,
    /// `None` turns congestion control off.
    pub congestion_control: Option<CongestionControl>,
    /// Weights and lanes of traffic classes. `None`: lanes take turns, and each service level has
    /// the lane of its number.
    pub qos: Option<QualityOfService>,
}

/// OpenSM's QoS settings by kind of port, for InfiniBand links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QualityOfService {
    /// Settings of HCAs' ports (`qos_ca_`).
    pub hca: PortClasses,
    /// Settings of switches' external ports (`qos_swe_`).
    pub switch: PortClasses,
}

impl QualityOfService {
    /// Returns the settings of the port at this end of a cable.
    pub fn of(&self, end: PortRef) -> &PortClasses {
        match end {
            PortRef::Hca { .. } => &self.hca,
            PortRef::Switch { .. } => &self.switch,
        }
    }
}

/// A port's mapping of service levels to lanes, and its arbitration tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortClasses {
    pub tables: ArbitrationTables,
    pub sl2vl: Sl2Vl,
}

/// The congestion control manager's settings for switches and HCAs (IBTA annex A10).
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
    /// Device name that programs see, for example `mthca0`.
    pub device: String,
    pub part: HcaPart,
    /// Bus of the HCA, trained to the lesser of card and slot.
    pub bus: BusPart,
    /// Name of the host bus that it shares with other cards; `None` for a bus of its own.
    pub shared_bus: Option<String>,
    /// The driver option of this name: read requests as large as the HCA's tuned size.
    pub tune_pci: bool,
    pub node_guid: Guid,
    /// Link layer of all its ports.
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
    /// Trained rate: the best that both ports, the cable and the file's `rate` allow.
    pub rate: LinkRate,
}

impl CableSpec {
    /// Returns the trained rate in the notation of its link layer.
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

    /// Checks whether the fabric has any Ethernet port.
    pub fn has_ethernet(&self) -> bool {
        let hcas = self.hosts.iter().flat_map(|host| &host.hcas).any(|hca| hca.link_layer == LinkLayer::Ethernet);
        hcas || self.switches.iter().any(|switch| switch.part.link_layer() == LinkLayer::Ethernet)
    }

    /// Returns a port's name in the fabric file's notation: `a/mthca0/1`, `sw/1`.
    pub fn port_name(&self, port: PortRef) -> String {
        match port {
            PortRef::Hca { host, hca, port } => format!("{}/{}/{}", self.hosts[host].name, self.hosts[host].hcas[hca].device, port.0),
            PortRef::Switch { switch, port } => format!("{}/{}", self.switches[switch].name, port.0),
        }
    }
}
