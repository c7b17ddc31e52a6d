//! Credit loops of a fabric, found before a run.

use crate::settings_of;
use crate::{EthernetFlowControl, FabricSpec, PortRef};
use softband_model::management::{self, Neighbour, Routes, Routing};
use softband_types::{Lid, LinkLayer, OperationalVls, PortNumber};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Switch output ports whose packets can wait for each other's buffers in a cycle, for credits or
/// the end of a pause. Each port waits for the next, and the last for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreditLoop {
    /// Output ports of the loop, in its order.
    pub ports: Vec<PortRef>,
    /// Lanes of each port that can take part, in the order of the ports.
    pub lanes: Vec<Vec<u8>>,
}

impl CreditLoop {
    /// Formats the loop: `s1/3 -> s2/4 -> s3/1 -> s1/3 (VL0)`. If the lanes differ, each port has
    /// its own list.
    pub fn describe(&self, spec: &FabricSpec) -> String {
        let prefix = if spec.link_layer(self.ports[0]) == LinkLayer::Ethernet { "priority " } else { "VL" };
        let alike = self.lanes.windows(2).all(|pair| pair[0] == pair[1]);
        let mut text = String::new();
        for (port, lanes) in self.ports.iter().zip(&self.lanes).cycle().take(self.ports.len() + 1) {
            let between = if text.is_empty() { "" } else { " -> " };
            let _ = write!(text, "{between}{}", spec.port_name(*port));
            if !alike {
                let _ = write!(text, " ({})", lane_list(lanes, prefix));
            }
        }
        if alike { format!("{text} ({})", lane_list(&self.lanes[0], prefix)) } else { text }
    }
}

/// Formats lanes: `VL0`, `VL0-3`, `VL0, VL2-3`.
fn lane_list(lanes: &[u8], prefix: &str) -> String {
    let mut runs: Vec<(u8, u8)> = Vec::new();
    for &lane in lanes {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == lane => *last = lane,
            _ => runs.push((lane, lane)),
        }
    }
    let shown = runs.iter().map(|(first, last)| if first == last { format!("{prefix}{first}") } else { format!("{prefix}{first}-{last}") });
    shown.collect::<Vec<_>>().join(", ")
}

/// Returns the credit loops of the subnet manager's routes, for all service levels that packets can
/// have. Most fabrics have none.
pub fn credit_loops(spec: &FabricSpec) -> Vec<CreditLoop> {
    let ports_of = |switch: usize| usize::from(spec.switches[switch].part.ports);
    let mut neighbours: Vec<Vec<Neighbour>> = (0..spec.switches.len()).map(|switch| vec![Neighbour::None; ports_of(switch)]).collect();
    let mut vls: Vec<Vec<Option<OperationalVls>>> = (0..spec.switches.len()).map(|switch| vec![None; ports_of(switch)]).collect();
    // A port without flow control never waits.
    let waits = |port| spec.link_layer(port) == LinkLayer::Infiniband || spec.ethernet.flow_control == EthernetFlowControl::Pfc;
    for cable in spec.cables.iter().filter(|cable| waits(cable.ends[0])) {
        let settings = settings_of(spec, cable);
        for [near, far] in [cable.ends, [cable.ends[1], cable.ends[0]]] {
            let PortRef::Switch { switch, port } = near else { continue };
            let index = usize::from(port.0) - 1;
            vls[switch][index] = Some(settings.vls);
            neighbours[switch][index] = match far {
                PortRef::Switch { switch, .. } => Neighbour::Switch(switch),
                // Any LID will do: no packet waits behind an end port.
                PortRef::Hca { .. } => Neighbour::End(Lid(1)),
            };
        }
    }
    // The routes are those of the whole fabric; no route leads from links without flow control to
    // others.
    let Ok(routes) = Routes::new(spec.subnet.routing, &crate::neighbours(spec)) else { return Vec::new() };
    let routes = routes.with_lanes(crate::lanes_of_switches(spec)).with_lmc(spec.subnet.lmc);
    let loops = management::credit_loops(&neighbours, &routes, |switch, port| vls[switch][port].expect("routes lead by cabled ports"));
    loops.into_iter().map(named).collect()
}

/// A change that would remove a fabric's credit loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopRemedy {
    /// This routing engine, with the present cables and lanes.
    Routing(Routing),
    /// At least this number of lanes: `max_op_vls`, or `priorities` if the loops are on Ethernet.
    Lanes(OperationalVls),
    /// Parts with more lanes.
    LanesOfParts,
    /// Ports in the order of the dimensions, in a mesh or hypercube.
    Order,
    /// Other cables.
    Cables,
}

/// Returns the remedy for a fabric with credit loops. It tries remedies that the fabric file can
/// express, so these work.
pub fn loop_remedy(spec: &FabricSpec) -> LoopRemedy {
    let helps = |changed: &FabricSpec| crate::unroutable(changed).is_none() && credit_loops(changed).is_empty();
    match spec.subnet.routing {
        Routing::DimensionOrder => {
            let mut changed = spec.clone();
            changed.subnet.routing = Routing::Torus;
            // Torus chooses service levels; on Ethernet programs choose them.
            let is_better = !spec.has_ethernet() && helps(&changed);
            if is_better { LoopRemedy::Routing(Routing::Torus) } else { LoopRemedy::Order }
        }
        Routing::Torus | Routing::Dragonfly => {
            let enough = (2..=4).filter_map(OperationalVls::from_code).find(|vls| {
                let mut changed = spec.clone();
                (changed.subnet.max_op_vls, changed.ethernet.priorities) = (*vls, *vls);
                helps(&changed)
            });
            enough.map_or(LoopRemedy::LanesOfParts, LoopRemedy::Lanes)
        }
        Routing::MinimumHop | Routing::UpDown | Routing::FatTree => LoopRemedy::Cables,
    }
}

fn named(found: management::CreditLoop) -> CreditLoop {
    let ports = found.ports.iter().map(|(switch, port)| PortRef::Switch { switch: *switch, port: PortNumber(port + 1) });
    let lanes_of = |at: usize| found.lanes.iter().map(|lanes| lanes[at].0).collect::<BTreeSet<_>>().into_iter().collect();
    CreditLoop { ports: ports.collect(), lanes: (0..found.ports.len()).map(lanes_of).collect() }
}
