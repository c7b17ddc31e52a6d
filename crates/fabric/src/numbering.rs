//! Numbers of nodes and ports. HCAs come in the order of the file, then switches.

use softband_spec::{FabricSpec, PortRef};

/// The node that owns a port; `index` counts the node's ports from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Hca { hca: u32, index: u8 },
    Switch { switch: u32, index: u8 },
}

impl Owner {
    #[inline]
    pub(crate) fn index(self) -> u8 {
        let (Self::Hca { index, .. } | Self::Switch { index, .. }) = self;
        index
    }
}

/// The nodes and ports of a fabric by their numbers.
pub(crate) struct Numbering {
    /// First HCA of each host.
    first_hcas: Vec<u32>,
    /// First port of each HCA, then of each switch.
    first_ports: Vec<u32>,
    owners: Vec<Owner>,
    hcas: usize,
}

impl Numbering {
    pub(crate) fn of(spec: &FabricSpec) -> Self {
        let hcas = spec.hosts.iter().flat_map(|host| &host.hcas);
        let mut numbering = Self { first_hcas: Vec::new(), first_ports: Vec::new(), owners: Vec::new(), hcas: 0 };
        for host in &spec.hosts {
            numbering.first_hcas.push(numbering.hcas as u32);
            numbering.hcas += host.hcas.len();
        }
        for (hca, ports) in (0..).zip(hcas.map(|hca| hca.part.ports)) {
            numbering.add((0..ports).map(|index| Owner::Hca { hca, index }));
        }
        for (switch, ports) in (0..).zip(spec.switches.iter().map(|switch| switch.part.ports)) {
            numbering.add((0..ports).map(|index| Owner::Switch { switch, index }));
        }
        numbering
    }

    fn add(&mut self, owners: impl Iterator<Item = Owner>) {
        self.first_ports.push(self.owners.len() as u32);
        self.owners.extend(owners);
    }

    /// Returns the owner of each port.
    pub(crate) fn owners(&self) -> &[Owner] {
        &self.owners
    }

    pub(crate) fn nodes(&self) -> usize {
        self.first_ports.len()
    }

    pub(crate) fn hca_of(&self, host: usize, hca: usize) -> usize {
        self.first_hcas[host] as usize + hca
    }

    /// Returns the node that owns a port.
    pub(crate) fn node_of(&self, owner: Owner) -> usize {
        match owner {
            Owner::Hca { hca, .. } => hca as usize,
            Owner::Switch { switch, .. } => self.hcas + switch as usize,
        }
    }

    pub(crate) fn first_port_of_hca(&self, hca: usize) -> u32 {
        self.first_ports[hca]
    }

    pub(crate) fn first_port_of_switch(&self, switch: usize) -> u32 {
        self.first_ports[self.hcas + switch]
    }

    pub(crate) fn first_port_of_node(&self, node: u32) -> u32 {
        self.first_ports[node as usize]
    }

    /// Returns the number of a port that the fabric file names.
    pub(crate) fn port_of(&self, end: PortRef) -> u32 {
        let (first, port) = match end {
            PortRef::Hca { host, hca, port } => (self.first_port_of_hca(self.hca_of(host, hca)), port),
            PortRef::Switch { switch, port } => (self.first_port_of_switch(switch), port),
        };
        first + u32::from(port.0) - 1
    }
}
