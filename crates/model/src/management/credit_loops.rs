//! Credit loops: channels that, by the forwarding tables, can come to wait for each other in a circle.
//!
//! A channel is a switch's output port with one of its virtual lanes. It depends on every channel that packets which leave by it
//! take at the next switch: a packet there holds the buffer that the first channel waits for. A circle of dependencies can
//! deadlock, a graph without one cannot (Dally and Seitz 1987). HCAs take whatever comes, so no circle leads through them.

use super::{Neighbour, ways_to};
use crate::link::lane_of;
use softband_types::{OperationalVls, ServiceLevel, VirtualLane};

/// Output ports `(switch, port index)` whose packets can wait for each other, each for the next and the last for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreditLoop {
    pub ports: Vec<(usize, u8)>,
    /// The lanes on which it can come to that: one for each port, in their order, for each loop that leads by these ports.
    pub lanes: Vec<Vec<VirtualLane>>,
}

/// The loops of a fabric as the manager's sweep finds it: one for each set of channels that all reach each other, the shortest.
///
/// Only ways between end ports count. `vls` tells at how many lanes the link of a switch's port operates.
pub fn credit_loops(neighbours: &[Vec<Neighbour>], vls: impl Fn(usize, usize) -> OperationalVls) -> Vec<CreditLoop> {
    let first_port = running_sum(neighbours.iter().map(Vec::len));
    let following = following_ports(neighbours, &first_port);
    let ports: Vec<(usize, usize)> = (0..neighbours.len()).flat_map(|switch| (0..neighbours[switch].len()).map(move |port| (switch, port))).collect();
    let lanes_of = |port: usize| {
        let (switch, index) = ports[port];
        if matches!(neighbours[switch][index], Neighbour::Switch(_)) { vls(switch, index).data_lanes() } else { 0 }
    };
    let first_channel = running_sum((0..ports.len()).map(|port| usize::from(lanes_of(port))));
    let mut graph = vec![Vec::new(); first_channel[ports.len()]];
    for (port, (switch, index)) in ports.iter().enumerate() {
        let Neighbour::Switch(next) = neighbours[*switch][*index] else { continue };
        for output in following[port].ports() {
            let output_port = first_port[next] + output;
            if lanes_of(output_port) == 0 {
                continue; // to an HCA
            }
            for service_level in (0..16).map(ServiceLevel) {
                let channel = |port: usize, of: (usize, usize)| first_channel[port] + usize::from(lane_of(service_level, vls(of.0, of.1)).0);
                graph[channel(port, (*switch, *index))].push(channel(output_port, (next, output)) as u32);
            }
        }
    }
    for channels in &mut graph {
        channels.sort_unstable();
        channels.dedup();
    }
    let mut loops: Vec<CreditLoop> = Vec::new();
    for circle in shortest_circles(&graph) {
        let port_of = |channel: u32| first_channel.partition_point(|first| *first <= channel as usize) - 1;
        let mut members: Vec<(usize, u8, VirtualLane)> = Vec::new();
        for channel in circle {
            let port = port_of(channel);
            let (switch, index) = ports[port];
            members.push((switch, index as u8, VirtualLane((channel as usize - first_channel[port]) as u8)));
        }
        let by: Vec<(usize, u8)> = members.iter().map(|(switch, port, _)| (*switch, *port)).collect();
        let lanes = members.iter().map(|(_, _, lane)| *lane).collect();
        match loops.iter_mut().find(|known| known.ports == by) {
            Some(known) => known.lanes.push(lanes),
            None => loops.push(CreditLoop { ports: by, lanes: vec![lanes] }),
        }
    }
    loops
}

/// A set of a switch's ports.
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

/// By output port of all switches: the outputs at the next switch by which packets that took it go on.
fn following_ports(neighbours: &[Vec<Neighbour>], first_port: &[usize]) -> Vec<PortSet> {
    let has_ends: Vec<bool> = neighbours.iter().map(|ports| ports.iter().any(|port| matches!(port, Neighbour::End(_)))).collect();
    let mut following = vec![PortSet::default(); first_port[neighbours.len()]];
    // For which destination a switch was last passed: from there on the way is known.
    let mut passed = vec![usize::MAX; neighbours.len()];
    for home in (0..neighbours.len()).filter(|home| has_ends[*home]) {
        let ways = ways_to(home, neighbours);
        for source in (0..neighbours.len()).filter(|source| has_ends[*source]) {
            let mut at = source;
            while let Some(output) = ways[at].filter(|_| passed[at] != home) {
                passed[at] = home;
                let Neighbour::Switch(next) = neighbours[at][usize::from(output)] else { break };
                if let Some(onward) = ways[next] {
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

/// A shortest circle of each set of nodes that all reach each other, by the sets' least nodes; each begins with its own least.
///
/// `graph` holds the nodes that each node leads to.
pub fn shortest_circles(graph: &[Vec<u32>]) -> Vec<Vec<u32>> {
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
    members.iter().filter_map(|members| search.shortest_circle(members)).collect()
}

/// The strongly connected component of each node, by a number that only tells them apart (Tarjan 1972, without recursion).
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
    /// The shortest circle within one component, `None` when it is a single node that does not lead to itself.
    ///
    /// A large component is not searched to the end: after looking at each of its edges so many times the best one found stands.
    fn shortest_circle(&mut self, members: &[u32]) -> Option<Vec<u32>> {
        const LOOKS_AT_EACH_EDGE: usize = 32;
        let edges: usize = members.iter().map(|node| self.graph[*node as usize].len()).sum();
        let mut looks_left = edges.saturating_mul(LOOKS_AT_EACH_EDGE);
        let mut best: Option<Vec<u32>> = None;
        for &start in members {
            let shorter_than = best.as_ref().map_or(usize::MAX, Vec::len);
            if let Some(circle) = self.circle_from(start, shorter_than, &mut looks_left) {
                best = Some(circle);
            }
            if looks_left == 0 {
                break;
            }
        }
        best
    }

    /// The shortest circle from `start` by greater nodes, if it is shorter than that: those by lesser ones are known.
    fn circle_from(&mut self, start: u32, shorter_than: usize, looks_left: &mut usize) -> Option<Vec<u32>> {
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
        let circle = found.map(|last| {
            let mut circle = vec![last];
            while let Some(&node) = circle.last().filter(|node| **node != start) {
                circle.push(self.came_from[node as usize]);
            }
            circle.reverse();
            circle
        });
        for node in reached {
            self.came_from[node as usize] = u32::MAX;
        }
        circle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_types::Lid;

    fn vls(code: u8) -> OperationalVls {
        OperationalVls::from_code(code).unwrap()
    }

    /// Switches in a ring, each with one end port at 0, its next neighbour at 1 and the one before it at 2.
    fn ring(count: usize) -> Vec<Vec<Neighbour>> {
        let around = |switch: usize| {
            vec![Neighbour::End(Lid(switch as u16 + 1)), Neighbour::Switch((switch + 1) % count), Neighbour::Switch((switch + count - 1) % count)]
        };
        (0..count).map(around).collect()
    }

    #[test]
    fn a_ring_of_five_has_a_loop_each_way_round() {
        let lane = |_, _| vls(1);
        let loops = credit_loops(&ring(5), lane);
        let ports: Vec<_> = loops.iter().map(|found| found.ports.clone()).collect();
        assert_eq!(ports, [vec![(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)], vec![(0, 2), (4, 2), (3, 2), (2, 2), (1, 2)]]);
        assert!(loops.iter().all(|found| found.lanes == [vec![VirtualLane(0); 5]]));
    }

    #[test]
    fn the_loops_of_all_lanes_by_the_same_ports_are_one() {
        let loops = credit_loops(&ring(5), |_, _| vls(3));
        assert_eq!(loops.len(), 2);
        assert_eq!(loops[0].lanes.iter().map(|lanes| lanes[0].0).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn a_link_with_fewer_lanes_joins_those_of_the_others() {
        // The link from switch 0 on has one lane: what goes round on either lane of the others meets there.
        let loops = credit_loops(&ring(5), |switch, port| if switch == 0 && port == 1 { vls(1) } else { vls(2) });
        assert_eq!(loops.iter().map(|found| found.lanes.len()).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(loops[0].ports[0], (0, 1));
    }

    #[test]
    fn short_ways_round_three_switches_and_trees_have_none() {
        let lane = |_, _| vls(1);
        assert_eq!(credit_loops(&ring(3), lane), []);
        use Neighbour::{End, Switch};
        let star = [vec![Switch(1), Switch(2)], vec![Switch(0), End(Lid(1))], vec![Switch(0), End(Lid(2))]];
        assert_eq!(credit_loops(&star, lane), []);
    }

    #[test]
    fn ways_that_nobody_takes_make_no_loop() {
        // A ring of five with end ports on two neighbours only.
        let mut fabric = ring(5);
        for ports in &mut fabric[2..] {
            ports[0] = Neighbour::None;
        }
        assert_eq!(credit_loops(&fabric, |_, _| vls(1)), []);
    }

    #[test]
    fn the_shortest_circle_of_each_component_is_named_from_its_least_node() {
        // 0 and 1 apart; 2-3-4-5 with a short cut 4-2; 6 leads to itself.
        let graph = [vec![1], vec![2], vec![3], vec![4], vec![5, 2], vec![2], vec![6]];
        assert_eq!(shortest_circles(&graph), [vec![2, 3, 4], vec![6]]);
    }

    #[test]
    fn a_thousand_switches_are_no_trouble() {
        // A torus of 32 by 32: each row and column a ring that deadlocks in both directions.
        let (side, at) = (32, |row: usize, column: usize| (row % 32) * 32 + column % 32);
        let around = |switch: usize| {
            let (row, column) = (switch / side, switch % side);
            let near = [at(row, column + 1), at(row, column + side - 1), at(row + 1, column), at(row + side - 1, column)];
            let mut ports: Vec<_> = near.into_iter().map(Neighbour::Switch).collect();
            ports.push(Neighbour::End(Lid(switch as u16 + 1)));
            ports
        };
        let torus: Vec<_> = (0..side * side).map(around).collect();
        assert!(!credit_loops(&torus, |_, _| vls(4)).is_empty());
    }
}
