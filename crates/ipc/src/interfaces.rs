//! The network interfaces of a host, which the engine and the library in programs both describe:
//! loopback, and one interface on the management network.

/// Name of the loopback interface.
pub const LOOPBACK_NAME: &str = "lo";
/// Name of the interface by which a host reaches the others.
pub const MANAGEMENT_NAME: &str = "eth0";
/// Bits of the management network's prefix.
pub const PREFIX: u8 = 16;

/// Flags of `if.h` in Linux.
pub mod flag {
    pub const UP: u32 = 0x1;
    pub const BROADCAST: u32 = 0x2;
    pub const LOOPBACK: u32 = 0x8;
    pub const RUNNING: u32 = 0x40;
    pub const MULTICAST: u32 = 0x1000;
    /// Carrier. It does not fit into the 16 bits of `SIOCGIFFLAGS`.
    pub const LOWER_UP: u32 = 0x1_0000;
}

/// Hardware types of `if_arp.h`.
pub mod hardware {
    pub const ETHERNET: u16 = 1;
    pub const LOOPBACK: u16 = 772;
}

/// A network interface as programs see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    pub name: &'static str,
    pub index: u32,
    /// IPv4 address as a big-endian number.
    pub address: u32,
    /// Bits of the network's prefix.
    pub prefix: u8,
    pub flags: u32,
    pub mtu: u32,
    /// MAC address.
    pub hardware_address: [u8; 6],
    /// One of [`hardware`].
    pub hardware: u16,
}

impl Interface {
    /// Returns the network mask as a big-endian number.
    pub fn mask(&self) -> u32 {
        u32::MAX << (32 - u32::from(self.prefix))
    }

    /// Returns the address of the network.
    pub fn network(&self) -> u32 {
        self.address & self.mask()
    }

    /// Returns the broadcast address, if the interface has one.
    pub fn broadcast(&self) -> Option<u32> {
        (self.flags & flag::BROADCAST != 0).then(|| self.address | !self.mask())
    }

    /// Returns the hardware address that reaches all stations.
    pub fn hardware_broadcast(&self) -> [u8; 6] {
        if self.hardware == hardware::LOOPBACK { [0; 6] } else { [0xff; 6] }
    }
}

/// Returns the interfaces of the host with this address, in the order of their numbers.
pub fn of_host(address: u32) -> [Interface; 2] {
    let up = flag::UP | flag::RUNNING | flag::LOWER_UP;
    let [a, b, c, d] = address.to_be_bytes();
    let loopback = Interface {
        name: LOOPBACK_NAME,
        index: 1,
        address: 0x7F00_0001,
        prefix: 8,
        flags: up | flag::LOOPBACK,
        mtu: 65_536,
        hardware_address: [0; 6],
        hardware: hardware::LOOPBACK,
    };
    let management = Interface {
        name: MANAGEMENT_NAME,
        index: 2,
        address,
        prefix: PREFIX,
        flags: up | flag::BROADCAST | flag::MULTICAST,
        mtu: 1_500,
        // A locally administered address (IEEE 802).
        hardware_address: [2, 0, a, b, c, d],
        hardware: hardware::ETHERNET,
    };
    [loopback, management]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_management_interface_has_the_address_of_the_host() {
        let [loopback, management] = of_host(0xC612_0002);
        assert_eq!((loopback.network(), loopback.broadcast()), (0x7F00_0000, None));
        assert_eq!((management.mask(), management.network(), management.broadcast()), (0xFFFF_0000, 0xC612_0000, Some(0xC612_FFFF)));
        assert_eq!(management.hardware_address, [2, 0, 198, 18, 0, 2]);
    }
}
