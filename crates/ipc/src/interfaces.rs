//! The network interfaces of a host, which the engine and the library in programs both describe:
//! loopback, and one interface on the management network. The engine describes others in simulated
//! time.

use crate::calls::{InterfaceAddress, InterfaceAddressV6, InterfaceRecord};
use bytemuck::Zeroable;
use std::net::Ipv6Addr;

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
    pub const INFINIBAND: u16 = 32;
    pub const LOOPBACK: u16 = 772;
}

/// Packets that an interface may queue, as Linux sets it for Ethernet.
pub const QUEUE_PACKETS: u32 = 1_000;

/// A network interface as programs see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub index: u32,
    pub addresses: Vec<Address>,
    pub addresses_v6: Vec<AddressV6>,
    pub flags: u32,
    pub mtu: u32,
    /// Packets that the interface may queue.
    pub queue_packets: u32,
    /// Address of the link layer: 6 bytes, and 20 of IPoIB (RFC 4391).
    pub hardware_address: Vec<u8>,
    /// Address of the link layer that reaches all stations.
    pub hardware_broadcast: Vec<u8>,
    /// One of [`hardware`].
    pub hardware: u16,
    /// Speed of the link in megabits a second, or 0 for none.
    pub speed_megabits: u32,
    /// Counts of packets, if the engine counts them.
    pub counters: Option<Counters>,
}

/// IPv4 address as a big-endian number, with its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub address: u32,
    /// Bits of the network's prefix.
    pub prefix: u8,
}

/// IPv6 address with its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressV6 {
    pub address: Ipv6Addr,
    /// Bits of the network's prefix.
    pub prefix: u8,
}

/// Packets and bytes of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub received_packets: u64,
    pub received_bytes: u64,
    pub received_dropped: u64,
    pub sent_packets: u64,
    pub sent_bytes: u64,
    pub sent_dropped: u64,
}

impl Address {
    /// Returns the network mask as a big-endian number.
    pub fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0)
    }

    /// Returns the address of the network.
    pub fn network(self) -> u32 {
        self.address & self.mask()
    }
}

impl AddressV6 {
    /// Returns the network mask.
    pub fn mask(self) -> Ipv6Addr {
        u128::MAX.checked_shl(128 - u32::from(self.prefix.min(128))).unwrap_or(0).into()
    }

    /// Returns the address of the network.
    pub fn network(self) -> Ipv6Addr {
        (u128::from(self.address) & u128::from(self.mask())).into()
    }

    /// Returns whether the address means something on its link alone (RFC 4291, 2.5.6).
    pub fn is_of_link(self) -> bool {
        self.address.segments()[0] & 0xffc0 == 0xfe80
    }
}

impl Interface {
    /// Returns whether the interface is `lo`.
    pub fn is_loopback(&self) -> bool {
        self.hardware == hardware::LOOPBACK
    }

    /// Returns the broadcast address of one of its networks, if the network has one (RFC 3021).
    pub fn broadcast(&self, of: Address) -> Option<u32> {
        (self.flags & flag::BROADCAST != 0 && of.prefix < 31).then(|| of.address | !of.mask())
    }
}

/// Returns the loopback interface of every host.
pub fn loopback() -> Interface {
    Interface {
        name: LOOPBACK_NAME.to_owned(),
        index: 1,
        addresses: vec![Address { address: 0x7F00_0001, prefix: 8 }],
        addresses_v6: Vec::new(),
        flags: flag::UP | flag::RUNNING | flag::LOWER_UP | flag::LOOPBACK,
        mtu: 65_536,
        queue_packets: QUEUE_PACKETS,
        hardware_address: vec![0; 6],
        hardware_broadcast: vec![0; 6],
        hardware: hardware::LOOPBACK,
        speed_megabits: 0,
        counters: None,
    }
}

/// Returns the interface on the management network of the host with this address there.
pub fn management(address: u32) -> Interface {
    let [a, b, c, d] = address.to_be_bytes();
    Interface {
        name: MANAGEMENT_NAME.to_owned(),
        index: 2,
        addresses: vec![Address { address, prefix: PREFIX }],
        addresses_v6: Vec::new(),
        flags: flag::UP | flag::RUNNING | flag::LOWER_UP | flag::BROADCAST | flag::MULTICAST,
        mtu: 1_500,
        queue_packets: QUEUE_PACKETS,
        // A locally administered address (IEEE 802).
        hardware_address: vec![2, 0, a, b, c, d],
        hardware_broadcast: vec![0xff; 6],
        hardware: hardware::ETHERNET,
        speed_megabits: 0,
        counters: None,
    }
}

/// Returns the interfaces of a host without modelled networks, by its address, in the order of
/// their numbers.
pub fn of_host(address: u32) -> Vec<Interface> {
    vec![loopback(), management(address)]
}

/// Returns the text of `/proc/net/dev` without its final newline.
pub fn device_table(interfaces: &[Interface]) -> String {
    let mut table = String::from(
        "Inter-|   Receive                                                |  Transmit\n \
         face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed",
    );
    for interface in interfaces {
        let count = interface.counters.unwrap_or_default();
        let received = format!("{} {} 0 {} 0 0 0 0", count.received_bytes, count.received_packets, count.received_dropped);
        let sent = format!("{} {} 0 {} 0 0 0 0", count.sent_bytes, count.sent_packets, count.sent_dropped);
        table += &format!("\n{:>6}: {received} {sent}", interface.name);
    }
    table
}

impl From<&Interface> for InterfaceRecord {
    fn from(of: &Interface) -> Self {
        let mut record = Self {
            index: of.index,
            flags: of.flags,
            mtu: of.mtu,
            queue_packets: of.queue_packets,
            speed_megabits: of.speed_megabits,
            ..Self::zeroed()
        };
        let put = |room: &mut [u8], bytes: &[u8]| room.iter_mut().zip(bytes).for_each(|(room, byte)| *room = *byte);
        put(&mut record.name, of.name.as_bytes());
        put(&mut record.hardware_address, &of.hardware_address);
        put(&mut record.hardware_broadcast, &of.hardware_broadcast);
        (record.hardware, record.hardware_len) = (of.hardware.into(), of.hardware_address.len() as u32);
        for (room, own) in record.addresses.iter_mut().zip(&of.addresses) {
            *room = InterfaceAddress { address: own.address, prefix: own.prefix.into() };
        }
        record.address_count = of.addresses.len().min(record.addresses.len()) as u32;
        for (room, own) in record.addresses_v6.iter_mut().zip(&of.addresses_v6) {
            *room = InterfaceAddressV6 { address: own.address.octets(), prefix: own.prefix.into() };
        }
        record.address_v6_count = of.addresses_v6.len().min(record.addresses_v6.len()) as u32;
        let counters = of.counters.unwrap_or_default();
        record.counts_packets = of.counters.is_some().into();
        (record.received_packets, record.received_bytes, record.received_dropped) =
            (counters.received_packets, counters.received_bytes, counters.received_dropped);
        (record.sent_packets, record.sent_bytes, record.sent_dropped) = (counters.sent_packets, counters.sent_bytes, counters.sent_dropped);
        record
    }
}

impl From<&InterfaceRecord> for Interface {
    fn from(of: &InterfaceRecord) -> Self {
        let name = of.name.split(|byte| *byte == 0).next().unwrap_or_default();
        let len = (of.hardware_len as usize).min(of.hardware_address.len());
        let addresses = of.addresses.iter().take(of.address_count as usize);
        let addresses_v6 = of.addresses_v6.iter().take(of.address_v6_count as usize);
        let counters = Counters {
            received_packets: of.received_packets,
            received_bytes: of.received_bytes,
            received_dropped: of.received_dropped,
            sent_packets: of.sent_packets,
            sent_bytes: of.sent_bytes,
            sent_dropped: of.sent_dropped,
        };
        Self {
            name: String::from_utf8_lossy(name).into_owned(),
            index: of.index,
            addresses: addresses.map(|own| Address { address: own.address, prefix: own.prefix.min(32) as u8 }).collect(),
            addresses_v6: addresses_v6.map(|own| AddressV6 { address: own.address.into(), prefix: own.prefix.min(128) as u8 }).collect(),
            flags: of.flags,
            mtu: of.mtu,
            queue_packets: of.queue_packets,
            hardware_address: of.hardware_address[..len].to_vec(),
            hardware_broadcast: of.hardware_broadcast[..len].to_vec(),
            hardware: of.hardware as u16,
            speed_megabits: of.speed_megabits,
            counters: (of.counts_packets != 0).then_some(counters),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_management_interface_has_the_address_of_the_host() {
        let all = of_host(0xC612_0002);
        let [loopback, management] = all.as_slice() else { panic!("two interfaces") };
        let (local, own) = (loopback.addresses[0], management.addresses[0]);
        assert_eq!((local.network(), loopback.broadcast(local)), (0x7F00_0000, None));
        assert_eq!((own.mask(), own.network(), management.broadcast(own)), (0xFFFF_0000, 0xC612_0000, Some(0xC612_FFFF)));
        assert_eq!(management.hardware_address, [2, 0, 198, 18, 0, 2]);
    }

    #[test]
    fn an_interface_crosses_as_a_record() {
        let ib0 = Interface {
            name: "ib0".to_owned(),
            addresses: vec![Address { address: 0x0A01_0001, prefix: 16 }, Address { address: 0x0A02_0001, prefix: 31 }],
            addresses_v6: vec![AddressV6 { address: Ipv6Addr::new(0xfe80, 0, 0, 0, 2, 3, 4, 5), prefix: 64 }],
            hardware_address: (0..20).collect(),
            hardware_broadcast: vec![0xff; 20],
            hardware: hardware::INFINIBAND,
            counters: Some(Counters { received_packets: 3, sent_bytes: 1 << 40, ..Counters::default() }),
            ..management(0)
        };
        assert_eq!(Interface::from(&InterfaceRecord::from(&ib0)), ib0);
        assert_eq!(ib0.broadcast(ib0.addresses[1]), None);
        assert_eq!(Interface::from(&InterfaceRecord::from(&loopback())), loopback());
    }
}
