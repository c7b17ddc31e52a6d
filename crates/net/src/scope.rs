//! Scopes of link-local addresses (RFC 4007). A host has one link-local prefix on several links. So
//! within the stack such an address holds the number of its interface, as in the KAME stack. Links
//! see the plain address, and programs see it with the number beside it (`sin6_scope_id`).

use crate::frame::{Frame, LinkDestination};
use crate::interface::InterfaceId;
use crate::packet::Body;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Place of the number in the address. The prefix fe80::/64 has zeros there.
const SEGMENT: usize = 1;

fn is_link_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

fn with_number(address: Ipv6Addr, number: u16) -> Ipv6Addr {
    let mut segments = address.segments();
    segments[SEGMENT] = number;
    segments.into()
}

/// Returns the number of an interface as programs know it.
fn number_of(interface: InterfaceId) -> u16 {
    (interface.0 + 1) as u16
}

/// Returns whether the address belongs to one link.
pub(crate) fn is_scoped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if is_link_local(address))
}

/// Returns the interface that a link-local address names.
pub(crate) fn interface_of(address: IpAddr) -> Option<InterfaceId> {
    match address {
        IpAddr::V6(address) if is_link_local(address) => address.segments()[SEGMENT].checked_sub(1).map(|index| InterfaceId(index.into())),
        _ => None,
    }
}

/// Returns whether the address is link-local and names no interface.
pub(crate) fn lacks_scope(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if is_link_local(address) && address.segments()[SEGMENT] == 0)
}

/// Returns an address of a link as the stack keeps it. Packets of `lo` have never left the stack.
pub(crate) fn on_link(address: IpAddr, interface: InterfaceId) -> IpAddr {
    match address {
        IpAddr::V6(address) if is_link_local(address) && interface != InterfaceId(0) => with_number(address, number_of(interface)).into(),
        other => other,
    }
}

/// Returns the address of a program as the stack keeps it.
pub(crate) fn of_program(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if is_link_local(*v6.ip()) => {
            // No host has so many interfaces, so that a larger number names none.
            let number = u16::try_from(v6.scope_id()).unwrap_or(u16::MAX);
            SocketAddr::new(with_number(*v6.ip(), number).into(), v6.port())
        }
        other => SocketAddr::new(other.ip(), other.port()),
    }
}

/// Returns the address as programs see it, with its scope.
pub(crate) fn shown(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if is_link_local(*v6.ip()) => {
            SocketAddrV6::new(with_number(*v6.ip(), 0), v6.port(), 0, v6.ip().segments()[SEGMENT].into()).into()
        }
        other => other,
    }
}

/// Returns the address without its scope, as links and programs see it.
pub fn plain(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) if is_link_local(address) => with_number(address, 0).into(),
        other => other,
    }
}

/// Changes all addresses of a frame.
pub(crate) fn change(frame: &mut Frame, new: impl Fn(IpAddr) -> IpAddr) {
    match frame {
        Frame::Packet(packet) => {
            (packet.source, packet.destination) = (new(packet.source), new(packet.destination));
            if let Body::Unreachable(unreachable) = &mut packet.body {
                unreachable.destination = new(unreachable.destination);
            }
        }
        Frame::Neighbour(message) => (message.sender, message.target) = (new(message.sender), new(message.target)),
    }
}

/// Returns a receiver as its link knows it.
pub(crate) fn plain_receiver(to: LinkDestination) -> LinkDestination {
    match to {
        LinkDestination::Host(address) => LinkDestination::Host(plain(address)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_local_address_holds_its_interface() {
        let (plain_one, global) = ("fe80::7".parse().unwrap(), "2001:db8::7".parse().unwrap());
        let kept = on_link(plain_one, InterfaceId(2));
        assert_eq!((kept, plain(kept)), ("fe80:3::7".parse().unwrap(), plain_one));
        assert_eq!((on_link(global, InterfaceId(2)), on_link(kept, InterfaceId(0))), (global, kept));
        let named = SocketAddr::from(SocketAddrV6::new("fe80::7".parse().unwrap(), 80, 0, 3));
        assert_eq!((of_program(named).ip(), shown(of_program(named))), (kept, named));
        let beyond = SocketAddr::from(SocketAddrV6::new("fe80::7".parse().unwrap(), 80, 0, 0x1_0003));
        assert_eq!(interface_of(of_program(beyond).ip()), Some(InterfaceId(0xfffe)), "no interface has this number");
        assert_eq!([kept, plain_one, global].map(interface_of), [Some(InterfaceId(2)), None, None]);
        assert!(lacks_scope(plain_one) && !lacks_scope(kept) && !lacks_scope(global));
    }
}
