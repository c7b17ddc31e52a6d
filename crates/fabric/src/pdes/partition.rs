//! A fabric in partitions: Worlds of the same fabric. Each executes the events of some of the
//! nodes.

use softband_spec::{FabricSpec, PortRef};
use std::sync::Arc;

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

    /// Returns the number of partitions, at least 1.
    pub fn partitions(&self) -> u8 {
        self.partitions
    }
}

/// Returns, per cable, its host and switch if the host has no other cable. A division of that pair
/// gains nothing.
pub(super) fn only_cables(spec: &FabricSpec) -> Vec<Option<(usize, usize)>> {
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

/// The nodes whose events run here.
#[derive(Default)]
pub(super) struct OwnPartition {
    /// `None` if all nodes are here.
    partitioning: Option<Partitioning>,
    own: u8,
}

impl OwnPartition {
    pub(super) fn new(partitioning: &Partitioning, own: u8) -> Self {
        Self { partitioning: Some(partitioning.clone()), own }
    }

    #[inline]
    pub(super) fn has(&self, node: u32) -> bool {
        self.partitioning.as_ref().is_none_or(|partitioning| partitioning.partition_of[node as usize] == self.own)
    }

    /// Returns the partition of a node; partition 0 has all nodes of an undivided fabric.
    pub(super) fn of(&self, node: u32) -> usize {
        self.partitioning.as_ref().map_or(0, |partitioning| usize::from(partitioning.partition_of[node as usize]))
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
