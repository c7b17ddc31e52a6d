//! Lists of a host's sockets for its programs.

use super::option_bytes;
use crate::protocol::Caller;
use crate::rpc::host_calls::HostCalls;
use bytemuck::Zeroable;
use softband_ipc::calls::{Endpoint, SocketPlace, SocketRecord};
use softband_net::{Family, ListPlace, Listed, Protocol};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

/// States of UDP sockets: those of TCP that `/proc/net/udp` shows.
const ESTABLISHED: u32 = 1;
const CLOSED: u32 = 7;
const LISTENING: u32 = 10;

impl HostCalls<'_> {
    pub(crate) fn read_socket(&mut self, caller: Caller, at: &SocketPlace) -> Result<SocketRecord, i32> {
        let host = self.processes[caller.process].host();
        let kernels = self.kernels.as_ref().ok_or(libc::ENOENT)?;
        let after = if at.is_first != 0 { None } else { Some(place_of(at)?) };
        let (place, of) = kernels.stack(host).next_listed(after).ok_or(libc::ENOENT)?;
        let state = match of.state {
            Listed::Listening => LISTENING,
            Listed::Connection(state) => option_bytes::number_of(state).into(),
            Listed::Datagram if of.peer.is_some() => ESTABLISHED,
            Listed::Datagram => CLOSED,
        };
        let object = of.socket.and_then(|socket| kernels.object_of(host, socket));
        let mut record = SocketRecord {
            place: if let ListPlace::Socket(number) = place { number } else { SocketPlace::TIME_WAIT },
            protocol: if of.protocol == Protocol::Stream { libc::IPPROTO_TCP } else { libc::IPPROTO_UDP } as u32,
            family: if of.family == Family::V4 { libc::AF_INET } else { libc::AF_INET6 } as u32,
            state,
            // Object 0 does not exist, as inode 0 stands for a socket of no program.
            object: object.unwrap_or(0),
            local: of.local.into(),
            peer: of.peer.map_or(Endpoint::v4((0, 0)), Endpoint::from),
            unread: of.unread,
            unsent: of.unsent,
            drops: of.drops,
            device: of.device.map_or(0, |device| device.0 + 1),
            ..SocketRecord::zeroed()
        };
        if let Some(info) = of.info {
            let bytes = option_bytes::tcp_info(false, Some(&info));
            record.info_len = bytes.len() as u32;
            record.info[..bytes.len()].copy_from_slice(&bytes);
        }
        Ok(record)
    }
}

/// Returns the place that a program passes. Fails if it is none.
fn place_of(at: &SocketPlace) -> Result<ListPlace, i32> {
    if at.after != SocketPlace::TIME_WAIT {
        return Ok(ListPlace::Socket(at.after));
    }
    Ok(ListPlace::TimeWait(address(&at.local)?, address(&at.peer)?))
}

fn address(of: &Endpoint) -> Result<SocketAddr, i32> {
    let port = u16::try_from(of.port).map_err(|_| libc::EINVAL)?;
    Ok(match of.address() {
        IpAddr::V4(ip) => (ip, port).into(),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, of.scope).into(),
    })
}
