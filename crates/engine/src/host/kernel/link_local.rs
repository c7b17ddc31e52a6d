//! Link-local addresses that interfaces make from their hardware addresses.

use softband_net::InterfaceAddress;
use std::net::Ipv6Addr;

/// Bits of the prefix of link-local addresses (RFC 4291, 2.5.6).
const PREFIX: u8 = 64;
/// Bit of an interface identifier that marks a universal one (RFC 4291, appendix A).
const UNIVERSAL: u8 = 2;

/// Returns the address of an interface with this hardware address.
pub(super) fn of(hardware: &[u8]) -> Option<InterfaceAddress> {
    let identifier: [u8; 8] = match *hardware {
        [a, b, c, d, e, f] => [a ^ UNIVERSAL, b, c, 0xff, 0xfe, d, e, f],
        // RFC 4391, 8: the identifier comes from the GUID, the end of the GID.
        [.., a, b, c, d, e, f, g, h] if hardware.len() == 20 => [a | UNIVERSAL, b, c, d, e, f, g, h],
        _ => return None,
    };
    let number = 0xfe80_u128 << 112 | u128::from(u64::from_be_bytes(identifier));
    Some(InterfaceAddress { address: Ipv6Addr::from(number).into(), prefix: PREFIX })
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn an_address_follows_from_the_hardware() {
        let address = |hardware: &[u8]| of(hardware).map(|own| own.address.to_string());
        assert_eq!(address(&[2, 0, 198, 18, 0, 1]).as_deref(), Some("fe80::c6ff:fe12:1"));
        let mut infiniband = [0; 20];
        infiniband[12..].copy_from_slice(&[0, 2, 0xc9, 2, 0, 0, 0, 5]);
        assert_eq!(address(&infiniband).as_deref(), Some("fe80::202:c902:0:5"));
        assert_eq!(address(&[1; 8]), None);
    }
}
