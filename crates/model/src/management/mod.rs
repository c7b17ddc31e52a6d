//! The built-in subnet manager: LIDs, forwarding tables, and the settings of each link.
//!
//! It stands in for OpenSM when none runs. Its routing engines are those of `routing`; the default
//! is minimum hops.
//!
//! [`manager`] does the same work by management packets.

pub mod administration;
pub mod agent;
mod credit_loops;
pub mod manager;
mod packet;
mod routing;

pub use credit_loops::{CreditLoop, credit_loops, shortest_cycles};
pub use packet::{MAD_BYTES, ManagementPacket};
pub use routing::{Routes, RoutesTo, Routing, Unroutable};

use crate::link::{blocks_per_lane, mtu_that_fits};
use softband_types::{Lid, Mtu, OperationalVls};
use std::collections::VecDeque;

/// Capabilities of a port's hardware, as the manager sees them.
#[derive(Clone, Copy, Debug)]
pub struct PortCapabilities {
    /// Data lanes that the port can operate (VLCap).
    pub vl_cap: OperationalVls,
    /// Largest MTU of the port (MTUCap).
    pub mtu_max: Mtu,
    /// Receive buffer of the port in bytes.
    pub port_buffer_bytes: u32,
}

/// Settings at which a link operates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// Data lanes in operation (OperationalVLs).
    pub vls: OperationalVls,
    /// MTU of the link (NeighborMTU).
    pub mtu: Mtu,
}

/// Returns OperationalVLs and NeighborMTU of a link between these two ports.
///
/// OperationalVLs is the least of `max_op_vls` and both VLCaps, all of them codes. The MTU is also
/// limited by the size of one lane of either buffer, since a lane must hold at least a packet (IBTA
/// 7.9.4.1).
pub fn link_settings(ends: [PortCapabilities; 2], max_op_vls: OperationalVls, mtu_max: Mtu) -> LinkSettings {
    let vls = max_op_vls.min(ends[0].vl_cap).min(ends[1].vl_cap);
    let mut mtu = mtu_max;
    for end in ends {
        mtu = mtu_that_fits(mtu.min(end.mtu_max), blocks_per_lane(end.port_buffer_bytes, vls));
    }
    LinkSettings { vls, mtu }
}

/// Neighbour of a port, as the manager's sweep finds it: `neighbours[switch][port]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// Port without a cable.
    None,
    /// Switch with this index.
    Switch(usize),
    /// End port with this LID.
    End(Lid),
}

/// Returns, by switch, the port index by which packets for the end ports of switch `home` leave it.
/// `None` at `home` itself, and without a route.
fn routes_to(home: usize, neighbours: &[Vec<Neighbour>]) -> Vec<Option<u8>> {
    let distances = hops_to(home, neighbours);
    (0..neighbours.len()).map(|switch| nearer_ports(switch, neighbours, &distances).next()).collect()
}

/// Returns, by switch, all port indices of shortest routes to the end ports of switch `home`.
fn ways_by_hops(home: usize, neighbours: &[Vec<Neighbour>]) -> Vec<Vec<u8>> {
    let distances = hops_to(home, neighbours);
    (0..neighbours.len()).map(|switch| nearer_ports(switch, neighbours, &distances).collect()).collect()
}

fn nearer_ports<'a>(switch: usize, neighbours: &'a [Vec<Neighbour>], distances: &'a [Option<u32>]) -> impl Iterator<Item = u8> + 'a {
    let nearer = distances[switch].and_then(|distance| distance.checked_sub(1));
    let leads = move |port: &Neighbour| matches!(port, Neighbour::Switch(next) if nearer.is_some() && distances[*next] == nearer);
    neighbours[switch].iter().enumerate().filter(move |(_, port)| leads(port)).map(|(index, _)| index as u8)
}

fn hops_to(home: usize, neighbours: &[Vec<Neighbour>]) -> Vec<Option<u32>> {
    let mut distances = vec![None; neighbours.len()];
    distances[home] = Some(0);
    let mut frontier = VecDeque::from([(home, 0)]);
    while let Some((switch, distance)) = frontier.pop_front() {
        for neighbour in &neighbours[switch] {
            if let Neighbour::Switch(next) = *neighbour
                && distances[next].is_none()
            {
                distances[next] = Some(distance + 1);
                frontier.push_back((next, distance + 1));
            }
        }
    }
    distances
}

/// Returns, by switch, the port index that leads to the switch `target` by the fewest hops. `None`
/// at `target` itself, and without a way.
///
/// `far_ends` has, by switch, the switches at the other ends of its cables, in the order of its
/// ports, each with the index of its port.
pub fn ways_to_switch(target: usize, far_ends: &[Vec<(usize, u8)>]) -> Vec<Option<u8>> {
    let mut ways = vec![None; far_ends.len()];
    let mut from = VecDeque::from([target]);
    while let Some(at) = from.pop_front() {
        for &(switch, index) in &far_ends[at] {
            if switch != target && ways[switch].is_none() {
                ways[switch] = Some(index);
                from.push_back(switch);
            }
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operational_vls_are_the_least_of_three_codes() {
        let port = |vl_cap, port_buffer_bytes| PortCapabilities {
            vl_cap: OperationalVls::from_code(vl_cap).unwrap(),
            mtu_max: Mtu::B2048,
            port_buffer_bytes,
        };
        let five = OperationalVls::from_code(5).unwrap();
        let settings = link_settings([port(4, 33_792), port(5, 65_536)], five, Mtu::B4096);
        assert_eq!((settings.vls.code(), settings.mtu), (4, Mtu::B2048));
        assert_eq!(link_settings([port(4, 16_000), port(5, 65_536)], five, Mtu::B4096).mtu, Mtu::B1024);
    }
}
