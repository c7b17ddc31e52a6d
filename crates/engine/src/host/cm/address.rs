//! Addresses of connection identifiers: IP address and port, as a `sockaddr` of the program has them.

/// `AF_INET` and `AF_INET6`.
const V4: u16 = 2;
const V6: u16 = 10;
/// `AF_IB`.
pub(super) const IB: u16 = 27;
/// Bytes of `struct sockaddr_in6` and of `struct __kernel_sockaddr_storage`.
pub(super) const V6_BYTES: usize = 28;
pub(super) const STORAGE_BYTES: usize = 128;
const V4_BYTES: usize = 16;
pub(super) const IB_BYTES: usize = 48;
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF];

/// An address with its port. The family 0 is no address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address {
    family: u16,
    /// IPv4 in the last four bytes.
    ip: [u8; 16],
    pub(super) port: u16,
}

impl Address {
    pub(crate) fn v4(ip: u32, port: u16) -> Self {
        let mut bytes = [0; 16];
        bytes[12..].copy_from_slice(&ip.to_be_bytes());
        Self { family: V4, ip: bytes, port }
    }

    pub(super) fn v6(ip: [u8; 16], port: u16) -> Self {
        Self { family: V6, ip, port }
    }

    /// Reads a `sockaddr`. Returns `None` for a family without a connection manager, as the kernel's
    /// `rdma_addr_size` does.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let family = u16::from_ne_bytes(bytes.first_chunk().copied()?);
        let port = u16::from_be_bytes(bytes.get(2..)?.first_chunk().copied()?);
        match family {
            V4 => Some(Self::v4(u32::from_be_bytes(bytes.get(4..)?.first_chunk().copied()?), port)),
            V6 => Some(Self::v6(bytes.get(8..)?.first_chunk().copied()?, port)),
            IB => Some(Self { family: IB, ip: bytes.get(8..)?.first_chunk().copied()?, port: 0 }),
            _ => None,
        }
    }

    /// Returns the bytes of the `sockaddr` of this family.
    pub(super) fn size(&self) -> usize {
        match self.family {
            V4 => V4_BYTES,
            V6 => V6_BYTES,
            IB => IB_BYTES,
            _ => 0,
        }
    }

    /// Writes the `sockaddr` to the front of `bytes`.
    pub(super) fn emit(&self, bytes: &mut [u8]) {
        if self.family == 0 || bytes.len() < V6_BYTES {
            return;
        }
        bytes[..2].copy_from_slice(&self.family.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.port.to_be_bytes());
        match self.family {
            V4 => bytes[4..8].copy_from_slice(&self.ip[12..]),
            _ => bytes[8..24].copy_from_slice(&self.ip),
        }
    }

    pub(super) fn is_none(&self) -> bool {
        self.family == 0
    }

    pub(super) fn is_ib(&self) -> bool {
        self.family == IB
    }

    pub(super) fn is_v6(&self) -> bool {
        self.family == V6
    }

    pub(super) fn has_family_of(&self, other: &Self) -> bool {
        self.family == other.family
    }

    /// Returns the address without an IP address, with the same family.
    pub(super) fn any_of_family(&self) -> Self {
        Self { family: self.family, ..Self::default() }
    }

    /// Returns whether the address names no network of its own: none, or the loopback address. The
    /// kernel's `cma_any_addr` treats both alike.
    pub(super) fn is_any(&self) -> bool {
        let is_loopback = match self.family {
            V4 => self.ip[12] == 127,
            _ => self.ip == 1u128.to_be_bytes(),
        };
        self.ip == [0; 16] || is_loopback
    }

    /// Returns whether the address is that of a multicast group.
    pub(super) fn is_multicast(&self) -> bool {
        self.ipv4().map_or(self.ip[0] == 0xFF, |ip| ip >> 28 == 0xE)
    }

    /// Returns the IPv4 address that the address stands for.
    pub(super) fn ipv4(&self) -> Option<u32> {
        let last = u32::from_be_bytes([self.ip[12], self.ip[13], self.ip[14], self.ip[15]]);
        (self.family == V4 || self.family == V6 && self.ip[..12] == MAPPED).then_some(last)
    }

    /// Returns the same family with the IPv4 address, and with the port.
    pub(super) fn with_ipv4(&self, ip: u32) -> Self {
        if self.family == V6 {
            let mut bytes = [0; 16];
            bytes[..12].copy_from_slice(&MAPPED);
            bytes[12..].copy_from_slice(&ip.to_be_bytes());
            return Self::v6(bytes, self.port);
        }
        Self::v4(ip, self.port)
    }

    pub(super) fn with_port(&self, port: u16) -> Self {
        Self { port, ..*self }
    }

    pub(super) fn ip(&self) -> [u8; 16] {
        self.ip
    }
}

/// Header that the private data of a request begins with: version and source port, and both
/// addresses (IBTA annex A11).
pub(super) const HEADER_BYTES: usize = 36;

/// Returns the header of a request between two addresses.
pub(super) fn header(source: &Address, destination: &Address) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[1] = if source.is_v6() { 6 } else { 4 } << 4;
    bytes[2..4].copy_from_slice(&source.port.to_be_bytes());
    bytes[4..20].copy_from_slice(&source.ip);
    bytes[20..].copy_from_slice(&destination.ip);
    bytes
}

/// Reads the header of a request to `port`. Returns its source and its destination.
pub(super) fn read_header(bytes: &[u8], port: u16) -> Option<(Address, Address)> {
    let from = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
    let [source, destination]: [[u8; 16]; 2] = [bytes.get(4..20)?.try_into().ok()?, bytes.get(20..HEADER_BYTES)?.try_into().ok()?];
    let family = match bytes[1] >> 4 {
        4 => V4,
        6 => V6,
        _ => return None,
    };
    Some((Address { family, ip: source, port: from }, Address { family, ip: destination, port }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sockaddr_comes_back_as_it_went() {
        let address = Address::v4(0xC612_0002, 7471);
        let mut bytes = [0; STORAGE_BYTES];
        address.emit(&mut bytes);
        assert_eq!(bytes[..8], [2, 0, 0x1d, 0x2f, 198, 18, 0, 2]);
        assert_eq!(Address::parse(&bytes), Some(address));
        assert_eq!(Address::parse(&[1, 0, 0, 0]), None);
        assert_eq!(Address::parse(&[2, 0]), None);
    }

    #[test]
    fn any_and_loopback_name_no_network() {
        assert!(Address::v4(0, 1).is_any());
        assert!(Address::v4(0x7F00_0001, 1).is_any());
        assert!(Address::v6([0; 16], 1).is_any());
        assert!(!Address::v4(0xC612_0001, 1).is_any());
        assert_eq!(Address::v6([0; 16], 5).with_ipv4(0xC612_0001).ipv4(), Some(0xC612_0001));
    }

    #[test]
    fn the_header_of_a_request_has_both_addresses() {
        let (from, to) = (Address::v4(0xC612_0001, 32_768), Address::v4(0xC612_0002, 7471));
        let bytes = header(&from, &to);
        assert_eq!(bytes[..4], [0, 0x40, 0x80, 0]);
        assert_eq!(read_header(&bytes, 7471), Some((from, to)));
        assert_eq!(read_header(&[0; HEADER_BYTES], 1), None, "no version");
        assert_eq!(read_header(&bytes[..35], 1), None);
    }
}
