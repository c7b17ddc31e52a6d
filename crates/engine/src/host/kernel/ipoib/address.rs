//! Addresses of IPoIB: 20 bytes of the link (RFC 4391, 9.1.1), and the broadcast group.

use softband_net::LinkAddress;
use softband_types::{Gid, PKey, QKey, Qpn};

/// Q_Key of IPoIB's groups as OpenSM creates them (`OSM_IPOIB_BROADCAST_MGRP_QKEY`).
pub(super) const BROADCAST_QKEY: QKey = QKey(0x0b1b);
/// Scope of the group: the subnet (RFC 4391, 4).
pub(super) const SCOPE: u8 = 2;

/// Flag of a host that takes reliable connections (RFC 4755, 4.1).
const CONNECTED: u8 = 0x80;

/// Returns the link address of a queue pair: flags, QPN and GID.
pub(super) fn link_address(qpn: Qpn, gid: Gid, is_connected: bool) -> Option<LinkAddress> {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&(qpn.0 & 0xFF_FFFF).to_be_bytes());
    bytes[0] = if is_connected { CONNECTED } else { 0 };
    bytes[4..].copy_from_slice(&gid.0);
    LinkAddress::new(&bytes)
}

/// Returns the queue pair and the port of a link address.
pub(super) fn parse(address: &LinkAddress) -> Option<(Qpn, Gid)> {
    let (qpn, gid) = address.as_slice().split_first_chunk::<4>()?;
    Some((Qpn(u32::from_be_bytes(*qpn) & 0xFF_FFFF), Gid(gid.try_into().ok()?)))
}

/// Returns whether the host of a link address takes reliable connections.
pub(super) fn is_connected(address: &LinkAddress) -> bool {
    address.as_slice().first().is_some_and(|flags| flags & CONNECTED != 0)
}

/// Returns the GID of the group of all hosts with IPv4 in a partition (RFC 4391, 4).
pub(super) fn broadcast_group(pkey: PKey) -> Gid {
    let mut gid = [0; 16];
    gid[..4].copy_from_slice(&[0xFF, 0x10 | SCOPE, 0x40, 0x1B]);
    // The members name the key of full membership.
    gid[4..6].copy_from_slice(&(pkey.0 | 0x8000).to_be_bytes());
    gid[12..].copy_from_slice(&[0xFF; 4]);
    Gid(gid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_broadcast_group_names_its_partition() {
        let expected = [0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
        assert_eq!(broadcast_group(PKey(0x7FFF)).0, expected);
    }

    #[test]
    fn a_link_address_has_a_queue_pair_and_a_port() {
        let address = link_address(Qpn(0x1234), Gid([9; 16]), true).expect("20 bytes");
        assert!(is_connected(&address));
        assert_eq!(parse(&address), Some((Qpn(0x1234), Gid([9; 16]))));
        assert_eq!(parse(&LinkAddress::new(&[0; 6]).expect("6 bytes")), None);
    }
}
