//! Families and protocols of sockets that the fabric does not carry. Their sockets would belong to the
//! machine, outside the fabric. They fail as in a kernel without them.

use crate::runtime::world::walled;
use crate::socket::modelled::is_modelled;
use libc::{
    AF_ALG, AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, AF_UNSPEC, IPPROTO_ICMP, IPPROTO_ICMPV6, IPPROTO_TCP, IPPROTO_UDP, SOCK_DGRAM, SOCK_RAW,
    SOCK_STREAM, c_int,
};
use softband_client::warn;

/// Multipath TCP (linux/in.h). A kernel carries it as TCP if the peer does not know it.
pub const IPPROTO_MPTCP: c_int = 262;
const IPPROTO_L2TP: c_int = 115;
const SOCK_PACKET: c_int = 10;
const NETLINK_CRYPTO: c_int = 21;

/// Families by which programs reach a network, a guest or another machine.
const FAMILIES: [(c_int, &str); 11] = [
    (libc::AF_PACKET, "AF_PACKET (`softband capture` shows packets)"),
    (libc::AF_VSOCK, "AF_VSOCK"),
    (libc::AF_RDS, "AF_RDS"),
    (43, "AF_SMC"),
    (libc::AF_XDP, "AF_XDP"),
    (41, "AF_KCM"),
    (libc::AF_TIPC, "AF_TIPC"),
    (libc::AF_CAN, "AF_CAN"),
    (libc::AF_BLUETOOTH, "AF_BLUETOOTH"),
    (libc::AF_KEY, "AF_KEY"),
    (libc::AF_PPPOX, "AF_PPPOX"),
];
const PROTOCOLS: [(c_int, &str); 4] =
    [(libc::IPPROTO_SCTP, "SCTP"), (libc::IPPROTO_DCCP, "DCCP"), (libc::IPPROTO_UDPLITE, "UDP-Lite"), (IPPROTO_L2TP, "L2TP")];
/// Protocols of netlink that change or watch the machine's network.
const NETLINK: [(c_int, &str); 6] = [
    (libc::NETLINK_NETFILTER, "NETLINK_NETFILTER"),
    (libc::NETLINK_XFRM, "NETLINK_XFRM"),
    (libc::NETLINK_AUDIT, "NETLINK_AUDIT"),
    (libc::NETLINK_CONNECTOR, "NETLINK_CONNECTOR"),
    (libc::NETLINK_FIB_LOOKUP, "NETLINK_FIB_LOOKUP"),
    (libc::NETLINK_ISCSI, "NETLINK_ISCSI"),
];

/// Why a socket fails: the error, and the name of the missing part if a program needs to hear of it.
type Refusal = (c_int, Option<String>);

fn name_in(list: &[(c_int, &str)], number: c_int) -> Option<String> {
    list.iter().find(|(known, _)| *known == number).map(|(_, name)| (*name).to_owned())
}

/// Returns the error of a socket that the fabric does not carry, after a warning.
pub fn refusal(domain: c_int, kind: c_int, protocol: c_int) -> Option<c_int> {
    let (errno, name) = match domain {
        AF_UNSPEC | AF_UNIX | AF_ALG => return None,
        AF_INET | AF_INET6 => of_internet(domain, kind, protocol)?,
        AF_NETLINK => of_netlink(protocol)?,
        _ => (libc::EAFNOSUPPORT, name_in(&FAMILIES, domain)),
    };
    if let Some(name) = name {
        let error = match errno {
            libc::EPERM => "EPERM",
            libc::EACCES => "EACCES",
            libc::EAFNOSUPPORT => "EAFNOSUPPORT",
            libc::ESOCKTNOSUPPORT => "ESOCKTNOSUPPORT",
            _ => "EPROTONOSUPPORT",
        };
        warn::once(&format!("no host of a fabric has sockets of {name} ({error})"));
    }
    Some(errno)
}

fn of_internet(domain: c_int, kind: c_int, protocol: c_int) -> Option<Refusal> {
    let is_echo = protocol == if domain == AF_INET { IPPROTO_ICMP } else { IPPROTO_ICMPV6 };
    match (kind, protocol) {
        (SOCK_STREAM, 0 | IPPROTO_TCP | IPPROTO_MPTCP) | (SOCK_DGRAM, 0 | IPPROTO_UDP) => None,
        (SOCK_DGRAM, _) if is_echo && (walled() || is_modelled()) => None,
        // Linux answers so to users who may not send echoes (`ping_group_range`).
        (SOCK_DGRAM, _) if is_echo => Some((libc::EACCES, Some("ICMP without modelled interfaces".into()))),
        (SOCK_STREAM | SOCK_DGRAM, _) => Some((libc::EPROTONOSUPPORT, name_in(&PROTOCOLS, protocol))),
        (SOCK_RAW, _) => Some((libc::EPERM, Some("raw packets (SOCK_RAW)".into()))),
        (SOCK_PACKET, _) => Some((libc::EAFNOSUPPORT, name_in(&FAMILIES, libc::AF_PACKET))),
        _ => Some((libc::ESOCKTNOSUPPORT, name_in(&PROTOCOLS, protocol))),
    }
}

fn of_netlink(protocol: c_int) -> Option<Refusal> {
    match protocol {
        libc::NETLINK_ROUTE | libc::NETLINK_RDMA | libc::NETLINK_SOCK_DIAG => None,
        libc::NETLINK_KOBJECT_UEVENT | libc::NETLINK_USERSOCK | NETLINK_CRYPTO => None,
        // The kernel's families describe the machine. `ethtool` then asks by `ioctl`.
        libc::NETLINK_GENERIC => Some((libc::EPROTONOSUPPORT, None)),
        _ => Some((libc::EPROTONOSUPPORT, name_in(&NETLINK, protocol))),
    }
}
