//! Wall pace with a modelled network (`--network modelled`): the engine stands between the sockets of
//! programs.
//!
//! Programs bind to hidden addresses of their host, and connect and send to public ones. The engine
//! listens at the public address while a program listens at the hidden one. It carries the bytes
//! over the model, and connects to the hidden address from an address that stands for the client.

use super::address::{self, Given};
use crate::clib::args::InOut;
use crate::clib::real;
use crate::runtime::world::fail;
use libc::{c_int, socklen_t};
use softband_client::{self as client, Errno};
use softband_ipc::calls::{RelaySocket, op};
use softband_ipc::layout::relay::{HIDDEN, PUBLIC, ROLES};

/// Returns whether the engine carries the sockets of the kernel over a modelled network.
pub fn is_relayed() -> bool {
    client::header().relayed != 0
}

fn in_role(role: u32, v4: u32) -> Option<u32> {
    let (header, index) = (client::header(), client::place_of(v4)?);
    Some(header.kernel_base.wrapping_add(role * header.relayed).wrapping_add(index as u32))
}

/// Returns the kernel's address to which programs connect and send.
pub fn public(v4: u32) -> Option<u32> {
    in_role(PUBLIC, v4)
}

/// Returns the kernel's address to which programs of the host bind.
pub fn hidden(v4: u32) -> Option<u32> {
    in_role(HIDDEN, v4)
}

/// Returns the address that programs see for one of the kernel.
pub fn shown(in_kernel: u32) -> Option<u32> {
    let header = client::header();
    let offset = in_kernel.checked_sub(header.kernel_base).filter(|offset| *offset < ROLES * header.relayed)?;
    client::place_at((offset % header.relayed) as usize).map(|entry| entry.address)
}

/// Returns whether an address is one of this host.
pub fn is_own(v4: u32) -> bool {
    host_of(v4).is_some_and(|host| Some(host) == host_of(client::header().host_address))
}

fn host_of(v4: u32) -> Option<u32> {
    client::place_at(client::place_of(v4)?).map(|entry| entry.host)
}

/// Returns the address of this host from which connections to `v4` come: the one in its subnet.
pub fn source_for(v4: u32) -> u32 {
    let own = client::header().host_address;
    let is_near = |address: u32, prefix: u32| (address ^ v4).checked_shr(32 - prefix.min(32)).unwrap_or(0) == 0;
    let host = host_of(own).unwrap_or(u32::MAX);
    client::places_of_host(host).find(|entry| is_near(entry.address, entry.prefix)).map_or(own, |entry| entry.address)
}

/// Tells the engine of a socket that listens, or of a datagram socket with its port.
pub fn announce(fd: c_int, backlog: Option<c_int>) -> c_int {
    let mut bytes = [0u8; address::SIZE_V6];
    let mut len = bytes.len() as socklen_t;
    // SAFETY: the buffer has the given length.
    let status = unsafe { real::getsockname(fd, bytes.as_mut_ptr().cast(), InOut::of(&mut len)) };
    let Some((address, port)) = Given::of(&bytes, len).read().filter(|(address, _)| status == 0 && shown(*address).is_some()) else {
        return 0; // beyond the fabric
    };
    let socket =
        RelaySocket { address, port: u32::from(port), datagram: u32::from(backlog.is_none()), backlog: backlog.unwrap_or_default().max(0) as u32 };
    match client::call::<op::RelaySocket>(&socket) {
        Ok(()) => 0,
        Err(Errno(errno)) => fail(errno),
    }
}
