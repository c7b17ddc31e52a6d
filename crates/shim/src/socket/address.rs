//! Socket addresses. The management network has only IPv4; IPv6 sockets reach it through mapped
//! addresses.

use crate::clib::args::{InOut, slice};
use crate::clib::real;
use crate::runtime::attach::attached;
use crate::runtime::world::{active, walled};
use crate::socket::modelled::is_modelled;
use crate::socket::sdp::AF_INET_SDP;
use libc::{c_int, in_addr, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};
use softband_client::{self as client, Errno};
use softband_ipc::calls::{Endpoint, Name, SocketAddress, datagram, op};
use std::marker::PhantomData;
use std::net::Ipv4Addr;

pub const LOOPBACK: u32 = 0x7f00_0001;
const SIZE_V4: usize = size_of::<sockaddr_in>();
pub const SIZE_V6: usize = size_of::<sockaddr_in6>();
/// Most bytes of an address of any family.
const SIZE_MAX: usize = size_of::<sockaddr_storage>();

/// A socket address that a caller passes with its length.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    at: *const sockaddr,
    len: socklen_t,
    bytes: PhantomData<&'a [u8]>,
}

impl<'a> Given<'a> {
    /// Takes an address of a caller.
    ///
    /// # Safety
    /// `at` is null or has `len` bytes, which live for `'a`.
    pub unsafe fn new(at: *const sockaddr, len: socklen_t) -> Self {
        Self { at, len, bytes: PhantomData }
    }

    /// Takes the address of a message. As in the kernel, bytes beyond the longest address do not count.
    ///
    /// # Safety
    /// `at` has `len` bytes, which live for `'a`.
    pub unsafe fn of_message(at: *const sockaddr, len: socklen_t) -> Self {
        let len = if len.cast_signed() < 0 { len } else { len.min(SIZE_MAX as socklen_t) };
        // SAFETY: the address has at least these bytes.
        unsafe { Self::new(at, len) }
    }

    /// Takes the address in the first `len` bytes of a buffer.
    pub fn of(bytes: &'a [u8], len: socklen_t) -> Self {
        Self { at: bytes.as_ptr().cast(), len: len.min(bytes.len() as socklen_t), bytes: PhantomData }
    }

    pub fn as_ptr(self) -> *const sockaddr {
        self.at
    }

    pub fn len(self) -> socklen_t {
        self.len
    }

    pub fn is_empty(self) -> bool {
        self.bytes().is_empty()
    }

    /// Returns the bytes of the address: none if no address has this length.
    fn bytes(self) -> &'a [u8] {
        let len = self.len as usize;
        // SAFETY: the address has its length, unless it is null.
        unsafe { slice(self.at.cast(), if len > SIZE_MAX { 0 } else { len }) }
    }

    /// Fails as the kernel does with an address that it does not read: EINVAL, EFAULT. Fails with
    /// EAFNOSUPPORT for an address of SDP on a network without it.
    pub fn check(self) -> Result<(), Errno> {
        if self.len as usize > SIZE_MAX {
            return Err(Errno(libc::EINVAL));
        }
        if self.at.is_null() && self.len > 0 {
            return Err(Errno(libc::EFAULT));
        }
        if self.family() == AF_INET_SDP && !is_modelled() { Err(Errno(libc::EAFNOSUPPORT)) } else { Ok(()) }
    }

    /// Returns the address family, or 0 if the address is too short for it.
    pub fn family(self) -> c_int {
        self.bytes().first_chunk().map_or(0, |family| c_int::from(u16::from_ne_bytes(*family)))
    }

    /// Returns whether the address has all bytes of its family.
    pub fn is_whole(self) -> bool {
        self.bytes().len() >= if self.family() == libc::AF_INET6 { SIZE_V6 - 4 } else { SIZE_V4 }
    }

    /// Returns the flag of [`datagram`] for the family of the address.
    pub fn family_flag(self) -> u32 {
        match self.family() {
            libc::AF_INET6 => datagram::IS_V6,
            AF_INET_SDP => datagram::IS_SDP,
            _ => 0,
        }
    }

    /// Reads an address for the engine. Fails as the kernel does with an address that is too short or
    /// of another family.
    pub fn endpoint(self) -> Result<Endpoint, Errno> {
        self.check()?;
        let bytes = self.bytes();
        if !self.is_whole() {
            return Err(Errno(libc::EINVAL));
        }
        let port = u32::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        match (self.family(), bytes[4..].first_chunk(), bytes.get(8..24).and_then(<[u8]>::first_chunk)) {
            // Addresses of SDP are of IPv4. The engine takes them for sockets of SDP alone, as OFED does.
            (libc::AF_INET | AF_INET_SDP, Some(v4), _) => {
                let v4 = of_sockets(u32::from_be_bytes(*v4));
                Ok(Endpoint { ip: Ipv4Addr::from(v4).to_ipv6_mapped().octets(), port, scope: 0 })
            }
            (libc::AF_INET6, _, Some(v6)) => {
                let scope = bytes.get(24..).and_then(<[u8]>::first_chunk).map_or(0, |scope| u32::from_ne_bytes(*scope));
                Ok(Endpoint { ip: *v6, port, scope })
            }
            _ => Err(Errno(libc::EAFNOSUPPORT)),
        }
    }

    /// Returns the request of `connect` to the engine. An address without a family asks for no peer.
    /// Fails as [`Self::endpoint`] does.
    pub fn peer(self, object: u32) -> Result<SocketAddress, Errno> {
        if self.family() == libc::AF_UNSPEC && !self.is_empty() {
            return Ok(SocketAddress { object, flags: datagram::NO_ADDRESS, at: Endpoint::v4((0, 0)) });
        }
        Ok(SocketAddress { object, flags: self.family_flag(), at: self.endpoint()? })
    }

    /// Reads an IPv4 address (as a big-endian number) and a port. Returns `None` if the address
    /// does not represent an IPv4 address.
    pub fn read(self) -> Option<(u32, u16)> {
        let bytes = self.bytes();
        if bytes.len() < SIZE_V4 {
            return None;
        }
        // The port and the address of both families are big-endian (ip(7), ipv6(7)).
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        match self.family() {
            libc::AF_INET => Some((of_sockets(u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])), port)),
            // The scope is the last field and may be missing (RFC 2133 had none).
            libc::AF_INET6 if bytes.len() >= SIZE_V6 - 4 => to_v4(*bytes[8..].first_chunk()?).map(|v4| (of_sockets(v4), port)),
            _ => None,
        }
    }
}

/// Network of the addresses of Ethernet ports with RDMA, 10.77.0.0/16.
const RDMA_NETWORK: u32 = 0x0A4D;

/// Returns the address by which sockets reach the host of an Ethernet port's address. Returns any
/// other address as it is.
fn of_sockets(v4: u32) -> u32 {
    if v4 >> 16 != RDMA_NETWORK || !attached() || client::header().has_rdma_addresses == 0 || !(active() || walled()) {
        return v4;
    }
    let text = Ipv4Addr::from(v4).to_string();
    let mut request = Name { len: text.len() as u32, bytes: [0; 256] };
    request.bytes[..text.len()].copy_from_slice(text.as_bytes());
    client::call::<op::Resolve>(&request).map_or(v4, |reply| if reply.address == 0 { v4 } else { reply.address })
}

/// Calls the C library's `bind`.
pub fn bind_natively(fd: c_int, at: Given) -> c_int {
    // SAFETY: the kernel reads the bytes of the address, and refuses null.
    unsafe { real::bind(fd, at.at, at.len) }
}

/// Calls the C library's `connect`.
pub fn connect_natively(fd: c_int, to: Given) -> c_int {
    // SAFETY: the length that goes to the kernel is that of the address.
    unsafe { real::connect(fd, to.at, to.len) }
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

/// Writes an address in the form of a socket of `family`, truncated to the available room. Sets
/// `len` to the whole length in bytes. Fails as the kernel does: with `EFAULT` for null, unless
/// there is no room, and with `EINVAL` for a negative length.
///
/// # Safety
/// `out` is null or has room for `*len` bytes.
pub unsafe fn write(family: c_int, at: &Endpoint, out: *mut sockaddr, len: InOut<socklen_t>) -> Result<(), Errno> {
    let room = len.get().ok_or(Errno(libc::EFAULT))?;
    let room = usize::try_from(room.cast_signed()).map_err(|_| Errno(libc::EINVAL))?;
    let (whole, size) = encode(family, at);
    if room > 0 && out.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    if room > 0 {
        // SAFETY: `out` has room for `room` bytes; the array is longer than `size`.
        unsafe { std::ptr::copy_nonoverlapping(whole.as_ptr(), out.cast::<u8>(), size.min(room)) };
    }
    len.set(size as socklen_t);
    Ok(())
}

/// Returns an address in the form of a socket of `family`, and its length in bytes.
pub fn encode(family: c_int, at: &Endpoint) -> ([u8; SIZE_V6], usize) {
    let mut whole = [0; SIZE_V6];
    whole[2..4].copy_from_slice(&(at.port as u16).to_be_bytes());
    if family == libc::AF_INET6 {
        whole[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        whole[8..24].copy_from_slice(&at.ip);
        whole[24..].copy_from_slice(&at.scope.to_ne_bytes());
        (whole, SIZE_V6)
    } else {
        whole[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        whole[4..8].copy_from_slice(&at.ip[12..]);
        (whole, SIZE_V4)
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
        unsafe { write(family, &Endpoint::v4((v4, port)), buffer.as_mut_ptr().cast(), InOut::of(&mut len)) }.unwrap();
        Given::of(&buffer, len).read()
    }

    #[test]
    fn addresses_survive_both_families() {
        for family in [libc::AF_INET, libc::AF_INET6] {
            assert_eq!(round_trip(family, 0x7f4d_0001, 18_515), Some((0x7f4d_0001, 18_515)));
            assert_eq!(round_trip(family, 0, 80), Some((0, 80)));
        }
    }

    #[test]
    fn addresses_are_encoded_as_the_c_library_declares_them() {
        let (bytes, len) = encode(libc::AF_INET6, &Endpoint::v4((0x7f4d_0001, 18_515)));
        // SAFETY: the bytes are those of a `sockaddr_in6`, which consists of numbers.
        let inet6: sockaddr_in6 = unsafe { bytes.as_ptr().cast::<sockaddr_in6>().read_unaligned() };
        assert_eq!((len, c_int::from(inet6.sin6_family), u16::from_be(inet6.sin6_port)), (SIZE_V6, libc::AF_INET6, 18_515));
        assert_eq!(to_v4(inet6.sin6_addr.s6_addr), Some(0x7f4d_0001));
        let (bytes, len) = encode(libc::AF_INET, &Endpoint::v4((0x7f4d_0001, 18_515)));
        // SAFETY: the first bytes are those of a `sockaddr_in`.
        let inet4: sockaddr_in = unsafe { bytes.as_ptr().cast::<sockaddr_in>().read_unaligned() };
        let expected = inet(0x7f4d_0001, 18_515);
        assert_eq!((len, inet4.sin_family, inet4.sin_port), (SIZE_V4, expected.sin_family, expected.sin_port));
        assert_eq!(inet4.sin_addr.s_addr, expected.sin_addr.s_addr);
    }

    #[test]
    fn an_address_of_ipv6_keeps_its_scope() {
        let at = Endpoint { ip: "fe80::7".parse::<std::net::Ipv6Addr>().unwrap().octets(), port: 80, scope: 3 };
        let (bytes, len) = encode(libc::AF_INET6, &at);
        let given = Given::of(&bytes, len as socklen_t);
        assert_eq!((given.endpoint(), given.family_flag(), given.read()), (Ok(at), datagram::IS_V6, None));
        assert_eq!(Given::of(&bytes, 24).endpoint(), Ok(Endpoint { scope: 0, ..at }));
        assert_eq!(Given::of(&bytes, 20).endpoint(), Err(Errno(libc::EINVAL)));
    }

    #[test]
    fn no_address_has_a_negative_length() {
        let (bytes, _) = encode(libc::AF_INET, &Endpoint::v4((1, 2)));
        // SAFETY: the length says that there are no bytes to read.
        let given = unsafe { Given::new(bytes.as_ptr().cast(), u32::MAX) };
        assert_eq!((given.endpoint(), given.peer(1).err(), given.read()), (Err(Errno(libc::EINVAL)), Some(Errno(libc::EINVAL)), None));
        // SAFETY: null is allowed.
        assert_eq!(unsafe { Given::new(std::ptr::null(), 16) }.endpoint(), Err(Errno(libc::EFAULT)));
    }

    #[test]
    fn an_address_of_sdp_keeps_its_family() {
        let mut bytes = encode(libc::AF_INET, &Endpoint::v4((1, 2))).0;
        bytes[0] = AF_INET_SDP as u8;
        let given = Given::of(&bytes, SIZE_V4 as socklen_t);
        assert_eq!((given.family_flag(), given.is_whole(), given.read()), (datagram::IS_SDP, true, None));
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
        unsafe { write(libc::AF_INET, &Endpoint::v4((1, 2)), buffer.as_mut_ptr().cast(), InOut::of(&mut len)) }.unwrap();
        assert_eq!((len, buffer), (16, [2, 0, 0xaa, 0xaa]));
    }

    #[test]
    fn null_is_refused_unless_there_is_no_room() {
        let answer = |len: InOut<socklen_t>| {
            // SAFETY: null is allowed.
            unsafe { write(libc::AF_INET, &Endpoint::v4((1, 2)), std::ptr::null_mut(), len) }
        };
        let (mut none, mut some, mut negative) = (0, 16, u32::MAX);
        assert_eq!(answer(InOut::of(&mut none)), Ok(()));
        assert_eq!(none, 16);
        assert_eq!(answer(InOut::of(&mut some)), Err(Errno(libc::EFAULT)));
        assert_eq!(answer(InOut::of(&mut negative)), Err(Errno(libc::EINVAL)));
        assert_eq!(answer(InOut::NULL), Err(Errno(libc::EFAULT)));
    }
}
