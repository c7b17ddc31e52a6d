//! The fabric of a plan, as the text of a fabric file.

use softband_catalog::{Catalog, LoadOptions, parse_fabric};
use softband_spec::FabricSpec;
use std::fmt::Write as _;

/// Form, parts and settings of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricPlan {
    pub shape: Shape,
    pub parts: PartNames,
    /// `None` for InfiniBand.
    pub ethernet: Option<EthernetPlan>,
    /// OpenSM's code of the number of lanes.
    pub max_op_vls: u8,
    pub mtu_bytes: u32,
    pub routing: Option<&'static str>,
    /// Code of the time after which switches discard blocked packets; `None` for the default.
    pub lifetime: Option<u8>,
    pub congestion_control: bool,
    /// Weights of the lanes in the low table; empty without QoS.
    pub weights: Vec<u8>,
    pub tweaks: Tweaks,
}

/// The form of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Two hosts, with a cable between each pair of HCAs.
    Pair {
        hcas: usize,
    },
    Star {
        hosts: usize,
    },
    /// Switches in a ring, with a host on each.
    Ring {
        switches: usize,
    },
    FatTree {
        hosts: usize,
        ports: usize,
    },
    Torus {
        columns: usize,
        rows: usize,
    },
    Hypercube {
        dimension: usize,
    },
}

/// Names of catalogue parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartNames {
    pub host: String,
    pub hca: String,
    pub switch: String,
    pub cable: String,
    /// Length, for cable parts of any length.
    pub cable_metres: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetPlan {
    pub mtu_bytes: u32,
    pub pauses: bool,
    pub priorities: u8,
    pub tagged: bool,
}

/// Limits that are tighter than the parts' own. `None` keeps the part's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tweaks {
    pub staging_packets: Option<u32>,
    pub engines: Option<u32>,
    /// Size of every lane's receive buffer, in packets of the largest size.
    pub lane_packets: Option<u32>,
    /// Whether HCAs wait for a packet's last bit before they write to memory.
    pub stores_and_forwards: bool,
}

const DEVICE: &str = "hca";

impl FabricPlan {
    /// Returns the number of hosts.
    pub fn hosts(&self) -> usize {
        match self.shape {
            Shape::Pair { .. } => 2,
            Shape::Star { hosts } | Shape::FatTree { hosts, .. } => hosts,
            Shape::Ring { switches } => switches,
            Shape::Torus { columns, rows } => columns * rows,
            Shape::Hypercube { dimension } => 1 << dimension,
        }
    }

    /// Returns the number of HCAs of each host.
    pub fn hcas_per_host(&self) -> usize {
        match self.shape {
            Shape::Pair { hcas } => hcas,
            _ => 1,
        }
    }

    /// Builds the fabric by the reader of fabric files.
    ///
    /// # Errors
    /// The reader's messages, for parts that do not fit each other.
    pub fn build(&self, catalog: &Catalog) -> Result<FabricSpec, String> {
        let options = LoadOptions { allow_out_of_spec: true };
        let loaded = parse_fabric("simulated.toml", &self.text(), catalog, &options).map_err(|error| error.to_string())?;
        let mut spec = loaded.spec;
        self.tweak(&mut spec);
        Ok(spec)
    }

    fn tweak(&self, spec: &mut FabricSpec) {
        let lanes = u32::from(spec.subnet.max_op_vls.data_lanes());
        // A packet of the largest MTU with all its headers.
        let lane_bytes = self.tweaks.lane_packets.map(|packets| packets * (self.mtu_bytes + 256) * lanes);
        for hca in spec.hosts.iter_mut().flat_map(|host| &mut host.hcas) {
            let part = &mut hca.part;
            part.transmit_staging_packets = self.tweaks.staging_packets.unwrap_or(part.transmit_staging_packets);
            part.processing_engines = self.tweaks.engines.unwrap_or(part.processing_engines);
            part.port_buffer_bytes = lane_bytes.map_or(part.port_buffer_bytes, |bytes| bytes.min(part.port_buffer_bytes));
            if self.tweaks.stores_and_forwards {
                part.receive_mode = softband_model::parts::ReceiveMode::StoreAndForward;
            }
        }
        for switch in &mut spec.switches {
            let part = &mut switch.part;
            part.port_buffer_bytes = lane_bytes.map_or(part.port_buffer_bytes, |bytes| bytes.min(part.port_buffer_bytes));
        }
    }

    /// Returns the text of the fabric file, without the tweaks.
    pub fn text(&self) -> String {
        let mut text = String::from("[fabric]\ntitle = \"simulated\"\n");
        self.write_settings(&mut text);
        match self.shape {
            Shape::FatTree { hosts, ports } => self.write_generated(&mut text, &format!("kind = \"fat-tree\"\nhosts = {hosts}\nports = {ports}")),
            Shape::Torus { columns, rows } => {
                self.write_generated(&mut text, &format!("kind = \"torus\"\ndimensions = [{columns}, {rows}]\nhosts_per_switch = 1"));
            }
            Shape::Hypercube { dimension } => {
                self.write_generated(&mut text, &format!("kind = \"hypercube\"\ndimension = {dimension}\nhosts_per_switch = 1"));
            }
            Shape::Pair { .. } | Shape::Star { .. } | Shape::Ring { .. } => self.write_nodes(&mut text),
        }
        text
    }

    fn write_settings(&self, text: &mut String) {
        let _ = writeln!(text, "\n[subnet]\nmax_op_vls = {}\nmtu = {}", self.max_op_vls, self.mtu_bytes);
        if let Some(routing) = self.routing {
            let _ = writeln!(text, "routing = \"{routing}\"");
        }
        if let Some(code) = self.lifetime {
            for key in ["packet_life_time", "head_of_queue_lifetime", "leaf_head_of_queue_lifetime"] {
                let _ = writeln!(text, "{key} = {code}");
            }
        }
        if !self.weights.is_empty() {
            let weights: Vec<String> = self.weights.iter().enumerate().map(|(lane, weight)| format!("{lane}:{weight}")).collect();
            let levels: Vec<String> = (0..16).map(|level| (level % self.weights.len()).to_string()).collect();
            let _ = writeln!(text, "qos = true\nqos_vlarb_high = \"\"\nqos_vlarb_low = \"{}\"", weights.join(","));
            let _ = writeln!(text, "qos_sl2vl = \"{}\"", levels.join(","));
        }
        if self.congestion_control {
            let _ = writeln!(text, "congestion_control = {{ threshold = 8, ccti_timer = \"38.912 us\" }}");
        }
        if let Some(ethernet) = self.ethernet {
            let flow_control = if ethernet.pauses { "pfc" } else { "none" };
            let place = if ethernet.tagged { "vlan-tag" } else { "dscp" };
            let _ = writeln!(text, "\n[ethernet]\nmtu = {}\nflow_control = \"{flow_control}\"", ethernet.mtu_bytes);
            let _ = writeln!(text, "priorities = {}\npriority_in = \"{place}\"", ethernet.priorities);
        }
    }

    fn write_generated(&self, text: &mut String, shape: &str) {
        let PartNames { host, hca, switch, cable, .. } = &self.parts;
        let _ = writeln!(text, "\n[generate]\n{shape}\nhost = \"{host}\"\nhca = \"{hca}\"\ndevice = \"{DEVICE}0\"\nswitch = \"{switch}\"");
        let _ = writeln!(text, "host_cable = \"{cable}\"");
        if let Some(metres) = self.parts.cable_metres {
            let _ = writeln!(text, "host_cable_length = \"{metres} m\"");
        }
    }

    fn write_nodes(&self, text: &mut String) {
        for host in 0..self.hosts() {
            let _ = writeln!(text, "\n[hosts.h{host}]\npart = \"{}\"", self.parts.host);
            for hca in 0..self.hcas_per_host() {
                let _ = writeln!(text, "\n[[hosts.h{host}.hcas]]\ndevice = \"{DEVICE}{hca}\"\npart = \"{}\"", self.parts.hca);
                if self.ethernet.is_some() {
                    let _ = writeln!(text, "link_layer = \"ethernet\"");
                }
            }
        }
        let switches = match self.shape {
            Shape::Star { .. } => 1,
            Shape::Ring { switches } => switches,
            _ => 0,
        };
        for switch in 0..switches {
            let _ = writeln!(text, "\n[switches.s{switch}]\npart = \"{}\"", self.parts.switch);
        }
        for (from, to) in self.cables() {
            let _ = writeln!(text, "\n[[cables]]\npart = \"{}\"\nfrom = \"{from}\"\nto = \"{to}\"", self.parts.cable);
            if let Some(metres) = self.parts.cable_metres {
                let _ = writeln!(text, "length = \"{metres} m\"");
            }
        }
    }

    fn cables(&self) -> Vec<(String, String)> {
        match self.shape {
            Shape::Pair { hcas } => (0..hcas).map(|hca| (format!("h0/{DEVICE}{hca}/1"), format!("h1/{DEVICE}{hca}/1"))).collect(),
            Shape::Star { hosts } => (0..hosts).map(|host| (format!("h{host}/{DEVICE}0/1"), format!("s0/{}", host + 1))).collect(),
            Shape::Ring { switches } => {
                let hosts = (0..switches).map(|host| (format!("h{host}/{DEVICE}0/1"), format!("s{host}/1")));
                hosts.chain((0..switches).map(|from| (format!("s{from}/2"), format!("s{}/3", (from + 1) % switches)))).collect()
            }
            _ => Vec::new(),
        }
    }
}
