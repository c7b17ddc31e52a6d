//! Socket addresses. The fabric has only IPv4; IPv6 sockets reach it through mapped addresses.

use libc::{c_int, in_addr, in6_addr, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

pub const LOOPBACK: u32 = 0x7f00_0001;
const SIZE_V4: usize = size_of::<sockaddr_in>();
const SIZE_V6: usize = size_of::<sockaddr_in6>();

/// Reads an IPv4 address (as a big-endian number) and a port from a socket address. Returns `None`
/// if the address does not represent an IPv4 address.
///
/// # Safety
/// `address` is null or points at `len` bytes.
pub unsafe fn read(address: *const sockaddr, len: socklen_t) -> Option<(u32, u16)> {
    if address.is_null() || (len as usize) < SIZE_V4 {
        return None;
    }
    match c_int::from(address.cast::<u16>().read_unaligned()) {
        libc::AF_INET => {
            let inet = address.cast::<sockaddr_in>().read_unaligned();
            Some((u32::from_be(inet.sin_addr.s_addr), u16::from_be(inet.sin_port)))
        }
        libc::AF_INET6 if len as usize >= SIZE_V6 - 4 => {
            // The scope is the last field and may be missing (RFC 2133 had none).
            let mut bytes = [0u8; SIZE_V6];
            std::ptr::copy_nonoverlapping(address.cast::<u8>(), bytes.as_mut_ptr(), SIZE_V6.min(len as usize));
            let inet6: sockaddr_in6 = bytes.as_ptr().cast::<sockaddr_in6>().read_unaligned();
            to_v4(inet6.sin6_addr.s6_addr).map(|v4| (v4, u16::from_be(inet6.sin6_port)))
        }
        _ => None,
    }
}

/// Returns the IPv4 address that an IPv6 address represents: mapped, unspecified or loopback.
pub fn to_v4(bytes: [u8; 16]) -> Option<u32> {
    let last = u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
    match bytes[..12] {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff] => Some(last),
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] if last == 0 => Some(0),
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] if last == 1 => Some(LOOPBACK),
        _ => None,
    }
}

fn to_v6(v4: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    if v4 != 0 {
        bytes[10..12].fill(0xff);
        bytes[12..].copy_from_slice(&v4.to_be_bytes());
    }
    bytes
}

/// Writes an address in the form of a socket of `family`, truncated to the available room. Sets
/// `len` to the whole length in bytes.
///
/// # Safety
/// `out` and `len` are null or valid, and `out` has room for `*len` bytes.
pub unsafe fn write(family: c_int, v4: u32, port: u16, out: *mut sockaddr, len: *mut socklen_t) {
    if out.is_null() || len.is_null() {
        return;
    }
    let room = *len as usize;
    if family == libc::AF_INET6 {
        let whole = sockaddr_in6 {
            sin6_family: libc::AF_INET6 as u16,
            sin6_port: port.to_be(),
            sin6_flowinfo: 0,
            sin6_addr: in6_addr { s6_addr: to_v6(v4) },
            sin6_scope_id: 0,
        };
        std::ptr::copy_nonoverlapping((&raw const whole).cast::<u8>(), out.cast::<u8>(), room.min(SIZE_V6));
        *len = SIZE_V6 as socklen_t;
    } else {
        let whole = inet(v4, port);
        std::ptr::copy_nonoverlapping((&raw const whole).cast::<u8>(), out.cast::<u8>(), room.min(SIZE_V4));
        *len = SIZE_V4 as socklen_t;
    }
}

/// Returns a `sockaddr_in`.
pub fn inet(v4: u32, port: u16) -> sockaddr_in {
    sockaddr_in { sin_family: libc::AF_INET as u16, sin_port: port.to_be(), sin_addr: in_addr { s_addr: v4.to_be() }, sin_zero: [0; 8] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(family: c_int, v4: u32, port: u16) -> Option<(u32, u16)> {
        let mut buffer = [0u8; 64];
        let mut len = buffer.len() as socklen_t;
        // SAFETY: the buffer has `len` bytes.
        unsafe {
            write(family, v4, port, buffer.as_mut_ptr().cast(), &raw mut len);
            read(buffer.as_ptr().cast(), len)
        }
    }

    #[test]
    fn addresses_survive_both_families() {
        for family in [libc::AF_INET, libc::AF_INET6] {
            assert_eq!(round_trip(family, 0x7f4d_0001, 18_515), Some((0x7f4d_0001, 18_515)));
            assert_eq!(round_trip(family, 0, 80), Some((0, 80)));
        }
    }

    #[test]
    fn only_mapped_loopback_and_unspecified_ipv6_mean_an_ipv4_address() {
        let mut bytes = [0; 16];
        assert_eq!(to_v4(bytes), Some(0));
        bytes[15] = 1;
        assert_eq!(to_v4(bytes), Some(LOOPBACK));
        bytes[0] = 0xfe;
        assert_eq!(to_v4(bytes), None);
    }

    #[test]
    fn a_short_buffer_gets_a_part_and_the_whole_length() {
        let mut buffer = [0xaau8; 4];
        let mut len = 2;
        // SAFETY: the buffer has room for `len` bytes.
        unsafe { write(libc::AF_INET, 1, 2, buffer.as_mut_ptr().cast(), &raw mut len) };
        assert_eq!((len, buffer), (16, [2, 0, 0xaa, 0xaa]));
    }
}
