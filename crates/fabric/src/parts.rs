//! A fabric in parts: Worlds of the same fabric, each of which executes the events of some of its nodes.
//!
//! What crosses a cable between two parts goes as a parcel, between two windows: by then nothing that it leads to has come.

use crate::spec::{FabricSpec, PortRef};
use crate::world::{Transit, World};
use softband_sim::SimTime;
use softband_types::{CreditBlocks, HcaId, VirtualLane};
use std::sync::Arc;

/// What crosses a cable to another part.
pub struct Parcel(pub(crate) Content);

impl Parcel {
    /// Before this it makes no difference.
    pub fn arrival(&self) -> SimTime {
        match &self.0 {
            Content::Packet { transit, .. } => transit.head,
            Content::FlowControl { arrival, .. } => *arrival,
        }
    }
}

pub(crate) enum Content {
    /// A packet, and the port that it left by.
    Packet { by: u32, transit: Transit },
    /// What a receiver says, and the port that it says it to.
    FlowControl { to: u32, arrival: SimTime, message: FlowControlMessage },
}

/// A link-layer message of the receiver: the sender may send so much, or must not send.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FlowControlMessage {
    Credits { lane: VirtualLane, blocks: CreditBlocks },
    Pause { lane: VirtualLane, pauses: bool },
}

/// Which part each node is in: HCAs in the order of the file, then switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    part_of: Arc<[u8]>,
    parts: u8,
}

impl Split {
    /// Hosts in equal shares, in the order of the file; switches with those they are cabled to, so that few cables lead across. Hosts whose
    /// only cable leads to a switch are where that is.
    pub fn new(spec: &FabricSpec, parts: u8) -> Self {
        let parts = parts.max(1);
        let first_of_host: Vec<usize> = spec.hosts.iter().scan(0, |next, host| Some(std::mem::replace(next, *next + host.hcas.len()))).collect();
        let hcas = spec.hosts.iter().map(|host| host.hcas.len()).sum::<usize>();
        let node = |port: PortRef| match port {
            PortRef::Hca { host, hca, .. } => first_of_host[host] + hca,
            PortRef::Switch { switch, .. } => hcas + switch,
        };
        let mut neighbours = vec![Vec::new(); hcas + spec.switches.len()];
        for cable in &spec.cables {
            let [a, b] = cable.ends.map(node);
            neighbours[a].push(b);
            neighbours[b].push(a);
        }
        let mut part_of: Vec<Option<u8>> = vec![None; neighbours.len()];
        for (host, of) in spec.hosts.iter().enumerate() {
            let part = host * usize::from(parts) / spec.hosts.len();
            part_of[first_of_host[host]..first_of_host[host] + of.hcas.len()].fill(Some(part as u8));
        }
        spread(&neighbours, &mut part_of, usize::from(parts));
        for (host, switch) in only_cables(spec).into_iter().flatten() {
            let part = part_of[hcas + switch];
            part_of[first_of_host[host]..first_of_host[host] + spec.hosts[host].hcas.len()].fill(part);
        }
        Self { part_of: part_of.into_iter().map(|part| part.unwrap_or(0)).collect(), parts }
    }

    pub fn parts(&self) -> u8 {
        self.parts
    }
}

/// Of each cable the host and the switch that it connects, where the host has no other cable: nothing is to be gained by dividing them.
pub(crate) fn only_cables(spec: &FabricSpec) -> Vec<Option<(usize, usize)>> {
    let mut count = vec![0; spec.hosts.len()];
    let ends = spec.cables.iter().flat_map(|cable| cable.ends);
    ends.for_each(|end| {
        if let PortRef::Hca { host, .. } = end {
            count[host] += 1;
        }
    });
    let connects = |ends: [PortRef; 2]| match ends {
        [PortRef::Hca { host, .. }, PortRef::Switch { switch, .. }] | [PortRef::Switch { switch, .. }, PortRef::Hca { host, .. }] => {
            Some((host, switch))
        }
        _ => None,
    };
    spec.cables.iter().map(|cable| connects(cable.ends).filter(|(host, _)| count[*host] == 1)).collect()
}

/// Gives each node the part of most of its neighbours that have one, from those that have one on; of several the one with fewest nodes.
fn spread(neighbours: &[Vec<usize>], part_of: &mut [Option<u8>], parts: usize) {
    let mut sizes = vec![0usize; parts];
    let mut reached: Vec<usize> = (0..part_of.len()).filter(|node| part_of[*node].is_some()).collect();
    while !reached.is_empty() {
        let mut next: Vec<usize> = reached.iter().flat_map(|node| &neighbours[*node]).copied().filter(|node| part_of[*node].is_none()).collect();
        next.sort_unstable();
        next.dedup();
        for node in &next {
            let mut votes = vec![0usize; parts];
            neighbours[*node].iter().filter_map(|other| part_of[*other]).for_each(|part| votes[usize::from(part)] += 1);
            let part = (0..parts).max_by_key(|part| (votes[*part], std::cmp::Reverse((sizes[*part], *part)))).unwrap_or(0);
            part_of[*node] = Some(part as u8);
            sizes[part] += 1;
        }
        reached = next;
    }
}

/// Which nodes are here, and what is to go to the other parts.
#[derive(Default)]
pub(crate) struct Parts {
    /// Nothing when all nodes are here.
    split: Option<Split>,
    own: u8,
    outboxes: Vec<Vec<Parcel>>,
}

impl Parts {
    pub(crate) fn has(&self, node: u32) -> bool {
        self.split.as_ref().is_none_or(|split| split.part_of[node as usize] == self.own)
    }
}

impl World {
    /// Executes only the events of part `own` from now on. In windows, and before the first event.
    ///
    /// # Panics
    /// When events do not come in windows.
    pub fn take_part(&mut self, split: &Split, own: u8) {
        assert!(self.has_windows(), "parts meet between windows");
        self.queue.end_window_of(SimTime::ZERO);
        let outboxes = std::iter::repeat_with(Vec::new).take(usize::from(split.parts)).collect();
        self.parts = Parts { split: Some(split.clone()), own, outboxes };
        if self.faults.is_some() {
            // What happens elsewhere is no event here.
            self.queue = self.queue.emptied(self.hcas.len() + self.switches.len());
            self.schedule_all_turns();
        }
        for id in 0..self.ports.len() {
            let sender = self.ports[id].cabling.map(|cabling| self.ports[cabling.peer as usize].node);
            self.ports[id].tells_sender |= sender.is_some_and(|node| !self.parts.has(node));
        }
    }

    pub(crate) fn has_node(&self, node: u32) -> bool {
        self.parts.has(node)
    }

    /// Whether an HCA's events are executed here.
    pub fn has_hca(&self, hca: HcaId) -> bool {
        self.has_node(hca.0)
    }

    /// Puts something aside for the part that a port is in.
    pub(crate) fn hand_over(&mut self, port: u32, content: Content) {
        let node = self.ports[port as usize].node as usize;
        let Some(split) = &self.parts.split else { unreachable!("without parts all nodes are here") };
        self.parts.outboxes[usize::from(split.part_of[node])].push(Parcel(content));
    }

    /// What is to go to another part, in the order in which it was sent.
    pub fn take_parcels(&mut self, part: u8) -> Vec<Parcel> {
        self.parts.outboxes.get_mut(usize::from(part)).map(std::mem::take).unwrap_or_default()
    }

    /// Takes in what another part has sent in the window that is over.
    pub fn take_in(&mut self, parcels: Vec<Parcel>) {
        for Parcel(content) in parcels {
            match content {
                Content::Packet { by, transit } => {
                    // What has come in is what the other end has sent.
                    self.ports[by as usize].sent.count(transit.bytes);
                    let packet = self.packets.insert(transit);
                    self.cross(packet, by);
                }
                Content::FlowControl { to, arrival, message } => self.tell_sender(to, arrival, message),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_join_most_of_their_neighbours_and_share_out_what_belongs_to_all() {
        // Two leaves with two hosts each, and two spines.
        let neighbours = vec![vec![4], vec![4], vec![5], vec![5], vec![0, 1, 6, 7], vec![2, 3, 6, 7], vec![4, 5], vec![4, 5]];
        let mut part_of = vec![Some(0), Some(0), Some(1), Some(1), None, None, None, None];
        spread(&neighbours, &mut part_of, 2);
        assert_eq!(part_of.iter().flatten().copied().collect::<Vec<_>>(), [0, 0, 1, 1, 0, 1, 0, 1]);
    }
}
