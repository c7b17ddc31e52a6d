//! Routes by subnet: the longest prefix wins, then the lowest metric, then the first.

use crate::interface::InterfaceId;
use std::net::IpAddr;

/// Route of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Network that the route leads to.
    pub network: IpAddr,
    /// Bits of the network's prefix. 0 is the default route.
    pub prefix: u8,
    /// Next host, or `None` if the destination itself is on the link.
    pub gateway: Option<IpAddr>,
    /// Interface.
    pub interface: InterfaceId,
    /// Preferred source address, or `None` for the interface's first.
    pub source: Option<IpAddr>,
    /// Metric; the lowest wins among equal prefixes.
    pub metric: u32,
}

impl Route {
    /// Returns whether the route leads to `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        is_in(address, self.network, self.prefix)
    }
}

/// Returns whether `address` is in the subnet.
pub(crate) fn is_in(address: IpAddr, network: IpAddr, prefix: u8) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(u32::from(prefix))).unwrap_or(0);
            u32::from(address) & mask == u32::from(network) & mask
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(u32::from(prefix))).unwrap_or(0);
            u128::from(address) & mask == u128::from(network) & mask
        }
        _ => false,
    }
}

#[derive(Debug, Default)]
pub(crate) struct Routes(Vec<Route>);

impl Routes {
    pub(crate) fn add(&mut self, route: Route) {
        self.0.push(route);
        // The sort is stable, so equal routes keep the order of their addition.
        self.0.sort_by_key(|route| (std::cmp::Reverse(route.prefix), route.metric));
    }
    pub(crate) fn find(&self, address: IpAddr) -> Option<&Route> {
        self.0.iter().find(|route| route.contains(address))
    }
    pub(crate) fn all(&self) -> &[Route] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins() {
        let mut routes = Routes::default();
        for (network, prefix, interface, metric) in
            [([0, 0, 0, 0], 0, 1, 0), ([10, 0, 0, 0], 8, 2, 5), ([10, 0, 0, 0], 8, 3, 1), ([10, 1, 0, 0], 16, 4, 9)]
        {
            routes.add(Route { network: network.into(), prefix, gateway: None, interface: InterfaceId(interface), source: None, metric });
        }
        let interface = |address: [u8; 4]| routes.find(address.into()).map(|route| route.interface.0);
        assert_eq!((interface([10, 1, 2, 3]), interface([10, 2, 2, 3]), interface([11, 0, 0, 1])), (Some(4), Some(3), Some(1)));
        assert_eq!(routes.find("::1".parse().unwrap()), None);
    }
}
