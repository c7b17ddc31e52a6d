//! Addresses of connection identifiers: IP address and port, as a `sockaddr` of the program has them.

use super::identifier::{SPACE_IB, SPACE_TCP, SPACE_UDP};
use softband_types::{Gid, PKey};

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
    /// Further fields of an address of `AF_IB`.
    ib: IbFields,
}

/// Fields of `struct sockaddr_ib` apart from the GID, which stands in place of an IP address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct IbFields {
    pkey: u16,
    flow_information: u32,
    service_id: u64,
    service_mask: u64,
    scope: u64,
}

impl IbFields {
    fn parse(bytes: &[u8; IB_BYTES]) -> Self {
        let word = |at: usize| u64::from_be_bytes(std::array::from_fn(|index| bytes[at + index]));
        Self {
            pkey: u16::from_be_bytes([bytes[2], bytes[3]]),
            flow_information: word(0) as u32,
            service_id: word(24),
            service_mask: word(32),
            scope: word(40),
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        bytes[2..4].copy_from_slice(&self.pkey.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.flow_information.to_be_bytes());
        for (at, word) in [(24, self.service_id), (32, self.service_mask), (40, self.scope)] {
            bytes[at..at + 8].copy_from_slice(&word.to_be_bytes());
        }
    }
}

impl Address {
    pub(crate) fn v4(ip: u32, port: u16) -> Self {
        let mut bytes = [0; 16];
        bytes[12..].copy_from_slice(&ip.to_be_bytes());
        Self { family: V4, ip: bytes, port, ib: IbFields::default() }
    }

    pub(super) fn v6(ip: [u8; 16], port: u16) -> Self {
        Self { family: V6, ip, port, ib: IbFields::default() }
    }

    /// Returns the address of a GID with this service.
    pub(super) fn ib(gid: Gid, pkey: PKey, service_id: u64) -> Self {
        let ib = IbFields { pkey: pkey.0, service_id, service_mask: u64::MAX, ..IbFields::default() };
        Self { family: IB, ip: gid.0, port: service_id as u16, ib }
    }

    /// Reads a `sockaddr`. Returns `None` for a family without a connection manager, as the kernel's
    /// `rdma_addr_size` does.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let family = u16::from_ne_bytes(bytes.first_chunk().copied()?);
        let port = u16::from_be_bytes(bytes.get(2..)?.first_chunk().copied()?);
        match family {
            V4 => Some(Self::v4(u32::from_be_bytes(bytes.get(4..)?.first_chunk().copied()?), port)),
            V6 => Some(Self::v6(bytes.get(8..)?.first_chunk().copied()?, port)),
            IB => {
                let ib = IbFields::parse(bytes.first_chunk()?);
                let port = (ib.service_id & ib.service_mask) as u16;
                Some(Self { family: IB, ip: bytes.get(8..)?.first_chunk().copied()?, port, ib })
            }
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
        if self.family == 0 || bytes.len() < self.size().max(V6_BYTES) {
            return;
        }
        bytes[..2].copy_from_slice(&self.family.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.port.to_be_bytes());
        match self.family {
            V4 => bytes[4..8].copy_from_slice(&self.ip[12..]),
            IB => {
                self.ib.emit(bytes);
                bytes[8..24].copy_from_slice(&self.ip);
            }
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

    /// Returns the address without an IP address, with the same family. A GID keeps its partition.
    pub(super) fn any_of_family(&self) -> Self {
        Self { family: self.family, ib: IbFields { pkey: self.ib.pkey, ..IbFields::default() }, ..Self::default() }
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

    /// Returns the GID of an address of `AF_IB`.
    pub(super) fn gid(&self) -> Option<Gid> {
        self.is_ib().then_some(Gid(self.ip))
    }

    /// Returns the partition key of an address of `AF_IB`.
    pub(super) fn pkey(&self) -> PKey {
        PKey(self.ib.pkey)
    }

    /// Returns the service ID of an address of `AF_IB`.
    pub(super) fn own_service_id(&self) -> Option<u64> {
        self.is_ib().then_some(self.ib.service_id)
    }

    /// Returns the port space that a service ID of `AF_IB` names for an identifier of `space`
    /// (`cma_select_ib_ps` of the kernel).
    pub(super) fn port_space(&self, space: u16) -> Option<u16> {
        const ABOVE_PORT: u64 = !0xFFFF;
        let mask = self.ib.service_mask & ABOVE_PORT;
        let named = |of: &u16| self.ib.service_id & mask == (u64::from(*of) << 16) & mask;
        let permitted = |of: &u16| space == *of || space == SPACE_IB && *of != SPACE_IB;
        [SPACE_IB, SPACE_TCP, SPACE_UDP].into_iter().filter(permitted).find(named)
    }

    /// Returns the same address with this GID.
    pub(super) fn with_gid(&self, gid: Gid) -> Self {
        Self { ip: gid.0, ..*self }
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

    /// Returns the same address with a port. `space` is its port space, for the service ID of `AF_IB`.
    pub(super) fn with_port(&self, space: u16, port: u16) -> Self {
        if self.is_ib() {
            let service_id = u64::from(space) << 16 | u64::from(port);
            let ib = IbFields { service_id, service_mask: u64::MAX, ..self.ib };
            return Self { port, ib, ..*self };
        }
        Self { port, ..*self }
    }

    pub(super) fn ip(&self) -> [u8; 16] {
        self.ip
    }
}

/// Header that the private data of a request begins with: version and source port, and both
/// addresses (IBTA annex A11).
pub(super) const HEADER_BYTES: usize = 36;

/// Returns the header of a request between two addresses. Requests between GIDs have none.
pub(super) fn header(source: &Address, destination: &Address) -> Vec<u8> {
    if source.is_ib() {
        return Vec::new();
    }
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[1] = if source.is_v6() { 6 } else { 4 } << 4;
    bytes[2..4].copy_from_slice(&source.port.to_be_bytes());
    bytes[4..20].copy_from_slice(&source.ip);
    bytes[20..].copy_from_slice(&destination.ip);
    bytes
}

/// Returns whether the header of a request states IP version 6.
pub(super) fn is_v6(bytes: &[u8]) -> bool {
    bytes.get(1).is_some_and(|version| version >> 4 == 6)
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
    let address = |ip, port| Address { family, ip, port, ib: IbFields::default() };
    Some((address(source, from), address(destination, port)))
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
    fn an_address_of_a_gid_has_all_its_fields() {
        let mut bytes = [0; STORAGE_BYTES];
        bytes[..IB_BYTES].copy_from_slice(&std::array::from_fn::<u8, IB_BYTES, _>(|index| index as u8));
        bytes[..2].copy_from_slice(&IB.to_ne_bytes());
        let address = Address::parse(&bytes).unwrap();
        let mut again = [0; STORAGE_BYTES];
        address.emit(&mut again);
        assert_eq!((again, address.pkey()), (bytes, PKey(0x0203)));
        assert_eq!(Address::parse(&bytes[..IB_BYTES - 1]), None);
    }

    #[test]
    fn a_service_id_names_a_port_space() {
        let of = |service_id, space| Address::ib(Gid::default(), PKey(0xFFFF), service_id).port_space(space);
        assert_eq!(of(0x0106_1D2F, SPACE_TCP), Some(SPACE_TCP));
        assert_eq!(of(0x0106_1D2F, SPACE_IB), Some(SPACE_TCP));
        assert_eq!(of(0x013F_0000, SPACE_IB), Some(SPACE_IB));
        assert_eq!((of(0x0106_0001, SPACE_UDP), of(0x9999_0001, SPACE_IB), of(1 << 40, SPACE_TCP)), (None, None, None));
        let unnamed = Address::parse(&[IB.to_ne_bytes().as_slice(), &[0; IB_BYTES]].concat()).unwrap();
        assert_eq!([SPACE_IB, SPACE_TCP, SPACE_UDP].map(|space| unnamed.port_space(space)), [Some(SPACE_IB), Some(SPACE_TCP), Some(SPACE_UDP)]);
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
