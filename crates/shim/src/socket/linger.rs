//! `close` that waits for the peer (`SO_LINGER`). The placeholder keeps the option, so that a close
//! without it asks the engine nothing.

use super::modelled::is_modelled;
use super::open::socket_option;
use crate::fd::descriptors::wait_object;
use libc::{c_int, linger, socklen_t};
use softband_client as client;
use softband_client::fds::{Entry, Kind};
use softband_ipc::calls::{Object, op, readiness};

/// Makes a placeholder keep the option.
pub fn note(fd: c_int, value: linger) {
    let len = size_of::<linger>() as socklen_t;
    // SAFETY: the value has its own length.
    unsafe { kernel!(libc::SYS_setsockopt, fd, libc::SOL_SOCKET, libc::SO_LINGER, &raw const value, len) };
}

fn value_of(fd: c_int) -> Option<linger> {
    socket_option::<linger>(fd, libc::SO_LINGER).filter(|value| value.l_onoff != 0)
}

/// Gives a new connection the option of its listening socket.
pub fn inherit(from: c_int, new: c_int) {
    if let Some(value) = value_of(from).filter(|_| is_modelled()) {
        note(new, value);
    }
}

/// Waits until the peer of a socket that closes has all data, or the time of the option is over.
pub fn wait(fd: c_int, entry: Entry) {
    if entry.kind != Kind::StreamSocket || !is_modelled() || value_of(fd).is_none_or(|value| value.l_linger == 0) {
        return;
    }
    let socket = Object { object: entry.object, reserved: 0 };
    if client::call::<op::SocketLinger>(&socket).is_ok_and(|waits| waits.count != 0) {
        // A signal ends the wait, and `close` succeeds.
        let _ = wait_object(entry.object, readiness::DRAINED, u64::MAX);
    }
}
