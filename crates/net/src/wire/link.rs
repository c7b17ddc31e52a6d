//! Questions for link addresses: ARP, and neighbour discovery for IPv6.

use super::reader::{Reader, put_half};
use super::{DecodeError, ETHER_TYPE_IPV4, EncodeError, control};
use crate::frame::{LinkAddress, NeighbourMessage};
use std::net::{IpAddr, Ipv4Addr};

/// Hardware types with the length of their addresses: Ethernet, InfiniBand (RFC 4391, 9.1).
const HARDWARE: [(u16, usize); 2] = [(1, 6), (32, 20)];
const REQUEST: u16 = 1;
const ANSWER: u16 = 2;

/// Bytes of an IPv4 address.
const ADDRESS_BYTES: u8 = 4;

pub(super) fn encode(message: &NeighbourMessage, into: &mut Vec<u8>) -> Result<(), EncodeError> {
    let link = message.sender_link.as_slice();
    let hardware = HARDWARE.iter().find(|(_, len)| *len == link.len()).map(|(hardware, _)| hardware);
    if let (IpAddr::V6(sender), IpAddr::V6(target), true) = (message.sender, message.target, link.is_empty() && !message.is_request) {
        return control::encode_neighbour(message, (sender, target), into);
    }
    let hardware = hardware.ok_or(EncodeError::LinkAddress)?;
    match (message.sender, message.target) {
        (IpAddr::V4(sender), IpAddr::V4(target)) => encode_arp(message, *hardware, (sender, target), into),
        (IpAddr::V6(sender), IpAddr::V6(target)) => control::encode_neighbour(message, (sender, target), into),
        _ => Err(EncodeError::MixedFamilies),
    }
}

fn encode_arp(message: &NeighbourMessage, hardware: u16, (sender, target): (Ipv4Addr, Ipv4Addr), into: &mut Vec<u8>) -> Result<(), EncodeError> {
    let link = message.sender_link.as_slice();
    put_half(into, hardware);
    put_half(into, ETHER_TYPE_IPV4);
    into.extend_from_slice(&[link.len() as u8, ADDRESS_BYTES]);
    put_half(into, if message.is_request { REQUEST } else { ANSWER });
    into.extend_from_slice(link);
    into.extend_from_slice(&sender.octets());
    match &message.target_link {
        Some(target) if target.as_slice().len() == link.len() => into.extend_from_slice(target.as_slice()),
        Some(_) => return Err(EncodeError::LinkAddress),
        None => into.resize(into.len() + link.len(), 0),
    }
    into.extend_from_slice(&target.octets());
    Ok(())
}

pub(super) fn decode(bytes: &[u8]) -> Result<NeighbourMessage, DecodeError> {
    let mut read = Reader::new(bytes);
    let hardware = read.half()?;
    let (protocol, link_bytes, address_bytes) = (read.half()?, usize::from(read.byte()?), read.byte()?);
    if !HARDWARE.contains(&(hardware, link_bytes)) || (protocol, address_bytes) != (ETHER_TYPE_IPV4, ADDRESS_BYTES) {
        return Err(DecodeError::Unsupported);
    }
    let is_request = match read.half()? {
        REQUEST => true,
        ANSWER => false,
        _ => return Err(DecodeError::Unsupported),
    };
    let mut host = || -> Result<(LinkAddress, IpAddr), DecodeError> {
        let link = LinkAddress::new(read.take(link_bytes)?).ok_or(DecodeError::Length)?;
        Ok((link, read.v4()?.into()))
    };
    let ((sender_link, sender), (target_link, target)) = (host()?, host()?);
    let target_link = Some(target_link).filter(|link| link.as_slice().iter().any(|byte| *byte != 0));
    Ok(NeighbourMessage { is_request, sender, sender_link, target, target_link })
}
