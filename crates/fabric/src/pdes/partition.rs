//! A fabric in partitions: Worlds of the same fabric. Each executes the events of some of the
//! nodes.
//!
//! Packets and flow-control messages that cross a cable between partitions travel as parcels,
//! between two windows. All their effects lie in later windows.

use crate::world::{Transit, World};
use softband_sim::SimTime;
use softband_spec::{FabricSpec, PortRef};
use softband_types::{CreditBlocks, HcaId, VirtualLane};
use std::sync::Arc;

/// A packet or message that crosses a cable to another partition.
pub struct Parcel(pub(crate) Content);

impl Parcel {
    /// Returns the earliest time at which the parcel has an effect.
    pub fn arrival(&self) -> SimTime {
        match &self.0 {
            Content::Packet { transit, .. } => transit.head,
            Content::FlowControl { arrival, .. } => *arrival,
        }
    }
}

pub(crate) enum Content {
    /// A packet, and the port by which it left.
    Packet { by: u32, transit: Transit },
    /// A receiver's flow-control message, and the sending port that it addresses.
    FlowControl { to: u32, arrival: SimTime, message: FlowControlMessage },
}

/// A link-layer message of the receiver: it grants credits, or stops and resumes the sender.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FlowControlMessage {
    Credits { lane: VirtualLane, blocks: CreditBlocks },
    Pause { lane: VirtualLane, pauses: bool },
}

/// The partition of each node: HCAs in the order of the file, then switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitioning {
    partition_of: Arc<[u8]>,
    partitions: u8,
}

impl Partitioning {
    /// Divides the hosts into equal shares, in the order of the file. A switch joins the partition
    /// of its neighbours, so that few cables cross. A host with a single cable, to a switch, joins
    /// that switch's partition.
    pub fn new(spec: &FabricSpec, partitions: u8) -> Self {
        let partitions = partitions.max(1);
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
        let mut partition_of: Vec<Option<u8>> = vec![None; neighbours.len()];
        for (host, of) in spec.hosts.iter().enumerate() {
            let partition = host * usize::from(partitions) / spec.hosts.len();
            partition_of[first_of_host[host]..first_of_host[host] + of.hcas.len()].fill(Some(partition as u8));
        }
        spread(&neighbours, &mut partition_of, usize::from(partitions));
        for (host, switch) in only_cables(spec).into_iter().flatten() {
            let partition = partition_of[hcas + switch];
            partition_of[first_of_host[host]..first_of_host[host] + spec.hosts[host].hcas.len()].fill(partition);
        }
        Self { partition_of: partition_of.into_iter().map(|partition| partition.unwrap_or(0)).collect(), partitions }
    }

    pub fn partitions(&self) -> u8 {
        self.partitions
    }
}

/// Returns, per cable, its host and switch if the host has no other cable. A division of that pair
/// gains nothing.
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

/// Assigns each node to the partition of most of its assigned neighbours, outward from the assigned
/// nodes. Among equals the smallest partition wins.
fn spread(neighbours: &[Vec<usize>], partition_of: &mut [Option<u8>], partitions: usize) {
    let mut sizes = vec![0usize; partitions];
    let mut reached: Vec<usize> = (0..partition_of.len()).filter(|node| partition_of[*node].is_some()).collect();
    while !reached.is_empty() {
        let mut next: Vec<usize> = reached.iter().flat_map(|node| &neighbours[*node]).copied().filter(|node| partition_of[*node].is_none()).collect();
        next.sort_unstable();
        next.dedup();
        for node in &next {
            let mut votes = vec![0usize; partitions];
            neighbours[*node].iter().filter_map(|other| partition_of[*other]).for_each(|partition| votes[usize::from(partition)] += 1);
            let partition =
                (0..partitions).max_by_key(|partition| (votes[*partition], std::cmp::Reverse((sizes[*partition], *partition)))).unwrap_or(0);
            partition_of[*node] = Some(partition as u8);
            sizes[partition] += 1;
        }
        reached = next;
    }
}

/// The nodes of this partition, and the parcels for the other partitions.
#[derive(Default)]
pub(crate) struct OwnPartition {
    /// `None` if all nodes are here.
    partitioning: Option<Partitioning>,
    own: u8,
    outboxes: Vec<Vec<Parcel>>,
}

impl OwnPartition {
    pub(crate) fn has(&self, node: u32) -> bool {
        self.partitioning.as_ref().is_none_or(|partitioning| partitioning.partition_of[node as usize] == self.own)
    }
}

impl World {
    /// Executes only the events of partition `own` from now on. The call needs windows, and comes
    /// before the first event.
    ///
    /// # Panics
    /// Panics if the World does not work in windows.
    pub fn take_partition(&mut self, partitioning: &Partitioning, own: u8) {
        assert!(self.has_windows(), "partitions meet between windows");
        self.queue.end_window_of(SimTime::ZERO);
        let outboxes = std::iter::repeat_with(Vec::new).take(usize::from(partitioning.partitions)).collect();
        self.partition = OwnPartition { partitioning: Some(partitioning.clone()), own, outboxes };
        if self.faults.is_some() {
            // Events of other partitions do not belong in this queue.
            self.queue = self.queue.emptied(self.hcas.len() + self.switches.len());
            self.schedule_all_turns();
        }
        for id in 0..self.ports.len() {
            let sender = self.ports[id].cabling.map(|cabling| self.ports[cabling.peer as usize].node);
            self.ports[id].tells_sender |= sender.is_some_and(|node| !self.partition.has(node));
        }
    }

    pub(crate) fn has_node(&self, node: u32) -> bool {
        self.partition.has(node)
    }

    /// Checks whether this World executes an HCA's events.
    pub fn has_hca(&self, hca: HcaId) -> bool {
        self.has_node(hca.0)
    }

    /// Stores a parcel for the partition of a port.
    pub(crate) fn send_parcel(&mut self, port: u32, content: Content) {
        let node = self.ports[port as usize].node as usize;
        let Some(partitioning) = &self.partition.partitioning else { unreachable!("without partitions all nodes are here") };
        self.partition.outboxes[usize::from(partitioning.partition_of[node])].push(Parcel(content));
    }

    /// Returns the parcels for another partition, in send order.
    pub fn take_parcels(&mut self, partition: u8) -> Vec<Parcel> {
        self.partition.outboxes.get_mut(usize::from(partition)).map(std::mem::take).unwrap_or_default()
    }

    /// Accepts the parcels that another partition sent in the window that just ended.
    pub fn take_in(&mut self, parcels: Vec<Parcel>) {
        for Parcel(content) in parcels {
            match content {
                Content::Packet { by, transit } => {
                    // The local copy of the sending port counts the packets that have arrived.
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
        let mut partition_of = vec![Some(0), Some(0), Some(1), Some(1), None, None, None, None];
        spread(&neighbours, &mut partition_of, 2);
        assert_eq!(partition_of.iter().flatten().copied().collect::<Vec<_>>(), [0, 0, 1, 1, 0, 1, 0, 1]);
    }
}
