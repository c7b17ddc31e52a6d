//! Sockets of SDP: the family AF_INET_SDP, and streams that rules redirect as `libsdp` did.

pub mod rules;

use super::modelled::is_modelled;
use super::open::names;
use crate::clib::real;
use crate::runtime::world::{active, fail};
use libc::c_int;
use rules::{Role, Rules, Transport};
use softband_client::fds::{Entry, Kind};
use softband_client::{self as client, Errno, fds, warn};
use softband_ipc::calls::{Endpoint, Object, SocketAddress, SocketNew, datagram, op, transport};
use std::net::IpAddr;
use std::path::Path;
use std::sync::OnceLock;

/// Family of SDP in OFED. Linux has AF_IB under the same number, and no sockets of it.
/// As in OFED, its sockets take addresses of AF_INET, too.
pub const AF_INET_SDP: c_int = 27;
/// Variable of `libsdp` that redirects all streams, if it is not empty.
const SIMPLE: &str = "SIMPLE_LIBSDP";
/// Variable of `libsdp` with the name of the file of rules.
const FILE: &str = "LIBSDP_CONFIG_FILE";
/// File of rules if the variable is empty.
const DEFAULT_FILE: &str = "/etc/libsdp.conf";

/// Opens a socket of SDP.
pub fn open(kind: c_int, protocol: c_int) -> c_int {
    if !active() {
        warn::once("sockets of family AF_INET_SDP exist in simulated time only: use --pace virtual");
        return fail(libc::EAFNOSUPPORT);
    }
    if !matches!(protocol, 0 | libc::IPPROTO_TCP) {
        return fail(libc::EPROTONOSUPPORT);
    }
    // The kernel of the machine has no SDP. The placeholder has addresses of the same form.
    let fd = real::socket(libc::AF_INET, kind, 0);
    if fd < 0 {
        return fd;
    }
    match client::call::<op::SocketNew>(&SocketNew { datagram: SocketNew::SDP, family: libc::AF_INET as u32 }) {
        Ok(Object { object, .. }) => {
            fds::register(fd, Entry { kind: Kind::StreamSocket, object });
            fd
        }
        Err(Errno(errno)) => {
            real::close(fd);
            fail(errno)
        }
    }
}

/// Warns of rules that have no effect, when a program opens a stream.
pub fn note_stream() {
    if !is_modelled() && rules().is_some() {
        warn::once("streams use TCP: SDP needs an interface of kind \"ipoib\" in the fabric file");
    }
}

/// Warns of rules at wall pace, where the sockets are the machine's.
pub fn note_wall_stream() {
    if rules().is_some() {
        warn::once("streams use TCP: SDP exists in simulated time only (--pace virtual)");
    }
}

/// Returns the rules of the program's environment, if it has any.
fn rules() -> Option<&'static Rules> {
    static RULES: OnceLock<Option<Rules>> = OnceLock::new();
    RULES.get_or_init(load).as_ref()
}

fn load() -> Option<Rules> {
    if std::env::var_os(SIMPLE).is_some_and(|value| !value.is_empty()) {
        return Some(Rules::all(Transport::Sdp));
    }
    let given = std::env::var_os(FILE)?;
    let path = if given.is_empty() { Path::new(DEFAULT_FILE) } else { Path::new(&given) };
    let file = path.display();
    let parsed = std::fs::read(path)
        .map_err(|error| format!("{file}: {error}: streams use TCP; {FILE} names the file of rules"))
        .and_then(|bytes| Rules::parse(&String::from_utf8_lossy(&bytes)).map_err(|error| format!("{file}:{error}: streams use TCP")));
    parsed.map_err(|error| warn::always(&error)).ok()
}

/// Returns the flags by which a listening socket takes SDP.
pub fn of_server(object: u32) -> u32 {
    if !is_modelled() {
        return 0;
    }
    let Some(rules) = rules() else { return 0 };
    let local = names(object).map(|names| names.local).unwrap_or(Endpoint::v4((0, 0)));
    flags(rules, Role::Server, &local)
}

/// Returns the flags by which a connection uses SDP.
pub fn of_client(to: &SocketAddress) -> u32 {
    let Some(rules) = rules().filter(|_| to.flags & datagram::NO_ADDRESS == 0) else { return 0 };
    flags(rules, Role::Client, &to.at)
}

fn flags(rules: &Rules, role: Role, at: &Endpoint) -> u32 {
    let address = match at.address() {
        IpAddr::V4(address) => address,
        IpAddr::V6(address) if address.is_unspecified() => std::net::Ipv4Addr::UNSPECIFIED,
        // SDP has addresses of IPv4 alone.
        IpAddr::V6(_) => return 0,
    };
    match rules.transport(role, &program(), address, at.port as u16) {
        Transport::Tcp => 0,
        Transport::Sdp => transport::SDP,
        Transport::Both => transport::EITHER,
    }
}

/// Returns the name of the program without its folder.
fn program() -> String {
    let first = std::env::args_os().next().unwrap_or_default();
    Path::new(&first).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
