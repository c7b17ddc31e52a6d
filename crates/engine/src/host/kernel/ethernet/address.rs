//! Addresses of Ethernet, and the addresses that stand for groups of IP.

use softband_net::{LinkAddress, LinkDestination};
use std::net::IpAddr;

/// Address of a port or of a group.
pub(super) type Mac = [u8; 6];

pub(super) const BROADCAST: Mac = [0xFF; 6];

/// Returns the Ethernet address of a group of IP.
pub(super) fn of_group(group: IpAddr) -> Mac {
    match group {
        IpAddr::V4(group) => {
            // RFC 1112, 6.4: the lowest 23 bits.
            let [_, high, middle, low] = group.octets();
            [0x01, 0x00, 0x5E, high & 0x7F, middle, low]
        }
        IpAddr::V6(group) => {
            // RFC 2464, 7: the lowest 32 bits.
            let [.., a, b, c, d] = group.octets();
            [0x33, 0x33, a, b, c, d]
        }
    }
}

/// Returns the address to which a frame goes. `None` if the link has no such receiver.
pub(super) fn of_destination(to: LinkDestination) -> Option<Mac> {
    match to {
        LinkDestination::Link(address) => of_link(&address),
        LinkDestination::Broadcast => Some(BROADCAST),
        LinkDestination::Group(group) => Some(of_group(group)),
        LinkDestination::Host(_) => None,
    }
}

fn of_link(address: &LinkAddress) -> Option<Mac> {
    address.as_slice().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn groups_have_addresses_of_their_own() {
        assert_eq!(of_group(Ipv4Addr::new(239, 200, 1, 2).into()), [1, 0, 0x5E, 0x48, 1, 2]);
        let solicited = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 1, 0xFF01, 0x0203);
        assert_eq!(of_destination(LinkDestination::Group(solicited.into())), Some([0x33, 0x33, 0xFF, 1, 2, 3]));
        let other = LinkAddress::new(&[0; 20]).expect("20 bytes");
        assert_eq!(of_destination(LinkDestination::Link(other)), None);
    }
}
