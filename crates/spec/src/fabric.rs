//! The fabric description that builds a World: checked, with every part resolved.

use crate::faults::FaultSpec;
use crate::{InterfaceSpec, RouteSpec};
use softband_model::link::Framing;
use softband_model::management::Routing;
pub use softband_model::management::manager::PortClasses;
use softband_model::parts::{BusPart, CablePart, HcaPart, HostPart, KernelPart, NicPart, SwitchPart};
use softband_model::switch::{MarkingSettings, PacketLifetimes};
use softband_model::transport::InjectionSettings;
use softband_types::{EthernetRate, Guid, LinkLayer, LinkRate, Lmc, Mtu, OperationalVls, PKey, PortNumber};

/// A whole fabric. Hosts, switches and cables are in the order of the fabric file, which numbers
/// them from 0. [`FabricBuilder`](crate::FabricBuilder) makes a fabric in code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricSpec {
    /// Title, for reports.
    pub title: String,
    /// Hosts, with their HCAs.
    pub hosts: Vec<HostSpec>,
    /// Switches.
    pub switches: Vec<SwitchSpec>,
    /// Cables. A port has at most one of them.
    pub cables: Vec<CableSpec>,
    /// Configuration of the subnet manager.
    pub subnet: SubnetSpec,
    /// Configuration of the Ethernet links, if the fabric has any.
    pub ethernet: EthernetSpec,
    /// Planned faults, in the order of the file.
    pub faults: Vec<FaultSpec>,
}

/// The administrator's settings for all ports of the Ethernet links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetSpec {
    /// MTU of IP packets in bytes, as interfaces report it. The default is 1500, which permits RDMA
    /// packets of 1,024 bytes.
    pub mtu_bytes: u32,
    /// Treatment of full buffers. The default is [`EthernetFlowControl::Pfc`].
    pub flow_control: EthernetFlowControl,
    /// Number of priorities with queues and buffers of their own, as a code. The service levels
    /// share them. The default is a single priority.
    pub priorities: OperationalVls,
    /// Whether frames carry their priority in a VLAN tag. The default is `false`: the IP header
    /// carries it.
    pub tagged: bool,
}

/// Treatment of full buffers on Ethernet links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EthernetFlowControl {
    /// Priority-based flow control on all priorities (IEEE 802.1Q, clause 36).
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

/// Number of unicast LIDs of a fabric (IBTA 4.1.3). Ethernet ports have internal LIDs beside them.
pub const LIDS: usize = 0xBFFF;
/// Number of the last of these LIDs that Ethernet ports have in a fabric whose manager is a program.
pub const ETHERNET_LIDS: usize = 0x1000;

/// Configuration of the subnet manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubnetSpec {
    /// Program that configures the subnet. The default is [`SubnetManager::Builtin`].
    pub manager: SubnetManager,
    /// OpenSM's `max_op_vls`: a code. The link uses the minimum of this code and both ports' VLCap.
    /// The default is 5: no limit.
    pub max_op_vls: OperationalVls,
    /// LMC of the ports of HCAs. The default is 0: a single LID.
    pub lmc: Lmc,
    /// Upper limit of the MTU of every link. The parts' own limits also apply. The default is 4,096
    /// bytes: no limit.
    pub mtu_max: Mtu,
    /// Engine that computes the routes. The default is minimum hops.
    pub routing: Routing,
    /// Lifetimes after which switches discard blocked packets. The defaults are OpenSM's.
    pub lifetimes: PacketLifetimes,
    /// Congestion control of the subnet. `None`, the default, turns it off.
    pub congestion_control: Option<CongestionControl>,
    /// Weights and lanes of traffic classes. `None`, the default: lanes take turns, and each
    /// service level has the lane of its number.
    pub qos: Option<QualityOfService>,
}

impl Default for SubnetSpec {
    /// Returns OpenSM's defaults, and no limit on lanes and MTU beyond those of the parts.
    fn default() -> Self {
        Self {
            manager: SubnetManager::default(),
            max_op_vls: OperationalVls::from_code(5).expect("code 5 is VL0-14"),
            lmc: Lmc::ZERO,
            mtu_max: Mtu::B4096,
            routing: Routing::default(),
            lifetimes: PacketLifetimes::default(),
            congestion_control: None,
            qos: None,
        }
    }
}

/// Program that configures a subnet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubnetManager {
    /// The built-in manager of the model. The subnet is configured before the run.
    #[default]
    Builtin,
    /// The built-in manager of the model as a program on the first host. It begins at time zero, works
    /// by packets, and reacts to links that go down and come up.
    BuiltinByPackets,
    /// OpenSM, or another program on a host. Until it has run, no InfiniBand port has a LID.
    OpenSm,
}

impl SubnetManager {
    /// All managers.
    pub const ALL: [Self; 3] = [Self::Builtin, Self::BuiltinByPackets, Self::OpenSm];

    /// Checks whether ports have neither LIDs nor tables at time zero.
    pub const fn works_by_packets(self) -> bool {
        !matches!(self, Self::Builtin)
    }

    /// Returns the name that fabric files use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::BuiltinByPackets => "builtin-by-packets",
            Self::OpenSm => "opensm",
        }
    }
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

/// The congestion control manager's settings for switches and HCAs (IBTA annex A10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CongestionControl {
    /// Settings of switches: the packets that they mark with FECN.
    pub marking: MarkingSettings,
    /// Settings of HCAs: their reaction to BECN.
    pub injection: InjectionSettings,
}

/// Host of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSpec {
    /// Name of the host, unique among hosts and switches, without `/`.
    pub name: String,
    /// Parameters of its CPU, memory and slots.
    pub part: HostPart,
    /// Constants of its operating system, for sockets on modelled interfaces.
    pub kernel: KernelPart,
    /// HCAs and NICs of the host. A host may have none.
    pub hcas: Vec<HcaSpec>,
    /// Network interfaces besides `lo`, in the order of their numbers, which begin with 2.
    pub interfaces: Vec<InterfaceSpec>,
    /// Routes through other hosts, beside those to the networks of its interfaces.
    pub routes: Vec<RouteSpec>,
}

impl HostSpec {
    /// Returns the devices of verbs with their indices in [`Self::hcas`]. NICs are none.
    pub fn verbs_devices(&self) -> impl Iterator<Item = (usize, &HcaSpec)> {
        self.hcas.iter().enumerate().filter(|(_, hca)| hca.nic.is_none())
    }
}

/// HCA of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HcaSpec {
    /// Device name that programs see, for example `mthca0`. It is unique in the host. A NIC has
    /// the name of its interface.
    pub device: String,
    /// Parameters of the HCA.
    pub part: HcaPart,
    /// Bus of the HCA, trained to the lesser of card and slot.
    pub bus: BusPart,
    /// Name of the host's bus that the HCA shares with other cards. `None`: the HCA has a bus of
    /// its own.
    pub shared_bus: Option<String>,
    /// Option `tune_pci` of the driver: the HCA's tuned size of read requests replaces the host's.
    pub tune_pci: bool,
    /// GUID of the node. Port n has this GUID plus n.
    pub node_guid: Guid,
    /// Link layer of all its ports.
    pub link_layer: LinkLayer,
    /// P_Key table of its ports: the partitions that they belong to. It must not be empty.
    pub pkeys: Vec<PKey>,
    /// Parameters of a NIC, which is no RDMA device. `None`: an HCA.
    pub nic: Option<NicPart>,
}

/// Switch of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchSpec {
    /// Name of the switch, unique among hosts and switches, without `/`.
    pub name: String,
    /// Parameters of the switch.
    pub part: SwitchPart,
    /// GUID of the node and of all its ports.
    pub node_guid: Guid,
}

/// Port of a fabric: an end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortRef {
    /// Port of an HCA.
    Hca {
        /// Index of the host.
        host: usize,
        /// Index of the HCA in the host.
        hca: usize,
        /// Number of the port, from 1 on.
        port: PortNumber,
    },
    /// Port of a switch.
    Switch {
        /// Index of the switch.
        switch: usize,
        /// Number of the port, from 1 on.
        port: PortNumber,
    },
}

/// Cable of a fabric, and the link that it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CableSpec {
    /// Parameters of the cable.
    pub part: CablePart,
    /// Ports at both ends.
    pub ends: [PortRef; 2],
    /// Trained rate: the best that both ports, the cable and the file's `rate` allow.
    pub rate: LinkRate,
}

impl CableSpec {
    /// Returns the trained rate in the notation of its link layer: `4X EDR` or `100GbE`.
    pub fn rate_name(&self) -> String {
        let ethernet = self.part.ethernet.as_ref().and_then(|_| EthernetRate::of(self.rate));
        ethernet.map_or_else(|| self.rate.to_string(), |rate| rate.to_string())
    }
}

impl FabricSpec {
    /// Returns the link layer of a port.
    ///
    /// # Panics
    /// If the fabric has no such host, HCA or switch. All functions that take a port panic alike.
    pub fn link_layer(&self, port: PortRef) -> LinkLayer {
        match port {
            PortRef::Hca { host, hca, .. } => self.hosts[host].hcas[hca].link_layer,
            PortRef::Switch { switch, .. } => self.switches[switch].part.link_layer(),
        }
    }

    /// Returns the framing of packets on links of a layer.
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

    /// Returns for each node whether a subnet manager configures its links: first the HCAs in the order of
    /// hosts, then the switches. Links of Ethernet need none.
    pub fn nodes_that_need_manager(&self) -> impl Iterator<Item = bool> {
        let hcas = self.hosts.iter().flat_map(|host| &host.hcas).map(|hca| hca.link_layer);
        hcas.chain(self.switches.iter().map(|switch| switch.part.link_layer())).map(|layer| layer != LinkLayer::Ethernet)
    }

    /// Returns the number of cabled InfiniBand ports of HCAs.
    pub fn cabled_infiniband_hca_ports(&self) -> usize {
        self.cabled_hca_ports().filter(|port| self.link_layer(*port) == LinkLayer::Infiniband).count()
    }

    fn cabled_hca_ports(&self) -> impl Iterator<Item = PortRef> + '_ {
        self.cables.iter().flat_map(|cable| cable.ends).filter(|end| matches!(end, PortRef::Hca { .. }))
    }

    /// Returns the number of LIDs of an HCA's port. An Ethernet port has an internal one.
    pub fn lids_of(&self, port: PortRef) -> usize {
        if self.link_layer(port) == LinkLayer::Ethernet { 1 } else { self.subnet.lmc.lids().into() }
    }

    /// Returns the number of internal LIDs of Ethernet ports and switches.
    pub fn ethernet_lids_wanted(&self) -> usize {
        let switches = self.switches.iter().filter(|switch| switch.part.link_layer() == LinkLayer::Ethernet);
        self.cabled_hca_ports().count() - self.cabled_infiniband_hca_ports() + switches.count()
    }

    /// Returns the number of LIDs up to the last that the built-in manager assigns. Above [`LIDS`] the
    /// fabric cannot exist.
    pub fn lids_wanted(&self) -> usize {
        let several = self.cabled_infiniband_hca_ports();
        let single = self.cabled_hca_ports().count() - several;
        // LID 0 is reserved, so that the LIDs of the first port begin at `lmc.lids()`.
        (several + 1) * usize::from(self.subnet.lmc.lids()) - 1 + single + self.switches.len()
    }

    /// Returns the name of a port in the notation of fabric files: `a/mthca0/1`, `sw/1`.
    pub fn port_name(&self, port: PortRef) -> String {
        match port {
            PortRef::Hca { host, hca, port } => format!("{}/{}/{}", self.hosts[host].name, self.hosts[host].hcas[hca].device, port.0),
            PortRef::Switch { switch, port } => format!("{}/{}", self.switches[switch].name, port.0),
        }
    }
}
