//! The plan of a subnet: numbers of nodes, LIDs, routes, and the settings of each link.

use super::problem::{Place, Problem};
use super::topology::{End, Topology};
use super::{Configuration, note};
use crate::management::{LinkSettings, Neighbour, PortCapabilities, Routes, Routing, link_settings, ways_to_switch};
use softband_types::{CreditBlocks, Guid, Lid, Lmc, Mtu, OperationalVls, PortLids, PortNumber};
use softband_wire::mad::PortInfo;
use std::collections::{BTreeMap, VecDeque};

/// LIDs by node and port. A port keeps its LID, also while it is away.
pub(super) type Lids = BTreeMap<(Guid, u8), Lid>;

/// Output of a LID that a switch discards.
pub(super) const NO_PORT: u8 = 255;

pub(super) struct Plan {
    /// Ports of HCAs that have a link, in the order of their LIDs.
    pub(super) ends: Vec<End>,
    /// Switches in the order of their numbers.
    pub(super) switches: Vec<usize>,
    /// LIDs of ports of HCAs, and of ports 0 of switches.
    pub(super) lids: BTreeMap<End, Lid>,
    lmc: Lmc,
    pub(super) manager_lid: Lid,
    pub(super) routes: Routes,
    /// Forwarding tables of the switches.
    pub(super) tables: Vec<Vec<u8>>,
}

impl Plan {
    pub(super) fn new(topology: &Topology, configuration: &Configuration, known: &mut Lids, problems: &mut Vec<Problem>) -> Self {
        let (ends, switches) = in_order(topology, &configuration.order);
        let all = ends.iter().copied().chain(switches.iter().map(|switch| (*switch, 0)));
        let lids = assign_lids(topology, (all, configuration.lmc), known, problems);
        let manager = topology.roots.iter().flatten().find_map(|root| lids.get(root));
        let neighbours = neighbours(topology, &switches, &lids);
        let routes = Routes::new(configuration.routing, &neighbours).unwrap_or_else(|found| {
            let switch = topology.nodes[switches[found.switch]].guid();
            note(problems, Problem::Unroutable { switch, why: found.why });
            Routes::new(Routing::MinimumHop, &neighbours).expect("minimum hops suit every subnet")
        });
        let routes = match &configuration.switch {
            Some(classes) => routes.with_lanes(classes.sl2vl),
            None => routes,
        };
        let routes = routes.with_lmc(configuration.lmc);
        let mut plan =
            Self { lmc: configuration.lmc, ends, switches, manager_lid: manager.copied().unwrap_or_default(), routes, tables: Vec::new(), lids };
        plan.tables = plan.forwarding_tables(topology, &neighbours);
        plan
    }

    /// Returns the largest LID.
    pub(super) fn top(&self) -> Lid {
        self.lids.keys().filter_map(|end| self.lids_of(*end)).map(|lids| lids.last()).max().unwrap_or_default()
    }

    /// Returns the LIDs of a port.
    pub(super) fn lids_of(&self, end: End) -> Option<PortLids> {
        Some(PortLids { base: *self.lids.get(&end)?, lmc: lmc_of(end.1, self.lmc) })
    }

    fn forwarding_tables(&self, topology: &Topology, neighbours: &[Vec<Neighbour>]) -> Vec<Vec<u8>> {
        let mut tables = vec![vec![NO_PORT; usize::from(self.top().0) + 1]; self.switches.len()];
        self.routes.for_each_end(neighbours, |home, port, output| {
            let Neighbour::End(lid) = neighbours[home][port] else { return };
            for (switch, table) in tables.iter_mut().enumerate() {
                for (path, lid) in (PortLids { base: lid, lmc: self.lmc }).all().enumerate() {
                    let output = if switch == home { Some(port as u8) } else { output(switch, path) };
                    if let Some(output) = output {
                        table[usize::from(lid.0)] = output + 1;
                    }
                }
            }
        });
        let number: BTreeMap<usize, usize> = self.switches.iter().enumerate().map(|(number, node)| (*node, number)).collect();
        let far_ends_of = |node: &usize| {
            let ends = topology.nodes[*node].ports.keys().filter_map(|port| topology.linked((*node, *port)));
            ends.filter_map(|(far, port)| Some((*number.get(&far)?, port - 1))).collect()
        };
        let far_ends: Vec<Vec<(usize, u8)>> = self.switches.iter().map(far_ends_of).collect();
        for target in 0..self.switches.len() {
            let Some(lid) = self.lids.get(&(self.switches[target], 0)) else { continue };
            for (switch, output) in ways_to_switch(target, &far_ends).into_iter().enumerate() {
                if let Some(output) = output {
                    tables[switch][usize::from(lid.0)] = output + 1;
                }
            }
            tables[target][usize::from(lid.0)] = 0;
        }
        tables
    }

    /// Returns the settings of a port's link.
    pub(super) fn settings(topology: &Topology, configuration: &Configuration, end: End, peer: End) -> Option<LinkSettings> {
        let capabilities = |end: End| topology.port(end)?.info.as_ref().map(capabilities);
        Some(link_settings([capabilities(end)?, capabilities(peer)?], configuration.max_op_vls, configuration.mtu_max))
    }

    /// Returns, by switch, the ports that lead to the members of a group: the routes from all
    /// members to the first, in both directions. Each network with members has its own tree.
    pub(super) fn multicast_tree(&self, topology: &Topology, members: &[End]) -> BTreeMap<usize, Vec<u8>> {
        let number: BTreeMap<usize, usize> = self.switches.iter().enumerate().map(|(number, node)| (*node, number)).collect();
        let mut outputs: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        let mut left: VecDeque<End> = self.ends.iter().copied().filter(|end| members.contains(end)).collect();
        while let Some(root) = left.front().copied() {
            let Some(lid) = self.lids.get(&root) else { break };
            // Members without a route to this root are in another network.
            left.retain(|member| !self.mark_route(topology, &number, *member, (root, *lid), &mut outputs));
            left.retain(|member| *member != root);
        }
        outputs
    }

    /// Adds both directions of the route from a member's port to the root. Returns false if no route
    /// leads there.
    fn mark_route(
        &self,
        topology: &Topology,
        number: &BTreeMap<usize, usize>,
        member: End,
        (root, lid): (End, Lid),
        outputs: &mut BTreeMap<usize, Vec<u8>>,
    ) -> bool {
        let mut marks = Vec::new();
        let mut at = topology.linked(member);
        // A route passes at most all switches.
        for _ in 0..=self.switches.len() {
            let Some((node, input)) = at else { return false };
            let Some(switch) = number.get(&node) else { break };
            let output = self.tables[*switch][usize::from(lid.0)];
            if output == NO_PORT {
                return false;
            }
            marks.extend([(node, input), (node, output)]);
            at = topology.linked((node, output)).filter(|next| *next != root);
            if at.is_none() {
                break;
            }
        }
        for (node, port) in marks {
            outputs.entry(node).or_default().push(port);
        }
        true
    }
}

/// Returns the linked ports of HCAs, and the switches, in the order of their numbers.
fn in_order(topology: &Topology, order: &[Guid]) -> (Vec<End>, Vec<usize>) {
    let place: BTreeMap<Guid, usize> = order.iter().enumerate().map(|(place, guid)| (*guid, place)).collect();
    let key = |node: &usize| {
        let guid = topology.nodes[*node].guid();
        (place.get(&guid).copied().unwrap_or(usize::MAX), guid)
    };
    let mut nodes: Vec<usize> = (0..topology.nodes.len()).filter(|node| topology.nodes[*node].is_usable).collect();
    nodes.sort_by_key(key);
    let (switches, hcas): (Vec<usize>, Vec<usize>) = nodes.into_iter().partition(|node| topology.nodes[*node].is_switch());
    let ports = |node: usize| topology.nodes[node].ports.keys().map(move |port| (node, *port));
    let ends = hcas.into_iter().flat_map(ports).filter(|end| topology.linked(*end).is_some()).collect();
    (ends, switches)
}

/// Returns the LMC of a port. A switch has a single LID.
fn lmc_of(port: u8, lmc: Lmc) -> Lmc {
    if port == 0 { Lmc::ZERO } else { lmc }
}

fn assign_lids(
    topology: &Topology,
    (ends, lmc): (impl Iterator<Item = End>, Lmc),
    known: &mut Lids,
    problems: &mut Vec<Problem>,
) -> BTreeMap<End, Lid> {
    let mut last = known.iter().map(|((_, port), lid)| PortLids { base: *lid, lmc: lmc_of(*port, lmc) }.last()).max().unwrap_or_default();
    let mut lids = BTreeMap::new();
    for end in ends {
        let key = (topology.nodes[end.0].guid(), end.1);
        let lid = known.get(&key).copied().or_else(|| {
            let lids = PortLids::after(last, lmc_of(end.1, lmc)).filter(|lids| lids.last().is_unicast())?;
            last = lids.last();
            Some(lids.base)
        });
        let Some(lid) = lid else {
            note(problems, Problem::TooManyNodes);
            break;
        };
        known.insert(key, lid);
        lids.insert(end, lid);
    }
    lids
}

fn neighbours(topology: &Topology, switches: &[usize], lids: &BTreeMap<End, Lid>) -> Vec<Vec<Neighbour>> {
    let number: BTreeMap<usize, usize> = switches.iter().enumerate().map(|(number, node)| (*node, number)).collect();
    let neighbour = |end: End| match topology.linked(end) {
        None => Neighbour::None,
        Some(peer) => match number.get(&peer.0) {
            Some(switch) => Neighbour::Switch(*switch),
            None => lids.get(&peer).map_or(Neighbour::None, |lid| Neighbour::End(*lid)),
        },
    };
    let ports = |node: usize| (1..=topology.nodes[node].info.num_ports).map(move |port| neighbour((node, port))).collect();
    switches.iter().map(|node| ports(*node)).collect()
}

fn capabilities(info: &PortInfo) -> PortCapabilities {
    let blocks = u32::from(info.max_credit_hint);
    PortCapabilities {
        vl_cap: info.vl_cap.lanes().unwrap_or(OperationalVls::VL0),
        mtu_max: info.mtu_cap.mtu().unwrap_or(Mtu::B256),
        // Without a hint the port takes its largest packet on each lane.
        port_buffer_bytes: if blocks == 0 { u32::MAX } else { blocks * CreditBlocks::BLOCK_BYTES },
    }
}

/// Returns the place of a port, for people.
pub(super) fn place_of(topology: &Topology, (node, port): End) -> Place {
    Place { guid: topology.nodes[node].guid(), port: PortNumber(port) }
}
