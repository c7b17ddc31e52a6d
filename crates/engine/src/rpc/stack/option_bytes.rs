//! Options of sockets as the bytes that `setsockopt` and `getsockopt` pass (socket(7), ip(7),
//! tcp(7)). Programs send them: this code checks all lengths.

use softband_model::parts::CongestionControl;
use softband_net::calls::{SocketOption, SourceChange};
use softband_net::{ConnectionInfo, OptionValues, State};
use softband_sim::SimDuration;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Interface as a program names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Any,
    /// Number of the interface.
    Index(u32),
    /// Address of the interface.
    Address(Ipv4Addr),
}

/// An option with its new value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Setting {
    Option(SocketOption),
    /// The name of an interface, empty for none.
    Device(String),
    MulticastInterface(Named),
    Membership {
        joins: bool,
        group: IpAddr,
        interface: Named,
    },
    Source {
        change: SourceChange,
        group: IpAddr,
        source: IpAddr,
        interface: Named,
    },
}

const PICOS_PER_SECOND: u64 = 1_000_000_000_000;
/// Length of `struct tcp_info` up to `tcpi_total_retrans`.
const TCP_INFO_BYTES: usize = 104;
/// Length of `TCP_CA_NAME_MAX`.
const CONGESTION_NAME_BYTES: usize = 16;
/// States of TCP that are no connection (`enum` in tcp_states.h).
const CLOSED: u8 = 7;
const LISTENING: u8 = 10;

fn word(bytes: &[u8]) -> Result<u32, i32> {
    bytes.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk)).ok_or(libc::EINVAL)
}

fn address(bytes: &[u8]) -> Result<Ipv4Addr, i32> {
    bytes.first_chunk::<4>().map(|chunk| Ipv4Addr::from(*chunk)).ok_or(libc::EINVAL)
}

/// Returns a span of seconds, or the longest span in place of a longer one. `SO_LINGER` takes it. The
/// stack refuses it for other options, as Linux does.
fn seconds(count: u32) -> SimDuration {
    SimDuration::from_picos(u64::from(count).saturating_mul(PICOS_PER_SECOND))
}

/// Reads a new value.
///
/// # Errors
/// `ENOPROTOOPT` if the stack has no such option, and the error of Linux for a value that it refuses.
pub(super) fn parse(level: i32, name: i32, bytes: &[u8]) -> Result<Setting, i32> {
    match level {
        libc::SOL_SOCKET => of_socket(name, bytes),
        libc::IPPROTO_TCP => of_tcp(name, bytes).map(Setting::Option),
        libc::IPPROTO_IP => of_ip(name, bytes),
        libc::IPPROTO_IPV6 => of_ipv6(name, bytes),
        _ => Err(libc::ENOPROTOOPT),
    }
}

fn of_socket(name: i32, bytes: &[u8]) -> Result<Setting, i32> {
    if name == libc::SO_BINDTODEVICE {
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        return Ok(Setting::Device(String::from_utf8_lossy(text).into_owned()));
    }
    let option = match name {
        libc::SO_REUSEADDR => SocketOption::ReuseAddress(word(bytes)? != 0),
        libc::SO_REUSEPORT => SocketOption::ReusePort(word(bytes)? != 0),
        libc::SO_SNDBUF | libc::SO_SNDBUFFORCE => SocketOption::SendBuffer(word(bytes)?),
        libc::SO_RCVBUF | libc::SO_RCVBUFFORCE => SocketOption::ReceiveBuffer(word(bytes)?),
        libc::SO_KEEPALIVE => SocketOption::KeepAlive(word(bytes)? != 0),
        libc::SO_OOBINLINE => SocketOption::UrgentInline(word(bytes)? != 0),
        libc::SO_BROADCAST => SocketOption::Broadcast(word(bytes)? != 0),
        libc::SO_LINGER => {
            let (is_on, time) = (word(bytes)? != 0, word(bytes.get(4..).unwrap_or_default())?);
            SocketOption::Linger(is_on.then(|| seconds(time)))
        }
        _ => return Err(libc::ENOPROTOOPT),
    };
    Ok(Setting::Option(option))
}

fn of_tcp(name: i32, bytes: &[u8]) -> Result<SocketOption, i32> {
    Ok(match name {
        libc::TCP_NODELAY => SocketOption::NoDelay(word(bytes)? != 0),
        libc::TCP_CORK => SocketOption::Cork(word(bytes)? != 0),
        libc::TCP_MAXSEG => SocketOption::SegmentMax(word(bytes)?),
        libc::TCP_KEEPIDLE => SocketOption::KeepAliveIdle(seconds(word(bytes)?)),
        libc::TCP_KEEPINTVL => SocketOption::KeepAliveInterval(seconds(word(bytes)?)),
        libc::TCP_KEEPCNT => SocketOption::KeepAliveProbes(word(bytes)?),
        libc::TCP_USER_TIMEOUT => {
            let millis = i32::try_from(word(bytes)?).map_err(|_| libc::EINVAL)?;
            SocketOption::UserTimeout(SimDuration::from_micros(u64::from(millis.unsigned_abs()) * 1_000))
        }
        libc::TCP_CONGESTION => SocketOption::Congestion(congestion(bytes)?),
        _ => return Err(libc::ENOPROTOOPT),
    })
}

fn congestion(bytes: &[u8]) -> Result<CongestionControl, i32> {
    if bytes.is_empty() {
        return Err(libc::EINVAL);
    }
    let name = bytes[..bytes.len().min(CONGESTION_NAME_BYTES)].split(|byte| *byte == 0).next().unwrap_or_default();
    let all = [CongestionControl::Reno, CongestionControl::Bic, CongestionControl::Cubic];
    all.into_iter().find(|control| congestion_name(*control).as_bytes() == name).ok_or(libc::ENOENT)
}

fn congestion_name(control: CongestionControl) -> &'static str {
    match control {
        CongestionControl::Reno => "reno",
        CongestionControl::Bic => "bic",
        CongestionControl::Cubic => "cubic",
    }
}

fn of_ip(name: i32, bytes: &[u8]) -> Result<Setting, i32> {
    Ok(match name {
        libc::IP_MULTICAST_LOOP => {
            // One byte is enough (ip(7)).
            Setting::Option(SocketOption::MulticastLoop(number(bytes)? != 0))
        }
        libc::IP_MULTICAST_ALL => Setting::Option(SocketOption::MulticastAll(flag(bytes)?)),
        libc::IP_MULTICAST_TTL => Setting::Option(SocketOption::MulticastHopLimit(multicast_hops(number(bytes)?)?)),
        libc::IP_TTL => match number(bytes)? {
            0 => return Err(libc::EINVAL),
            limit => Setting::Option(SocketOption::HopLimit(hops(limit)?)),
        },
        libc::IP_MULTICAST_IF => Setting::MulticastInterface(match bytes.len() {
            0..4 => return Err(libc::EINVAL),
            4..8 => named(address(bytes)?, 0),
            8..12 => named(address(&bytes[4..])?, 0),
            _ => named(address(&bytes[4..])?, word(&bytes[8..])?),
        }),
        libc::IP_ADD_MEMBERSHIP | libc::IP_DROP_MEMBERSHIP => {
            // `struct ip_mreq` ends before the number of `struct ip_mreqn`.
            let index = if bytes.len() < 12 { 0 } else { word(&bytes[8..])? };
            let interface = named(address(bytes.get(4..).unwrap_or_default())?, index);
            Setting::Membership { joins: name == libc::IP_ADD_MEMBERSHIP, group: address(bytes)?.into(), interface }
        }
        libc::IP_ADD_SOURCE_MEMBERSHIP | libc::IP_DROP_SOURCE_MEMBERSHIP | libc::IP_BLOCK_SOURCE | libc::IP_UNBLOCK_SOURCE => {
            // `struct ip_mreq_source`: group, interface, source.
            let place = |at: usize| address(bytes.get(at..).unwrap_or_default());
            let change = match name {
                libc::IP_ADD_SOURCE_MEMBERSHIP => SourceChange::Add,
                libc::IP_DROP_SOURCE_MEMBERSHIP => SourceChange::Drop,
                libc::IP_BLOCK_SOURCE => SourceChange::Block,
                _ => SourceChange::Unblock,
            };
            Setting::Source { change, group: place(0)?.into(), source: place(8)?.into(), interface: named(place(4)?, 0) }
        }
        _ => return group_request(name, bytes, libc::AF_INET),
    })
}

fn of_ipv6(name: i32, bytes: &[u8]) -> Result<Setting, i32> {
    Ok(match name {
        libc::IPV6_V6ONLY => Setting::Option(SocketOption::V6Only(flag(bytes)?)),
        libc::IPV6_UNICAST_HOPS => Setting::Option(SocketOption::HopLimit(hops(word(bytes)?.cast_signed())?)),
        libc::IPV6_MULTICAST_HOPS => Setting::Option(SocketOption::MulticastHopLimit(multicast_hops(word(bytes)?.cast_signed())?)),
        libc::IPV6_MULTICAST_LOOP => Setting::Option(SocketOption::MulticastLoop(flag(bytes)?)),
        libc::IPV6_MULTICAST_ALL => Setting::Option(SocketOption::MulticastAll(flag(bytes)?)),
        libc::IPV6_MULTICAST_IF => Setting::MulticastInterface(of_index(word(bytes)?)),
        libc::IPV6_ADD_MEMBERSHIP | libc::IPV6_DROP_MEMBERSHIP => {
            // `struct ipv6_mreq`: the group, then the number.
            let group = *bytes.first_chunk::<16>().ok_or(libc::EINVAL)?;
            let interface = of_index(word(&bytes[16..])?);
            Setting::Membership { joins: name == libc::IPV6_ADD_MEMBERSHIP, group: Ipv6Addr::from(group).into(), interface }
        }
        _ => return group_request(name, bytes, libc::AF_INET6),
    })
}

/// Reads a request that names groups by socket addresses (RFC 3678, 5).
fn group_request(name: i32, bytes: &[u8], family: i32) -> Result<Setting, i32> {
    // `struct group_req` and `struct group_source_req`: the number, then each a `struct
    // sockaddr_storage`.
    const ADDRESSES: [usize; 2] = [8, 136];
    let place = |at: usize| socket_address(bytes.get(at..).unwrap_or_default(), family);
    let change = match name {
        libc::MCAST_JOIN_GROUP | libc::MCAST_LEAVE_GROUP => {
            let (group, interface) = (place(ADDRESSES[0])?, of_index(word(bytes)?));
            return Ok(Setting::Membership { joins: name == libc::MCAST_JOIN_GROUP, group, interface });
        }
        libc::MCAST_JOIN_SOURCE_GROUP => SourceChange::Add,
        libc::MCAST_LEAVE_SOURCE_GROUP => SourceChange::Drop,
        libc::MCAST_BLOCK_SOURCE => SourceChange::Block,
        libc::MCAST_UNBLOCK_SOURCE => SourceChange::Unblock,
        _ => return Err(libc::ENOPROTOOPT),
    };
    Ok(Setting::Source { change, group: place(ADDRESSES[0])?, source: place(ADDRESSES[1])?, interface: of_index(word(bytes)?) })
}

/// Reads the IP address of a socket address of this family.
fn socket_address(bytes: &[u8], family: i32) -> Result<IpAddr, i32> {
    let is_it = bytes.first_chunk().is_some_and(|own| i32::from(u16::from_ne_bytes(*own)) == family);
    let of_v6 = || bytes.get(8..).and_then(|rest| rest.first_chunk::<16>()).map(|octets| Ipv6Addr::from(*octets).into());
    match family {
        _ if !is_it => Err(libc::EINVAL),
        libc::AF_INET6 => of_v6().ok_or(libc::EINVAL),
        _ => address(bytes.get(4..).unwrap_or_default()).map(IpAddr::from),
    }
}

fn flag(bytes: &[u8]) -> Result<bool, i32> {
    word(bytes).map(|value| value != 0)
}

/// Reads a number for which one byte is enough (ip(7)).
fn number(bytes: &[u8]) -> Result<i32, i32> {
    let first = bytes.first().ok_or(libc::EINVAL)?;
    Ok(word(bytes).map_or(i32::from(*first), u32::cast_signed))
}

/// Returns a hop limit, or `None` for the kernel's.
fn hops(value: i32) -> Result<Option<u8>, i32> {
    if value == -1 { Ok(None) } else { u8::try_from(value).map(Some).map_err(|_| libc::EINVAL) }
}

/// Returns the hop limit of datagrams to groups, which is 1 by default.
fn multicast_hops(value: i32) -> Result<u8, i32> {
    hops(value).map(|limit| limit.unwrap_or(1))
}

fn of_index(index: u32) -> Named {
    if index == 0 { Named::Any } else { Named::Index(index) }
}

fn named(address: Ipv4Addr, index: u32) -> Named {
    match index {
        0 if address.is_unspecified() => Named::Any,
        0 => Named::Address(address),
        index => Named::Index(index),
    }
}

/// Writes the value of an option. Returns `None` if the stack has no such option.
pub(super) fn encode(level: i32, name: i32, values: &OptionValues, info: Option<&ConnectionInfo>) -> Option<Vec<u8>> {
    let number = |value: u32| Some(value.to_ne_bytes().to_vec());
    let switch = |is_on: bool| number(u32::from(is_on));
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => switch(values.reuse_address),
        (libc::SOL_SOCKET, libc::SO_REUSEPORT) => switch(values.reuse_port),
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => number(values.send_buffer),
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => number(values.receive_buffer),
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => switch(values.listens),
        (libc::SOL_SOCKET, libc::SO_BROADCAST) => switch(values.may_broadcast),
        (libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP) | (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP) => switch(values.multicast_loop),
        (libc::IPPROTO_IP, libc::IP_MULTICAST_ALL) | (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_ALL) => switch(values.hears_all_groups),
        (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS) => number(values.multicast_hop_limit.into()),
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => number(values.hop_limit.into()),
        (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF) => number(values.multicast_interface.map_or(0, |interface| interface.0 + 1)),
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => switch(values.v6_only),
        (libc::IPPROTO_TCP, libc::TCP_INFO) => values.stream.map(|_| tcp_info(values.listens, info)),
        _ => of_stream(level, name, values),
    }
}

fn of_stream(level: i32, name: i32, values: &OptionValues) -> Option<Vec<u8>> {
    let stream = values.stream?;
    let whole_seconds = |span: SimDuration| (span.as_nanos() / 1_000_000_000) as u32;
    let number = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => stream.keep_alive.into(),
        (libc::SOL_SOCKET, libc::SO_OOBINLINE) => stream.urgent_inline.into(),
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            let words = [u32::from(stream.linger.is_some()), stream.linger.map_or(0, whole_seconds)];
            return Some(words.into_iter().flat_map(u32::to_ne_bytes).collect());
        }
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => stream.no_delay.into(),
        (libc::IPPROTO_TCP, libc::TCP_CORK) => stream.cork.into(),
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => stream.segment_bytes,
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => whole_seconds(stream.keepalive_idle),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => whole_seconds(stream.keepalive_interval),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => stream.keepalive_probes,
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => (stream.user_timeout.as_nanos() / 1_000_000) as u32,
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
            let mut name = congestion_name(stream.congestion).as_bytes().to_vec();
            name.resize(CONGESTION_NAME_BYTES, 0);
            return Some(name);
        }
        _ => return None,
    };
    Some(number.to_ne_bytes().to_vec())
}

/// Returns `struct tcp_info`. Fields that the stack does not count are zero.
pub(super) fn tcp_info(listens: bool, info: Option<&ConnectionInfo>) -> Vec<u8> {
    let mut bytes = vec![0; TCP_INFO_BYTES];
    bytes[0] = info.map_or(if listens { LISTENING } else { CLOSED }, |info| number_of(info.state));
    let Some(info) = info else { return bytes };
    let micros = |span: SimDuration| (span.as_nanos() / 1_000) as u32;
    // Offsets in `struct tcp_info` of linux/tcp.h.
    let fields = [
        (16, info.mss),
        (20, info.mss),
        (24, info.in_flight),
        (64, info.receive_buffer),
        (68, micros(info.rtt)),
        (76, info.threshold),
        (80, info.window),
        (84, info.mss),
        (88, 3),
        (96, info.receive_buffer),
        (100, u32::try_from(info.retransmissions).unwrap_or(u32::MAX)),
    ];
    for (offset, value) in fields {
        bytes[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
    }
    bytes
}

/// Returns the number of a state in tcp_states.h.
pub(super) fn number_of(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => CLOSED,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    }
}

#[cfg(test)]
mod tests;
