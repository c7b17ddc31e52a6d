//! Up*/down* routing: no route goes up again after it has gone down, so no cycle of channels
//! closes.

use super::{Neighbour, Outputs, RoutesTo, Unroutable, has_ends, hops_to};
use std::collections::VecDeque;

/// Ranks that define up and down.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// Rank of each switch. Up is towards the lesser rank.
    rank: Vec<(u32, usize)>,
    /// By height of a switch: how many destinations in turn take the same route. It is the product
    /// of the numbers of routes up below.
    stride: Vec<usize>,
    /// Height of each switch.
    height: Vec<usize>,
}

impl Tree {
    /// Creates ranks in which up leads to the middle: the switch whose farthest switch is nearest,
    /// the first of several.
    pub(super) fn around_the_middle(neighbours: &[Vec<Neighbour>]) -> Self {
        let count = neighbours.len();
        let mut rank: Vec<Option<u32>> = vec![None; count];
        // Each of several separate networks has a middle.
        for first in 0..count {
            if rank[first].is_some() {
                continue;
            }
            let members: Vec<usize> = reached(first, neighbours).collect();
            let radius = |switch: &usize| hops_to(*switch, neighbours).into_iter().flatten().max();
            let Some(&middle) = members.iter().min_by_key(|switch| radius(switch)) else { continue };
            for (switch, distance) in hops_to(middle, neighbours).into_iter().enumerate() {
                rank[switch] = distance.or(rank[switch]);
            }
        }
        let rank = rank.into_iter().enumerate().map(|(switch, rank)| (rank.unwrap_or(0), switch)).collect();
        Self { rank, stride: vec![1], height: vec![0; count] }
    }

    /// Creates ranks in which up leads away from the switches with end ports.
    pub(super) fn of_levels(neighbours: &[Vec<Neighbour>]) -> Result<Self, Unroutable> {
        let height = heights(neighbours);
        let top = height.iter().copied().max().unwrap_or(0);
        let mut ups = vec![1; top + 2];
        for (switch, ports) in neighbours.iter().enumerate() {
            let mut up = 0;
            for port in ports {
                let Neighbour::Switch(next) = *port else { continue };
                if height[next] == height[switch] {
                    return Err(Unroutable { switch, why: "has a cable to another switch of its own level" });
                }
                up += usize::from(height[next] > height[switch]);
            }
            ups[height[switch] + 1] = ups[height[switch] + 1].max(up);
        }
        let stride = ups.iter().scan(1, |product: &mut usize, up| {
            *product = product.saturating_mul(*up);
            Some(*product)
        });
        let rank = height.iter().enumerate().map(|(switch, height)| ((top - height) as u32, switch)).collect();
        let tree = Self { rank, stride: stride.collect(), height };
        tree.check(neighbours).map(|()| tree)
    }

    /// Checks whether routes reach every end port from all switches with end ports that cables
    /// connect to it.
    fn check(&self, neighbours: &[Vec<Neighbour>]) -> Result<(), Unroutable> {
        for home in (0..neighbours.len()).filter(|home| has_ends(&neighbours[*home])) {
            let routes = self.routes_to(home, neighbours);
            let lost = |switch: &usize| *switch != home && has_ends(&neighbours[*switch]) && routes.0[*switch].ports.is_empty();
            if let Some(switch) = reached(home, neighbours).find(lost) {
                return Err(Unroutable { switch, why: "does not reach all others by going up first and then down" });
            }
        }
        Ok(())
    }

    /// Returns the routes to `home`. Switches above it go down to it, all others up to the nearest
    /// of those.
    pub(super) fn routes_to(&self, home: usize, neighbours: &[Vec<Neighbour>]) -> RoutesTo {
        let (down, order) = self.above(home, neighbours);
        let mut distance = down.clone();
        let mut outputs = vec![Outputs::default(); neighbours.len()];
        for &switch in order.iter().filter(|switch| **switch != home) {
            let goes_down = down[switch].is_some();
            let is_onward = |next: usize| if goes_down { self.rank[next] > self.rank[switch] } else { self.rank[next] < self.rank[switch] };
            let lengths = if goes_down { &down } else { &distance };
            let length_by = |port: &Neighbour| match *port {
                Neighbour::Switch(next) if is_onward(next) => lengths[next],
                _ => None,
            };
            let ports = &neighbours[switch];
            let Some(nearest) = ports.iter().filter_map(length_by).min() else { continue };
            let by = (0..ports.len()).filter(|port| length_by(&ports[*port]) == Some(nearest)).map(|port| port as u8).collect();
            let height = if goes_down { self.height[switch].saturating_sub(1) } else { self.height[switch] };
            outputs[switch] = Outputs { ports: by, stride: self.stride[height], alternatives: Vec::new() };
            distance[switch] = Some(nearest + 1);
        }
        RoutesTo(outputs)
    }

    /// Returns, by switch, the hops down to `home`, if downward hops alone reach it. Also returns
    /// all switches: those above `home` first, then the others by rank.
    fn above(&self, home: usize, neighbours: &[Vec<Neighbour>]) -> (Vec<Option<u32>>, Vec<usize>) {
        let mut down = vec![None; neighbours.len()];
        down[home] = Some(0);
        let mut frontier = VecDeque::from([(home, 0)]);
        let mut order = Vec::new();
        while let Some((switch, hops)) = frontier.pop_front() {
            order.push(switch);
            for port in &neighbours[switch] {
                if let Neighbour::Switch(next) = *port
                    && self.rank[next] < self.rank[switch]
                    && down[next].is_none()
                {
                    down[next] = Some(hops + 1);
                    frontier.push_back((next, hops + 1));
                }
            }
        }
        let mut rest: Vec<usize> = (0..neighbours.len()).filter(|switch| down[*switch].is_none()).collect();
        rest.sort_unstable_by_key(|switch| self.rank[*switch]);
        order.extend(rest);
        (down, order)
    }
}

/// Returns the switches that cables lead to from `from`, itself among them.
fn reached(from: usize, neighbours: &[Vec<Neighbour>]) -> impl Iterator<Item = usize> {
    hops_to(from, neighbours).into_iter().enumerate().filter_map(|(switch, hops)| hops.map(|_| switch))
}

/// Returns the hops of each switch from the nearest switch that has end ports.
fn heights(neighbours: &[Vec<Neighbour>]) -> Vec<usize> {
    let mut height: Vec<Option<usize>> = neighbours.iter().map(|ports| has_ends(ports).then_some(0)).collect();
    let mut frontier: VecDeque<usize> = (0..neighbours.len()).filter(|switch| height[*switch].is_some()).collect();
    while let Some(switch) = frontier.pop_front() {
        for port in &neighbours[switch] {
            if let Neighbour::Switch(next) = *port
                && height[next].is_none()
            {
                height[next] = height[switch].map(|below| below + 1);
                frontier.push_back(next);
            }
        }
    }
    height.into_iter().map(Option::unwrap_or_default).collect()
}
