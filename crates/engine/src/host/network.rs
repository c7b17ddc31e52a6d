//! The addresses of a fabric. In wall pace the kernel provides the sockets, so each fabric on the
//! machine needs its own loopback network. The library in programs translates between its addresses
//! and those that programs see.

use crate::host::relay::places::Places;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use softband_spec::FabricSpec;

/// Address of host 0 as programs see it. RFC 2544 reserves 198.18.0.0/15 for tests, so no real
/// network has it. Launchers of MPI refuse addresses of 127.0.0.0/8.
const BASE: u32 = 0xC612_0001;
/// Address of host 0 in the kernel in the first network, 127.77.0.0/16. The next network is
/// 127.78.0.0/16, and so on.
const KERNEL_BASE: u32 = 0x7F4D_0001;
const NEXT: u32 = 1 << 16;
const NETWORKS: u32 = 150;
const _: () = assert!(KERNEL_BASE + NETWORKS * NEXT < 0x7FFF_0000, "within 127.0.0.0/8");

/// Returns the address of a host as a big-endian number. Every fabric has the same addresses.
pub(crate) fn address(host: usize) -> u32 {
    BASE + host as u32
}

/// A network of addresses. No other fabric on this machine has it.
#[derive(Debug)]
pub(crate) struct Network {
    /// Address of host 0 in the kernel.
    kernel_base: u32,
    /// Socket whose name is the reservation. The kernel gives the name to only one process and
    /// releases it when that process ends.
    _reservation: Option<OwnedFd>,
    /// Addresses between which the engine relays sockets, in wall pace.
    places: Option<Places>,
}

impl Network {
    /// Returns the network of simulated time. Addresses do not leave the engine, and every run has
    /// the same addresses.
    pub(crate) fn simulated() -> Self {
        Self { kernel_base: BASE, _reservation: None, places: None }
    }

    /// Returns whether the machine knows none of the addresses.
    pub(crate) fn is_simulated(&self) -> bool {
        self.kernel_base == BASE
    }

    /// Returns the address of a host in the kernel.
    pub(crate) fn kernel_address(&self, host: usize) -> u32 {
        self.kernel_base + host as u32
    }

    /// Returns the distance from the address of a host to its address in the kernel. It wraps.
    pub(crate) fn kernel_distance(&self) -> u32 {
        self.kernel_base.wrapping_sub(BASE)
    }

    /// Lets the engine relay sockets between the addresses of the fabric file.
    ///
    /// # Errors
    /// If the fabric has more addresses than the network has room for.
    pub(crate) fn relay(mut self, spec: &FabricSpec) -> anyhow::Result<Self> {
        self.places = Some(Places::new(spec, self.kernel_base)?);
        Ok(self)
    }

    /// Returns the addresses between which the engine relays sockets.
    pub(crate) fn places(&self) -> Option<&Places> {
        self.places.as_ref()
    }

    /// Reserves a free network, a different one in the next run. The ports of connections that have
    /// just ended are not free yet, and a new fabric needs all ports.
    pub(crate) fn reserve() -> anyhow::Result<Self> {
        Self::reserve_as("softband-network")
    }

    /// Reserves a free network, with this prefix of reservation names.
    fn reserve_as(reservation: &str) -> anyhow::Result<Self> {
        let first = std::process::id() % NETWORKS;
        for number in (first..NETWORKS).chain(0..first) {
            let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
            let name = SocketAddrUnix::new_abstract_name(format!("{reservation}-{number}").as_bytes())?;
            if rustix::net::bind(&socket, &name).is_ok() {
                return Ok(Self { kernel_base: KERNEL_BASE + number * NEXT, _reservation: Some(socket), places: None });
            }
        }
        // Any process may hold all names. The fabric starts nevertheless and shares a network and
        // its ports.
        Ok(Self { kernel_base: KERNEL_BASE + first * NEXT, _reservation: None, places: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_who_holds_every_name_keeps_nobody_from_a_fabric() {
        let name = format!("softband-test-{}", std::process::id());
        let held: Vec<_> = (0..NETWORKS).map(|_| Network::reserve_as(&name).unwrap()).collect();
        assert!(held.iter().all(|network| network._reservation.is_some()));
        let another = Network::reserve_as(&name).unwrap();
        assert!(another._reservation.is_none() && another.kernel_base >= KERNEL_BASE);
    }

    #[test]
    fn two_fabrics_never_share_a_network() {
        let (one, other) = (Network::reserve().unwrap(), Network::reserve().unwrap());
        assert_ne!(one.kernel_base, other.kernel_base);
        let taken = one.kernel_base;
        drop(one);
        assert!(Network::reserve().is_ok_and(|again| again.kernel_base <= taken || again.kernel_base != other.kernel_base));
    }
}
