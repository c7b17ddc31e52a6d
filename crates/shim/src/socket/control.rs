//! Control messages (cmsg(3)). Those of an outgoing datagram wish a way, and those of a received
//! datagram state facts. The placeholder keeps the options that ask for facts (ip(7), ipv6(7)).

use super::address::LOOPBACK;
use super::interfaces;
use crate::clib::args::slice;
use crate::time::clock::shows;
use libc::{c_int, c_void, in_pktinfo, in6_pktinfo, msghdr, socklen_t, timespec};
use softband_client::Errno;
use softband_ipc::calls::{DatagramReceived, DatagramWish};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of `struct cmsghdr`: length, level and type.
const HEAD: usize = 16;
const LEN: usize = size_of::<usize>();
/// Most bytes of all control messages (`optmem_max` of Linux).
const BYTES_MAX: usize = 20_480;
/// Length of the datagrams into which the kernel cuts the bytes of a call (udp(7)).
pub const UDP_SEGMENT: c_int = 103;

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn word(bytes: &[u8], at: usize) -> Result<u32, Errno> {
    number(bytes, at).map(u32::from_ne_bytes).ok_or(Errno(libc::EINVAL))
}

/// Returns the way that the control messages of a message with `bytes` bytes wish. Fails with EINVAL if
/// they are malformed, and with EIO if they ask for several datagrams. Messages of other kinds wish
/// nothing.
///
/// # Safety
/// The control messages have the length that the message states.
pub unsafe fn wish(message: &msghdr, bytes: usize) -> Result<DatagramWish, Errno> {
    let len = if message.msg_control.is_null() { 0 } else { message.msg_controllen };
    if len > BYTES_MAX {
        return Err(Errno(libc::ENOBUFS));
    }
    // SAFETY: the message states this length.
    wish_of(unsafe { slice(message.msg_control.cast::<u8>(), len) }, bytes)
}

fn wish_of(mut rest: &[u8], bytes: usize) -> Result<DatagramWish, Errno> {
    let mut wish = DatagramWish { source: [0; 16], interface: 0, hop_limit: 0 };
    while rest.len() >= HEAD {
        let len = number(rest, 0).map_or(0, usize::from_ne_bytes);
        let body = rest.get(HEAD..len).ok_or(Errno(libc::EINVAL))?;
        match (word(rest, LEN)?.cast_signed(), word(rest, LEN + 4)?.cast_signed()) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                wish.interface = word(body, 0)?;
                let source: [u8; 4] = number(body, 4).ok_or(Errno(libc::EINVAL))?;
                wish.source = if source == [0; 4] { [0; 16] } else { Ipv4Addr::from(source).to_ipv6_mapped().octets() };
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                wish.source = number(body, 0).ok_or(Errno(libc::EINVAL))?;
                wish.interface = word(body, 16)?;
            }
            (libc::IPPROTO_IP, libc::IP_TTL) => {
                wish.hop_limit = word(body, 0)?;
                if !(1..=255).contains(&wish.hop_limit) {
                    return Err(Errno(libc::EINVAL));
                }
            }
            (libc::IPPROTO_UDP, UDP_SEGMENT) => {
                let segment = body.try_into().map(u16::from_ne_bytes).map_err(|_| Errno(libc::EINVAL))?;
                // Linux answers so at an interface without checksums. Programs then cut the bytes themselves.
                if segment != 0 && bytes > segment.into() {
                    return Err(Errno(libc::EIO));
                }
            }
            // Zero stands for the hop limit of the socket, as -1 does.
            (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => wish.hop_limit = u8::try_from(word(body, 0)?).unwrap_or(0).into(),
            _ => {}
        }
        rest = rest.get(len.next_multiple_of(LEN)..).unwrap_or_default();
    }
    Ok(wish)
}

/// Returns whether the program has set an option that the placeholder keeps.
fn asks_for(fd: c_int, level: c_int, name: c_int) -> bool {
    let (mut value, mut len): (c_int, socklen_t) = (0, size_of::<c_int>() as socklen_t);
    // SAFETY: the kernel writes at most `len` bytes to `value`.
    let status = unsafe { kernel!(libc::SYS_getsockopt, fd, level, name, &raw mut value, &raw mut len) };
    status == 0 && value != 0
}

/// Writes the facts for which the program asked behind a message. Returns the bytes, and the flags of
/// the message (`MSG_CTRUNC`).
///
/// # Safety
/// `room` is null or has room for `len` bytes.
pub unsafe fn put(fd: c_int, family: c_int, of: &DatagramReceived, room: *mut c_void, len: usize) -> (usize, c_int) {
    if room.is_null() || len == 0 || of.interface == 0 {
        return (0, 0);
    }
    let arrived = shows(libc::CLOCK_REALTIME, of.at);
    let all = facts(family, of, arrived, |level, name| asks_for(fd, level, name));
    let (mut at, mut is_cut) = (0, false);
    for (level, kind, value) in all {
        let size = HEAD + value.len();
        if at + size > len {
            is_cut = true;
            break;
        }
        let mut bytes = size.to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        // SAFETY: the room has `size` bytes at `at`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), room.cast::<u8>().add(at), size) };
        at = (at + size.next_multiple_of(LEN)).min(len);
    }
    (at, if is_cut { libc::MSG_CTRUNC } else { 0 })
}

/// A control message: level, type, value.
type Fact = (c_int, c_int, Vec<u8>);

/// Returns the facts about a datagram for which `asks` returns true. It came when the clock of the host
/// showed `arrived`.
fn facts(family: c_int, of: &DatagramReceived, arrived: timespec, asks: impl Fn(c_int, c_int) -> bool) -> Vec<Fact> {
    use libc::{IPPROTO_IP, IPPROTO_IPV6};
    let to = Ipv6Addr::from(of.to);
    let mut all = Vec::new();
    // `SCM_TIMESTAMP` and `SCM_TIMESTAMPNS` have the numbers of the options. Linux keeps one of both.
    for (name, nanos) in [(libc::SO_TIMESTAMP, 1_000), (libc::SO_TIMESTAMPNS, 1)] {
        if asks(libc::SOL_SOCKET, name) {
            let time = [arrived.tv_sec, arrived.tv_nsec / nanos].map(i64::to_ne_bytes).concat();
            all.push((libc::SOL_SOCKET, name, time));
        }
    }
    if let IpAddr::V4(v4) = to.to_canonical() {
        if asks(IPPROTO_IP, libc::IP_PKTINFO) {
            let octets = [own_address(v4, of.interface).octets(), v4.octets()].concat();
            all.push((IPPROTO_IP, libc::IP_PKTINFO, [of.interface.to_ne_bytes().as_slice(), &octets].concat()));
        }
        if asks(IPPROTO_IP, libc::IP_RECVTTL) {
            all.push((IPPROTO_IP, libc::IP_TTL, of.hop_limit.to_ne_bytes().to_vec()));
        }
        if asks(IPPROTO_IP, libc::IP_RECVTOS) {
            all.push((IPPROTO_IP, libc::IP_TOS, vec![0]));
        }
    }
    if family == libc::AF_INET6 && asks(IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) {
        all.push((IPPROTO_IPV6, libc::IPV6_PKTINFO, [of.to.as_slice(), &of.interface.to_ne_bytes()].concat()));
    }
    if family == libc::AF_INET6 && to.to_ipv4_mapped().is_none() {
        if asks(IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT) {
            all.push((IPPROTO_IPV6, libc::IPV6_HOPLIMIT, of.hop_limit.to_ne_bytes().to_vec()));
        }
        if asks(IPPROTO_IPV6, libc::IPV6_RECVTCLASS) {
            all.push((IPPROTO_IPV6, libc::IPV6_TCLASS, vec![0; 4]));
        }
    }
    all
}

/// Returns the address of the host under which it received a datagram (`ipi_spec_dst`).
fn own_address(to: Ipv4Addr, interface: u32) -> Ipv4Addr {
    if !to.is_multicast() && !to.is_broadcast() {
        return to;
    }
    let found = interfaces::of_index(interface).and_then(|interface| interface.addresses.first().map(|own| own.address));
    Ipv4Addr::from(found.unwrap_or(LOOPBACK))
}

const _: () = assert!(size_of::<in_pktinfo>() == 12 && size_of::<in6_pktinfo>() == 20);

#[cfg(test)]
mod tests {
    use super::*;
    use softband_ipc::calls::Endpoint;

    fn message(level: c_int, kind: c_int, value: &[u8]) -> Vec<u8> {
        let mut bytes = (HEAD + value.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(LEN), 0);
        bytes
    }

    #[test]
    fn messages_wish_a_way() {
        let first = message(libc::IPPROTO_IP, libc::IP_PKTINFO, &[3, 0, 0, 0, 10, 0, 0, 1, 0, 0, 0, 0]);
        let second = message(libc::IPPROTO_IP, libc::IP_TTL, &9_u32.to_ne_bytes());
        let wish_of = |bytes: &[u8]| wish_of(bytes, 0);
        let wish = wish_of(&[first.clone(), second].concat()).unwrap();
        assert_eq!((wish.interface, wish.hop_limit, Ipv6Addr::from(wish.source)), (3, 9, "::ffff:10.0.0.1".parse().unwrap()));
        let bad = message(libc::IPPROTO_IP, libc::IP_TTL, &0_u32.to_ne_bytes());
        assert!(wish_of(&bad).is_err() && wish_of(&first[..20]).is_err() && wish_of(&[0xff; 16]).is_err());
        assert_eq!(wish_of(&[0; 7]).unwrap().interface, 0);
    }

    #[test]
    fn a_message_never_becomes_several_datagrams() {
        let segments = message(libc::IPPROTO_UDP, UDP_SEGMENT, &1_200_u16.to_ne_bytes());
        assert_eq!(wish_of(&segments, 1_201).map(|_| ()), Err(Errno(libc::EIO)));
        assert!(wish_of(&segments, 1_200).is_ok());
        let long = message(libc::IPPROTO_UDP, UDP_SEGMENT, &1_200_u32.to_ne_bytes());
        assert_eq!(wish_of(&long, 1).map(|_| ()), Err(Errno(libc::EINVAL)));
    }

    #[test]
    fn a_program_gets_the_facts_for_which_it_asks() {
        let to = Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().octets();
        let of = DatagramReceived { len: 0, whole: 0, from: Endpoint::v4((0, 0)), to, interface: 2, hop_limit: 64, at: 0 };
        let arrived = timespec { tv_sec: 7, tv_nsec: 2_003 };
        let asked = facts(libc::AF_INET, &of, arrived, |_, name| name == libc::IP_PKTINFO);
        assert_eq!(asked, [(libc::IPPROTO_IP, libc::IP_PKTINFO, vec![2, 0, 0, 0, 10, 0, 0, 1, 10, 0, 0, 1])]);
        for (name, rest) in [(libc::SO_TIMESTAMP, 2), (libc::SO_TIMESTAMPNS, 2_003)] {
            let asked = facts(libc::AF_INET, &of, arrived, |_, asked| asked == name);
            assert_eq!(asked, [(libc::SOL_SOCKET, name, [7_i64, rest].map(i64::to_ne_bytes).concat())]);
        }
        let v6 = DatagramReceived { to: [9; 16], ..of };
        let kinds: Vec<c_int> =
            facts(libc::AF_INET6, &v6, arrived, |level, _| level == libc::IPPROTO_IPV6).into_iter().map(|(_, kind, _)| kind).collect();
        assert_eq!(kinds, [libc::IPV6_PKTINFO, libc::IPV6_HOPLIMIT, libc::IPV6_TCLASS]);
    }
}
