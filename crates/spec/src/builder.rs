//! Descriptions of fabrics in code, without files and without the catalogue.

use crate::faults::{FaultKind, FaultSpec};
use crate::{
    CableSpec, EthernetSpec, FabricSpec, HcaSpec, HostSpec, InterfaceSpec, LIDS, PortRef, SubnetSpec, SwitchSpec, ethernet_loop, unroutable,
};
use softband_model::link::Sl2Vl;
use softband_model::parts::{BusPart, CablePart, HcaPart, HostPart, KernelPart, NicPart, PciExpress, Slot, SwitchPart};
use softband_types::{EthernetRate, Guid, LinkLayer, LinkRate, PKey, PortNumber};
use std::collections::BTreeSet;

/// First GUIDs of HCAs and of switches.
const HCA_FIRST: u64 = 0x0002_c902_0000_0004;
const SWITCH_FIRST: u64 = 0x0002_c902_4000_0004;

/// Node of a fabric under construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// HCA: index of its host in the fabric, and its index in the host.
    Hca {
        /// Index of the host.
        host: usize,
        /// Index of the HCA in the host.
        hca: usize,
    },
    /// Switch: its index in the fabric.
    Switch(usize),
}

impl Node {
    /// Returns a port of the node, by its number from 1 on. [`FabricBuilder::build`] checks it.
    pub fn port(self, number: u8) -> PortRef {
        let port = PortNumber(number);
        match self {
            Self::Hca { host, hca } => PortRef::Hca { host, hca, port },
            Self::Switch(switch) => PortRef::Switch { switch, port },
        }
    }
}

/// Reason why a fabric cannot exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Two hosts or switches have the same name, or a name is empty or contains `/`.
    #[error("`{0}` cannot be the name of another host or switch: write a name of its own, without `/`")]
    Name(String),
    /// A card does not fit its slot.
    #[error("host `{host}` has a slot for {slot}, and its HCA is a card for {card}: use another host part")]
    Slot {
        /// Name of the host.
        host: String,
        /// Kind of the slot.
        slot: &'static str,
        /// Kind of the card.
        card: &'static str,
    },
    /// A cable ends on a port that its node does not have, or that has a cable already.
    #[error("no free port `{0}`: use a part with more ports, or another port")]
    Port(String),
    /// Both ends and the cable have no link layer, width or speed in common.
    #[error("`{0}` and `{1}` have no rate in common over their cable: use other parts")]
    Rate(String, String),
    /// The routing engine of the subnet does not suit the switches and cables.
    #[error("routing `{routing}` cannot work here: switch `{switch}` {why}; use another engine, such as `up-down`")]
    Routing {
        /// Name of the engine.
        routing: &'static str,
        /// Name of the switch that it did not expect.
        switch: String,
        /// Difference from the switch that the engine expects.
        why: &'static str,
    },
    /// The ports and switches need more LIDs than the unicast range has (IBTA 4.1.3).
    #[error("the fabric needs {0} LIDs, and there are {max}: use fewer ports, or a smaller `lmc`", max = LIDS)]
    Lids(usize),
    /// Switches of a network with NICs form a loop: spanning trees are not modelled.
    #[error("a frame to all could come back to switch `{0}`: remove a cable of the loop, because spanning trees are not modelled")]
    EthernetLoop(String),
    /// A fault concerns a cable, port, host or switch that the fabric does not have, or packet 0.
    #[error("fault {0} (`{1}`) names a place or packet that does not exist: use an index of this fabric, and count packets from 1")]
    Fault(usize, &'static str),
    /// A host has a network interface that no program could use.
    #[error("host `{host}` cannot have the interface `{name}`: {why}")]
    Interface {
        /// Name of the host.
        host: String,
        /// Name of the interface.
        name: String,
        /// Reason.
        why: &'static str,
    },
    /// The subnet has QoS settings that its links or its routing cannot keep.
    #[error("the QoS settings cannot be kept: {0}")]
    Qos(&'static str),
}

/// Builds a [`FabricSpec`] in code: nodes first, then cables. Links train to the best rate that both
/// ends and the cable have in common.
///
/// Hosts, switches and cables have the order of their calls. [`SubnetSpec`] and [`EthernetSpec`]
/// have their defaults, and there are no faults, until a call changes them.
///
/// ```
/// use softband_model::parts::{CablePart, HcaPart, HostPart, SwitchPart};
/// use softband_spec::FabricBuilder;
///
/// let mut fabric = FabricBuilder::new("two hosts and a switch");
/// let switch = fabric.switch("sw", SwitchPart::ideal(8));
/// for name in ["a", "b"] {
///     let host = fabric.host(name, HostPart::ideal());
///     let hca = fabric.hca(host, HcaPart::ideal());
///     fabric.cable(hca, switch, CablePart::ideal(3_000));
/// }
/// let spec = fabric.build()?;
/// assert_eq!(spec.cables[1].rate.to_string(), "12X XDR");
/// assert_eq!(spec.port_name(spec.cables[1].ends[1]), "sw/2");
/// # Ok::<(), softband_spec::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FabricBuilder {
    spec: FabricSpec,
    next_guid: u64,
    error: Option<BuildError>,
}

impl FabricBuilder {
    /// Begins a fabric without nodes. `title` is for reports.
    pub fn new(title: impl Into<String>) -> Self {
        let spec = FabricSpec {
            title: title.into(),
            hosts: Vec::new(),
            switches: Vec::new(),
            cables: Vec::new(),
            subnet: SubnetSpec::default(),
            ethernet: EthernetSpec::default(),
            faults: Vec::new(),
        };
        Self { spec, next_guid: HCA_FIRST, error: None }
    }

    /// Adds a host without HCAs. Returns its index, from 0. Its kernel is Linux 6.1, and it has an
    /// interface on the management network.
    pub fn host(&mut self, name: impl Into<String>, part: HostPart) -> usize {
        let host = self.spec.hosts.len();
        let interfaces = vec![InterfaceSpec::management(host)];
        self.spec.hosts.push(HostSpec { name: name.into(), part, kernel: KernelPart::linux_6_1(), hcas: Vec::new(), interfaces, routes: Vec::new() });
        host
    }

    /// Sets the kernel of the host with this index.
    ///
    /// # Panics
    /// If the index is not that of a host.
    pub fn kernel(&mut self, host: usize, kernel: KernelPart) -> &mut Self {
        self.spec.hosts[host].kernel = kernel;
        self
    }

    /// Adds a network interface to the host with this index.
    ///
    /// # Panics
    /// If the index is not that of a host.
    pub fn interface(&mut self, host: usize, interface: InterfaceSpec) -> &mut Self {
        self.spec.hosts[host].interfaces.push(interface);
        self
    }

    /// Adds an InfiniBand HCA to the host with this index, in a slot of its own like the host
    /// part's. The device is called after the driver: `ideal0`, `ideal1` and so on. All ports
    /// are full members of the default partition.
    ///
    /// # Panics
    /// If the index is not that of a host.
    pub fn hca(&mut self, host: usize, part: HcaPart) -> Node {
        self.add_hca(host, part, LinkLayer::Infiniband)
    }

    /// Adds an HCA like [`Self::hca`], with Ethernet ports. The part must have Ethernet parameters:
    /// otherwise no cable fits.
    ///
    /// # Panics
    /// If the index is not that of a host.
    pub fn ethernet_hca(&mut self, host: usize, part: HcaPart) -> Node {
        self.add_hca(host, part, LinkLayer::Ethernet)
    }

    /// Adds a NIC to the host with this index. `interface` is the name that cables use.
    ///
    /// # Panics
    /// If the index is not that of a host.
    pub fn nic(&mut self, host: usize, interface: impl Into<String>, part: NicPart) -> Node {
        let node = self.add_hca(host, part.as_hca(), LinkLayer::Ethernet);
        if let Some(hca) = self.spec.hosts[host].hcas.last_mut() {
            (hca.device, hca.nic) = (interface.into(), Some(part));
        }
        node
    }

    fn add_hca(&mut self, host: usize, part: HcaPart, link_layer: LinkLayer) -> Node {
        let spec = &mut self.spec.hosts[host];
        let bus = match spec.part.bus.slot.train(part.interface) {
            Some(slot) => BusPart { slot: with_payload(slot, part.max_payload_bytes), ..spec.part.bus.clone() },
            None => {
                let error = BuildError::Slot { host: spec.name.clone(), slot: spec.part.bus.slot.interface().kind(), card: part.interface.kind() };
                self.error.get_or_insert(error);
                spec.part.bus.clone()
            }
        };
        let node_guid = Guid(self.next_guid);
        // A node takes its GUID and the next for each port.
        self.next_guid += (u64::from(part.ports) + 1).next_multiple_of(4);
        let hca = spec.hcas.len();
        spec.hcas.push(HcaSpec {
            device: format!("{}{hca}", part.driver),
            part,
            bus,
            shared_bus: None,
            tune_pci: false,
            node_guid,
            link_layer,
            pkeys: vec![PKey::DEFAULT_FULL],
            nic: None,
        });
        Node::Hca { host, hca }
    }

    /// Adds a switch.
    pub fn switch(&mut self, name: impl Into<String>, part: SwitchPart) -> Node {
        let switch = self.spec.switches.len();
        let node_guid = Guid(SWITCH_FIRST + 4 * switch as u64);
        self.spec.switches.push(SwitchSpec { name: name.into(), part, node_guid });
        Node::Switch(switch)
    }

    /// Connects the first free ports of two nodes. Returns the index of the cable, from 0.
    pub fn cable(&mut self, a: Node, b: Node, part: CablePart) -> usize {
        let free = |node: Node, other: Option<PortRef>| {
            let is_taken = |port: &PortRef| Some(*port) == other || self.spec.cable_at(*port).is_some();
            (1..=u8::MAX).map(|number| node.port(number)).find(|port| !is_taken(port)).unwrap_or(node.port(0))
        };
        let a = free(a, None);
        let b = free(b, Some(a));
        self.cable_at(a, b, part)
    }

    /// Connects two ports: see [`Node::port`]. Returns the index of the cable, from 0.
    ///
    /// # Panics
    /// If an index is not that of a host, HCA or switch.
    pub fn cable_at(&mut self, a: PortRef, b: PortRef, part: CablePart) -> usize {
        for (port, other) in [(a, b), (b, a)] {
            if !self.has_port(port) || port == other || self.spec.cable_at(port).is_some() {
                self.error.get_or_insert(BuildError::Port(self.spec.port_name(port)));
            }
        }
        let rate = self.trained(a, b, &part).unwrap_or_else(|| {
            self.error.get_or_insert_with(|| BuildError::Rate(self.spec.port_name(a), self.spec.port_name(b)));
            LinkRate { width: part.width_max, speed: part.speed_max }
        });
        self.spec.cables.push(CableSpec { part, ends: [a, b], rate });
        self.spec.cables.len() - 1
    }

    /// Sets the subnet manager's configuration.
    pub fn subnet(&mut self, subnet: SubnetSpec) -> &mut Self {
        self.spec.subnet = subnet;
        self
    }

    /// Sets the configuration of Ethernet links.
    pub fn ethernet(&mut self, ethernet: EthernetSpec) -> &mut Self {
        self.spec.ethernet = ethernet;
        self
    }

    /// Adds a fault at a time of the run.
    pub fn fault(&mut self, fault: FaultSpec) -> &mut Self {
        self.spec.faults.push(fault);
        self
    }

    /// Returns the fabric.
    ///
    /// # Errors
    /// The first defect of the parts, names, cables, routes, faults, interfaces and QoS settings, if
    /// the fabric cannot exist.
    pub fn build(self) -> Result<FabricSpec, BuildError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut names = BTreeSet::new();
        let all = self.spec.hosts.iter().map(|host| &host.name).chain(self.spec.switches.iter().map(|switch| &switch.name));
        for name in all {
            if name.is_empty() || name.contains('/') || !names.insert(name) {
                return Err(BuildError::Name(name.clone()));
            }
        }
        let wanted = self.spec.lids_wanted();
        if wanted > LIDS {
            return Err(BuildError::Lids(wanted));
        }
        if let Some(switch) = ethernet_loop(&self.spec) {
            return Err(BuildError::EthernetLoop(self.spec.switches[switch].name.clone()));
        }
        if let Some(found) = unroutable(&self.spec) {
            let switch = self.spec.switches[found.switch].name.clone();
            return Err(BuildError::Routing { routing: self.spec.subnet.routing.name(), switch, why: found.why });
        }
        if let Some(number) = self.spec.faults.iter().position(|fault| !self.is_possible(&fault.kind)) {
            return Err(BuildError::Fault(number, self.spec.faults[number].kind.name()));
        }
        if let Some((host, interface, why)) = self.spec.unusable_interface() {
            let host = &self.spec.hosts[host];
            return Err(BuildError::Interface { host: host.name.clone(), name: host.interfaces[interface].name.clone(), why });
        }
        self.check_qos()?;
        Ok(self.spec)
    }

    fn is_possible(&self, fault: &FaultKind) -> bool {
        match *fault {
            FaultKind::LinkDown { cable } | FaultKind::LinkUp { cable } => cable < self.spec.cables.len(),
            FaultKind::LinkRecovers { cable, .. } | FaultKind::BitErrors { cable, .. } => cable < self.spec.cables.len(),
            FaultKind::Drop { port, number, .. } => number > 0 && self.has_port(port),
            FaultKind::HostDies { host } => host < self.spec.hosts.len(),
            FaultKind::SwitchDies { switch } => switch < self.spec.switches.len(),
        }
    }

    fn check_qos(&self) -> Result<(), BuildError> {
        let Some(qos) = &self.spec.subnet.qos else { return Ok(()) };
        if self.spec.has_ethernet() {
            return Err(BuildError::Qos("the fabric has Ethernet ports, whose priorities take turns; leave `qos` out"));
        }
        let maps = [qos.hca.sl2vl, qos.switch.sl2vl];
        if self.spec.subnet.routing.chooses_lanes() && maps.iter().any(|map| *map != Sl2Vl::IDENTITY) {
            return Err(BuildError::Qos("the routing engine chooses lanes by path; use `Sl2Vl::IDENTITY`"));
        }
        Ok(())
    }

    fn has_port(&self, port: PortRef) -> bool {
        let (number, ports) = match port {
            PortRef::Hca { host, hca, port } => (port, self.spec.hosts.get(host).and_then(|host| host.hcas.get(hca)).map(|hca| hca.part.ports)),
            PortRef::Switch { switch, port } => (port, self.spec.switches.get(switch).map(|switch| switch.part.ports)),
        };
        (1..=ports.unwrap_or(0)).contains(&number.0)
    }

    /// Returns the best rate that both ends and the cable have in common.
    fn trained(&self, a: PortRef, b: PortRef, cable: &CablePart) -> Option<LinkRate> {
        let layer = cable.link_layer();
        if [a, b].iter().any(|port| self.spec.link_layer(*port) != layer) {
            return None;
        }
        let hca_or_switch = |port| match port {
            PortRef::Hca { host, hca, .. } => {
                let part = &self.spec.hosts[host].hcas[hca].part;
                (&part.widths, &part.speeds, &part.ethernet)
            }
            PortRef::Switch { switch, .. } => {
                let part = &self.spec.switches[switch].part;
                (&part.widths, &part.speeds, &part.ethernet)
            }
        };
        let ((a_widths, a_speeds, a_ethernet), (b_widths, b_speeds, b_ethernet)) = (hca_or_switch(a), hca_or_switch(b));
        if let Some(cable) = &cable.ethernet {
            let (a, b) = (a_ethernet.as_ref()?, b_ethernet.as_ref()?);
            return best(&a.rates, &b.rates, cable.rate_max).map(EthernetRate::link_rate);
        }
        let width = best(a_widths, b_widths, cable.width_max)?;
        Some(LinkRate { width, speed: best(a_speeds, b_speeds, cable.speed_max)? })
    }
}

/// Returns the largest value in both lists that is not above `most`.
fn best<T: Copy + Ord>(a: &[T], b: &[T], most: T) -> Option<T> {
    a.iter().copied().filter(|value| b.contains(value) && *value <= most).max()
}

/// Limits packets and read completions of a slot to the card's payload.
fn with_payload(slot: Slot, most: Option<u32>) -> Slot {
    let (Slot::PciExpress(slot), Some(most)) = (slot, most) else { return slot };
    Slot::PciExpress(PciExpress { max_payload_bytes: slot.max_payload_bytes.min(most), completion_bytes: slot.completion_bytes.min(most), ..slot })
}
