//! Minimal routing in dragonflies: within the group, by one global link, within the other group.
//!
//! The first group is the first switch and the switches that its first ports lead to, in order.
//! Other groups are as many switches in a row. All switches of a group are joined to each other. A
//! cable to another group is a global link.
//!
//! Packets that came in by a global link use another lane within the group than packets that are
//! still to leave theirs. The mapping to lanes tells them apart by input and output, so one service
//! level suffices.

use super::{Neighbour, Outputs, RoutesTo, Unroutable};
use softband_types::ServiceLevel;

#[derive(Clone, Debug)]
pub(super) struct Dragonfly {
    /// Switches of a group.
    group: usize,
    /// First port index that leads out of the group, and the first after those.
    globals: std::ops::Range<usize>,
    /// By switch: the port to each other switch of its group.
    local: Vec<Vec<u8>>,
    /// By group, then by other group: the links between them, as switch and port.
    links: Vec<Vec<Vec<(usize, u8)>>>,
}

impl Dragonfly {
    pub(super) fn new(neighbours: &[Vec<Neighbour>]) -> Result<Self, Unroutable> {
        let is_joined = |a: usize, b: usize| neighbours[a].contains(&Neighbour::Switch(b));
        let is_next = |index: usize, port: Neighbour| port == Neighbour::Switch(index + 1) && (1..=index).all(|other| is_joined(index + 1, other));
        let group = 1 + neighbours[0].iter().enumerate().take_while(|(index, port)| is_next(*index, **port)).count();
        if !neighbours.len().is_multiple_of(group) {
            return Err(Unroutable { switch: 0, why: "has a group of its own that the number of switches is no multiple of" });
        }
        let groups = neighbours.len() / group;
        let is_switch = |port: &Neighbour| matches!(port, Neighbour::Switch(_));
        let last = neighbours.iter().filter_map(|ports| ports.iter().rposition(is_switch)).max().map_or(0, |last| last + 1);
        let mut found = Self {
            group,
            globals: group - 1..last.max(group - 1),
            local: vec![vec![0; group]; neighbours.len()],
            links: vec![vec![Vec::new(); groups]; groups],
        };
        for (switch, ports) in neighbours.iter().enumerate() {
            found.note(switch, ports)?;
        }
        let is_unlinked = |from: usize| (0..groups).any(|to| to != from && found.links[from][to].is_empty());
        match (0..groups).find(|from| is_unlinked(*from)) {
            Some(from) => Err(Unroutable { switch: from * group, why: "is of a group without a link to each other group" }),
            None => Ok(found),
        }
    }

    fn note(&mut self, switch: usize, ports: &[Neighbour]) -> Result<(), Unroutable> {
        let own = switch / self.group;
        let mut joined = 1;
        for (index, port) in ports.iter().enumerate() {
            let Neighbour::Switch(next) = *port else { continue };
            let is_local = next / self.group == own;
            if is_local != (index < self.globals.start) {
                return Err(Unroutable { switch, why: "has not all ports to its own group first, and then those to others" });
            }
            if is_local {
                joined += 1;
                self.local[switch][next % self.group] = index as u8;
            } else {
                self.links[own][next / self.group].push((switch, index as u8));
            }
        }
        let is_whole = joined == self.group;
        if is_whole { Ok(()) } else { Err(Unroutable { switch, why: "is not joined to every other switch of its group" }) }
    }

    pub(super) fn routes_to(&self, home: usize) -> RoutesTo {
        let to = home / self.group;
        let outputs = |switch: usize| {
            if switch == home {
                return Vec::new();
            }
            let own = switch / self.group;
            if own == to {
                return vec![self.local[switch][home % self.group]];
            }
            let links = &self.links[own][to];
            if links.iter().any(|(exit, _)| *exit == switch) {
                return links.iter().filter(|(exit, _)| *exit == switch).map(|(_, port)| *port).collect();
            }
            links.iter().map(|(exit, _)| self.local[switch][exit % self.group]).collect()
        };
        RoutesTo((0..self.local.len()).map(|switch| Outputs { ports: outputs(switch), stride: 1, alternatives: Vec::new() }).collect())
    }

    /// Returns the lane, of two, on which a packet goes on, as a service level.
    pub(super) fn level_at(&self, input: u8, output: u8) -> ServiceLevel {
        let has_crossed = self.globals.contains(&usize::from(input)) && usize::from(output) < self.globals.start;
        ServiceLevel(u8::from(has_crossed))
    }
}
