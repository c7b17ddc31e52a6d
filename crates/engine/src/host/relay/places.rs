//! Addresses of a fabric whose sockets the engine relays, and the kernel's addresses for each.

use crate::host::{addresses, network};
use softband_ipc::layout::HOSTS_MAX;
use softband_ipc::layout::relay::ROLES;
use softband_spec::{FabricSpec, MANAGEMENT_PREFIX};
use std::net::{IpAddr, Ipv4Addr};

/// Most addresses of a fabric: one network of the kernel has 65,535, and each needs some.
const PLACES_MAX: usize = 65_534 / ROLES as usize;
const _: () = assert!(PLACES_MAX > HOSTS_MAX);

/// An address of a host.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) host: usize,
    pub(crate) address: Ipv4Addr,
    pub(crate) prefix: u8,
    /// Name of the host, or of the host and its interface.
    pub(crate) name: String,
}

impl Place {
    /// Returns the nameless place of a host on the management network.
    pub(crate) fn of_host(host: usize) -> Self {
        Self { host, address: network::address(host).into(), prefix: MANAGEMENT_PREFIX, name: String::new() }
    }
}

/// All addresses. The first ones are the main addresses of the hosts, in their order.
#[derive(Debug)]
pub(crate) struct Places {
    all: Vec<Place>,
    hosts: usize,
    /// Address of the first place in the kernel.
    base: u32,
}

impl Places {
    /// # Errors
    /// If the fabric has too many addresses.
    pub(crate) fn new(spec: &FabricSpec, base: u32) -> anyhow::Result<Self> {
        let main = spec.hosts.iter().enumerate().map(|(host, description)| {
            let address = addresses::addresses_of(spec, &description.name).and_then(|(v4, _)| v4);
            let prefix = address.and_then(|address| all_of(spec, host).find(|(own, _)| *own == address)).map(|(_, prefix)| prefix);
            let place = Place::of_host(host);
            Place { address: address.unwrap_or(place.address), prefix: prefix.unwrap_or(place.prefix), name: description.name.clone(), ..place }
        });
        let mut all: Vec<Place> = main.collect();
        for host in 0..spec.hosts.len() {
            let others = all_of(spec, host).filter(|(address, _)| *address != all[host].address);
            let others: Vec<Place> = others
                .map(|(address, prefix)| {
                    let name = addresses::name_of(spec, address.into()).unwrap_or_default();
                    Place { host, address, prefix, name }
                })
                .collect();
            all.extend(others);
        }
        anyhow::ensure!(
            all.len() < HOSTS_MAX,
            "the fabric has {} addresses, and --network modelled takes at most {}: leave the option out",
            all.len(),
            HOSTS_MAX - 1
        );
        Ok(Self { all, hosts: spec.hosts.len(), base })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Place> {
        self.all.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the main address of a host.
    pub(crate) fn main(&self, host: usize) -> Ipv4Addr {
        self.all[host].address
    }

    pub(super) fn get(&self, index: usize) -> &Place {
        &self.all[index]
    }

    /// Returns whether a place is the main one of its host. Sockets there have all addresses.
    pub(super) fn is_main(&self, index: usize) -> bool {
        index < self.hosts
    }

    /// Returns the places that a socket at a place has.
    pub(super) fn covered_by(&self, index: usize) -> Vec<usize> {
        let host = self.all[index].host;
        if !self.is_main(index) {
            return vec![index];
        }
        (0..self.all.len()).filter(|other| self.all[*other].host == host).collect()
    }

    /// Returns the place of an address of the fabric.
    pub(super) fn of_address(&self, address: IpAddr) -> Option<usize> {
        self.all.iter().position(|place| IpAddr::from(place.address) == address.to_canonical())
    }

    /// Returns the kernel's address of a place in a role.
    pub(super) fn in_kernel(&self, role: u32, index: usize) -> Ipv4Addr {
        (self.base + role * self.all.len() as u32 + index as u32).into()
    }

    /// Returns the place of a kernel's address in a role.
    pub(super) fn of_kernel(&self, role: u32, address: Ipv4Addr) -> Option<usize> {
        let index = u32::from(address).checked_sub(self.in_kernel(role, 0).into())? as usize;
        (index < self.all.len()).then_some(index)
    }
}

fn all_of(spec: &FabricSpec, host: usize) -> impl Iterator<Item = (Ipv4Addr, u8)> {
    spec.hosts[host].interfaces.iter().flat_map(|interface| &interface.addresses).filter_map(|own| match own.address {
        IpAddr::V4(address) => Some((address, own.prefix)),
        IpAddr::V6(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_ipc::layout::relay::{HIDDEN, PEER, PUBLIC};

    #[test]
    fn each_address_has_one_of_the_kernel_in_each_role() {
        let place = |host, address: [u8; 4], name: &str| Place { host, address: address.into(), prefix: 16, name: name.into() };
        let all =
            vec![place(0, [198, 18, 0, 1], "a"), place(1, [198, 18, 0, 2], "b"), place(0, [10, 1, 0, 1], "a-ib0"), place(1, [10, 1, 0, 2], "b-ib0")];
        let places = Places { all, hosts: 2, base: 0x7F4D_0001 };
        let kernel: std::collections::BTreeSet<_> = [PUBLIC, HIDDEN, PEER]
            .into_iter()
            .flat_map(|role| (0..4).map(move |index| (role, index)))
            .map(|(role, index)| places.in_kernel(role, index))
            .collect();
        assert_eq!(kernel.len(), 12);
        assert_eq!((places.covered_by(0), places.covered_by(3)), (vec![0, 2], vec![3]));
        assert_eq!(places.of_kernel(HIDDEN, places.in_kernel(HIDDEN, 3)), Some(3));
        assert_eq!((places.of_kernel(HIDDEN, places.in_kernel(PEER, 0)), places.of_kernel(HIDDEN, places.in_kernel(PUBLIC, 3))), (None, None));
        assert_eq!(places.of_address("::ffff:10.1.0.2".parse().unwrap()), Some(3));
    }
}
