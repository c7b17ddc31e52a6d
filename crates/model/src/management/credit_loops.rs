//! Credit loops: channels that, by the forwarding tables, can come to wait for each other in a
//! cycle.
//!
//! A channel is a switch's output port with one of its virtual lanes. It depends on every channel
//! that its packets take at the next switch: a packet there holds the buffer that the first channel
//! waits for. A cycle of dependencies can deadlock, a graph without a cycle cannot (Dally and Seitz
//! 1987). HCAs take every packet, so no cycle leads through them.

use super::{Neighbour, Routes, RoutesTo};
use softband_types::{OperationalVls, ServiceLevel, VirtualLane};

/// Output ports `(switch, port index)` whose packets can wait for each other: each port for the
/// next, the last for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreditLoop {
    /// Output ports of the loop: index of the switch, and port index from 0.
    pub ports: Vec<(usize, u8)>,
    /// Lanes on which this can happen: one lane for each port, in the order of the ports, for each
    /// loop through these ports.
    pub lanes: Vec<Vec<VirtualLane>>,
}

/// Returns the loops of a fabric as the manager's sweep finds it. Each set of channels that all
/// reach each other gives its shortest loop.
///
/// Only routes between end ports count. `vls` gives the operational lanes of the link at a switch's
/// port.
pub fn credit_loops(neighbours: &[Vec<Neighbour>], routes: &Routes, vls: impl Fn(usize, usize) -> OperationalVls) -> Vec<CreditLoop> {
    let channels = Channels::new(neighbours, &vls);
    let mut graph = if routes.choose_lanes() {
        channels.along_routes(routes, &vls)
    } else {
        let following = following_ports(neighbours, routes, &channels.first_port);
        if shortest_cycles(&channels.without_lanes(&following)).is_empty() {
            return Vec::new(); // a cycle of lanes would be a cycle of ports, too
        }
        channels.of_all_levels(routes, &following, &vls)
    };
    for dependencies in &mut graph {
        dependencies.sort_unstable();
        dependencies.dedup();
    }
    let mut loops: Vec<CreditLoop> = Vec::new();
    for cycle in shortest_cycles(&graph) {
        let members: Vec<(usize, u8, VirtualLane)> = cycle.into_iter().map(|channel| channels.named(channel)).collect();
        let by: Vec<(usize, u8)> = members.iter().map(|(switch, port, _)| (*switch, *port)).collect();
        let lanes = members.iter().map(|(_, _, lane)| *lane).collect();
        match loops.iter_mut().find(|known| known.ports == by) {
            Some(known) => known.lanes.push(lanes),
            None => loops.push(CreditLoop { ports: by, lanes: vec![lanes] }),
        }
    }
    loops
}

/// Channels of a fabric, by number.
struct Channels<'a> {
    neighbours: &'a [Vec<Neighbour>],
    /// By switch: the number of its first port.
    first_port: Vec<usize>,
    /// By port number: switch and port index.
    ports: Vec<(usize, usize)>,
    /// By port number: the channel number of its first lane. Ports that lead to no switch have no
    /// channels.
    first_channel: Vec<usize>,
}

impl<'a> Channels<'a> {
    fn new(neighbours: &'a [Vec<Neighbour>], vls: impl Fn(usize, usize) -> OperationalVls) -> Self {
        let ports: Vec<_> = (0..neighbours.len()).flat_map(|switch| (0..neighbours[switch].len()).map(move |port| (switch, port))).collect();
        let lanes_of = |(switch, index): &(usize, usize)| match neighbours[*switch][*index] {
            Neighbour::Switch(_) => usize::from(vls(*switch, *index).data_lanes()),
            Neighbour::None | Neighbour::End(_) => 0,
        };
        let first_channel = running_sum(ports.iter().map(lanes_of));
        Self { neighbours, first_port: running_sum(neighbours.iter().map(Vec::len)), ports, first_channel }
    }

    fn count(&self) -> usize {
        self.first_channel[self.ports.len()]
    }

    fn named(&self, channel: u32) -> (usize, u8, VirtualLane) {
        let port = self.first_channel.partition_point(|first| *first <= channel as usize) - 1;
        let (switch, index) = self.ports[port];
        (switch, index as u8, VirtualLane((channel as usize - self.first_channel[port]) as u8))
    }

    /// Returns the output ports to switches that packets take after `port`.
    fn onward<'b>(&'b self, port: usize, following: &'b [PortSet]) -> impl Iterator<Item = usize> + 'b {
        let (switch, index) = self.ports[port];
        let next = match self.neighbours[switch][index] {
            Neighbour::Switch(next) => Some(next),
            Neighbour::None | Neighbour::End(_) => None,
        };
        let outputs = next.into_iter().flat_map(move |next| following[port].ports().map(move |output| (next, output)));
        outputs
            .filter(|(next, output)| matches!(self.neighbours[*next][*output], Neighbour::Switch(_)))
            .map(|(next, output)| self.first_port[next] + output)
    }

    /// Returns the dependencies of ports, on all lanes together.
    fn without_lanes(&self, following: &[PortSet]) -> Vec<Vec<u32>> {
        (0..self.ports.len()).map(|port| self.onward(port, following).map(|output| output as u32).collect()).collect()
    }

    /// Returns the dependencies if each service level has its own lane on each link.
    fn of_all_levels(&self, routes: &Routes, following: &[PortSet], vls: impl Fn(usize, usize) -> OperationalVls) -> Vec<Vec<u32>> {
        let mut graph = vec![Vec::new(); self.count()];
        // If lanes do not follow from the route, the lanes of an output are the same for all
        // inputs.
        let lane_at = |(switch, index): (usize, usize), level| usize::from(routes.lane(0, index as u8, level, vls(switch, index)).0);
        let lane = |port: usize, level| lane_at(self.ports[port], level);
        for port in 0..self.ports.len() {
            for output in self.onward(port, following) {
                for level in (0..16).map(ServiceLevel) {
                    let channel = |port: usize| self.first_channel[port] + lane(port, level);
                    graph[channel(port)].push(channel(output) as u32);
                }
            }
        }
        graph
    }

    /// Returns the dependencies if lanes follow from the route. It follows each route from end to
    /// end.
    fn along_routes(&self, routes: &Routes, vls: impl Fn(usize, usize) -> OperationalVls) -> Vec<Vec<u32>> {
        const LEVELS: usize = 16;
        let mut graph: Vec<Vec<u32>> = vec![Vec::new(); self.count()];
        let sources: Vec<usize> = (0..self.neighbours.len()).filter(|switch| has_ends(&self.neighbours[*switch])).collect();
        // Destination for which each channel was last taken with a service level: from there on the
        // route is known.
        let mut passed = vec![u32::MAX; self.count() * LEVELS];
        for (home, to_home, destinations) in homes(self.neighbours, routes) {
            for (destination, source) in destinations.flat_map(|destination| sources.iter().map(move |source| (destination, *source))) {
                let level = routes.service_level(source, home).unwrap_or(ServiceLevel(0));
                // All end ports of a switch give the same route.
                let first = self.neighbours[source].iter().position(|port| matches!(port, Neighbour::End(_))).unwrap_or(0);
                let (mut at, mut input, mut held) = (source, first as u8, None);
                while let Some(output) = to_home.output(at, destination) {
                    let index = usize::from(output);
                    let lane = routes.lane(input, output, level, vls(at, index));
                    let channel = self.first_channel[self.first_port[at] + index] + usize::from(lane.0);
                    let dependencies = held.replace(channel).map(|held: usize| &mut graph[held]);
                    if let Some(known) = dependencies.filter(|known| !known.contains(&(channel as u32))) {
                        known.push(channel as u32);
                    }
                    if std::mem::replace(&mut passed[channel * LEVELS + usize::from(level.0)], destination as u32) == destination as u32 {
                        break;
                    }
                    let Neighbour::Switch(next) = self.neighbours[at][index] else { break };
                    let back = |port: &Neighbour| *port == Neighbour::Switch(at);
                    input = self.neighbours[next].iter().position(back).unwrap_or(0) as u8;
                    at = next;
                }
            }
        }
        graph
    }
}

fn has_ends(ports: &[Neighbour]) -> bool {
    ports.iter().any(|port| matches!(port, Neighbour::End(_)))
}

/// Returns the switches with end ports, the routes to each, and those of its destinations that have
/// routes of their own.
fn homes<'a>(neighbours: &'a [Vec<Neighbour>], routes: &'a Routes) -> impl Iterator<Item = (usize, RoutesTo, std::ops::Range<usize>)> + 'a {
    let ends = |ports: &Vec<Neighbour>| ports.iter().filter(|port| matches!(port, Neighbour::End(_))).count();
    let first = running_sum(neighbours.iter().map(ends));
    (0..neighbours.len()).filter(|home| has_ends(&neighbours[*home])).map(move |home| {
        let to_home = routes.routes_to(home, neighbours);
        let destinations = if to_home.are_one() { first[home]..first[home] + 1 } else { first[home]..first[home + 1] };
        (home, to_home, destinations)
    })
}

/// Set of a switch's ports.
#[derive(Clone, Default)]
struct PortSet([u64; 4]);

impl PortSet {
    fn insert(&mut self, port: usize) {
        self.0[port / 64] |= 1 << (port % 64);
    }
    fn ports(&self) -> impl Iterator<Item = usize> {
        (0..256).filter(|port| self.0[port / 64] & 1 << (port % 64) != 0)
    }
}

/// Returns, by output port of all switches, the outputs at the next switch that its packets take.
fn following_ports(neighbours: &[Vec<Neighbour>], routes: &Routes, first_port: &[usize]) -> Vec<PortSet> {
    let sources: Vec<usize> = (0..neighbours.len()).filter(|switch| has_ends(&neighbours[*switch])).collect();
    let mut following = vec![PortSet::default(); first_port[neighbours.len()]];
    // LID for which each switch was last passed: from there on the route is known.
    let mut passed = vec![usize::MAX; neighbours.len()];
    for (_, to_home, destinations) in homes(neighbours, routes) {
        let paths = destinations.flat_map(|destination| (0..routes.paths()).map(move |path| (destination, path)));
        for ((destination, path), source) in paths.flat_map(|lid| sources.iter().map(move |source| (lid, *source))) {
            let (mut at, number) = (source, destination * routes.paths() + path);
            while let Some(output) = to_home.output_of_path(at, destination, path).filter(|_| passed[at] != number) {
                passed[at] = number;
                let Neighbour::Switch(next) = neighbours[at][usize::from(output)] else { break };
                if let Some(onward) = to_home.output_of_path(next, destination, path) {
                    following[first_port[at] + usize::from(output)].insert(usize::from(onward));
                }
                at = next;
            }
        }
    }
    following
}

fn running_sum(counts: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut sums = vec![0];
    sums.extend(counts.scan(0, |sum, count| {
        *sum += count;
        Some(*sum)
    }));
    sums
}

/// Returns a shortest cycle of each set of nodes that all reach each other, by the sets' least
/// nodes. Each cycle begins with its own least node.
///
/// `graph` holds the nodes that each node leads to.
pub fn shortest_cycles(graph: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let component = components(graph);
    let mut members: Vec<Vec<u32>> = Vec::new();
    let mut place = vec![u32::MAX; graph.len()];
    for (node, of) in component.iter().enumerate() {
        let of = *of as usize;
        if place[of] == u32::MAX {
            place[of] = members.len() as u32;
            members.push(Vec::new());
        }
        members[place[of] as usize].push(node as u32);
    }
    let mut search = Search { component: &component, graph, came_from: vec![u32::MAX; graph.len()] };
    members.iter().filter_map(|members| search.shortest_cycle(members)).collect()
}

/// Returns the strongly connected component of each node, by a number that only tells them apart
/// (Tarjan 1972, without recursion).
fn components(graph: &[Vec<u32>]) -> Vec<u32> {
    const NONE: u32 = u32::MAX;
    let (mut index, mut low, mut component) = (vec![NONE; graph.len()], vec![0; graph.len()], vec![NONE; graph.len()]);
    let (mut visited, mut stack, mut path) = (0, Vec::new(), Vec::new());
    for root in 0..graph.len() {
        if index[root] != NONE {
            continue;
        }
        path.push((root, 0));
        while let Some((node, edge)) = path.pop() {
            if edge == 0 {
                (index[node], low[node]) = (visited, visited);
                visited += 1;
                stack.push(node);
            }
            match graph[node].get(edge).map(|next| *next as usize) {
                Some(next) => {
                    path.push((node, edge + 1));
                    if index[next] == NONE {
                        path.push((next, 0));
                    } else if component[next] == NONE {
                        low[node] = low[node].min(index[next]);
                    }
                }
                None => {
                    if low[node] == index[node] {
                        while let Some(member) = stack.pop() {
                            component[member] = node as u32;
                            if member == node {
                                break;
                            }
                        }
                    }
                    if let Some((parent, _)) = path.last() {
                        low[*parent] = low[*parent].min(low[node]);
                    }
                }
            }
        }
    }
    component
}

struct Search<'a> {
    component: &'a [u32],
    graph: &'a [Vec<u32>],
    came_from: Vec<u32>,
}

impl Search<'_> {
    /// Returns the shortest cycle within one component, or `None` for a single node that does not
    /// lead to itself.
    ///
    /// The search of a large component ends early: after a number of looks per edge, the best cycle
    /// found stands.
    fn shortest_cycle(&mut self, members: &[u32]) -> Option<Vec<u32>> {
        const LOOKS_AT_EACH_EDGE: usize = 32;
        let edges: usize = members.iter().map(|node| self.graph[*node as usize].len()).sum();
        let mut looks_left = edges.saturating_mul(LOOKS_AT_EACH_EDGE);
        let mut best: Option<Vec<u32>> = None;
        for &start in members {
            let shorter_than = best.as_ref().map_or(usize::MAX, Vec::len);
            if let Some(cycle) = self.cycle_from(start, shorter_than, &mut looks_left) {
                best = Some(cycle);
            }
            if looks_left == 0 {
                break;
            }
        }
        best
    }

    /// Returns the shortest cycle from `start` by greater nodes, if it is shorter than
    /// `shorter_than`. Cycles by lesser nodes are known.
    fn cycle_from(&mut self, start: u32, shorter_than: usize, looks_left: &mut usize) -> Option<Vec<u32>> {
        let mut reached = vec![start];
        let (mut from, mut len) = (0, 1);
        let mut found = None;
        'search: while from < reached.len() && len < shorter_than {
            let until = reached.len();
            for at in from..until {
                let node = reached[at];
                for &next in &self.graph[node as usize] {
                    *looks_left = looks_left.saturating_sub(1);
                    if next == start {
                        found = Some(node);
                        break 'search;
                    }
                    let is_new = next > start && self.component[next as usize] == self.component[start as usize];
                    if is_new && self.came_from[next as usize] == u32::MAX {
                        self.came_from[next as usize] = node;
                        reached.push(next);
                    }
                }
            }
            (from, len) = (until, len + 1);
        }
        let cycle = found.map(|last| {
            let mut cycle = vec![last];
            while let Some(&node) = cycle.last().filter(|node| **node != start) {
                cycle.push(self.came_from[node as usize]);
            }
            cycle.reverse();
            cycle
        });
        for node in reached {
            self.came_from[node as usize] = u32::MAX;
        }
        cycle
    }
}

#[cfg(test)]
mod tests;
