//! Sockets on a modelled network: the TCP/IP of the host has options, urgent data and counts that
//! the management network lacks.

use super::names;
use super::open::stream;
use crate::clib::args::{InOut, Out};
use crate::process::pid;
use crate::runtime::world::fail;
use crate::time::pace;
use libc::{c_int, c_ulong, c_void, socklen_t};
use softband_client::fds::{Entry, Kind};
use softband_client::{self as client, Errno, warn};
use softband_ipc::calls::{SocketOption, SocketSetting, op, socket_option};

/// Most bytes of an option's value.
const VALUE_BYTES_MAX: usize = 4_096;

/// Returns whether the TCP/IP of the host carries the sockets of this program.
pub fn is_modelled() -> bool {
    client::header().has_modelled_network != 0
}

/// Pays for a call on a socket, unless the host's kernel has its own price.
pub fn pay_for_call() {
    if !is_modelled() {
        pace::pay_for_call();
    }
}

fn setting(object: u32, (level, name): (c_int, c_int), len: usize, is_set: bool) -> SocketSetting {
    SocketSetting { object, level: level.cast_unsigned(), name: name.cast_unsigned(), len: len as u32, set: u32::from(is_set), reserved: 0 }
}

/// Sets an option. Returns `None` if the placeholder of the socket keeps it.
///
/// # Safety
/// `value` is null or has `len` bytes.
pub unsafe fn set(object: u32, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> Option<c_int> {
    let Ok(len) = usize::try_from(len.cast_signed()) else { return Some(fail(libc::EINVAL)) };
    if value.is_null() && len > 0 {
        return Some(fail(libc::EFAULT));
    }
    // SAFETY: the caller's value has `len` bytes.
    let bytes = unsafe { crate::clib::args::slice(value.cast::<u8>(), len.min(VALUE_BYTES_MAX)) };
    match client::call_with_tail::<op::SocketSetting>(&setting(object, (level, name), bytes.len(), true), bytes, &mut []) {
        // The placeholder keeps this option, too (`socket::linger`).
        Ok(_) if (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) => None,
        Ok(_) => Some(0),
        Err(Errno(SocketSetting::REFUSED)) => Some(fail(libc::ENOPROTOOPT)),
        Err(Errno(libc::ENOPROTOOPT)) => None,
        Err(Errno(errno)) => Some(fail(errno)),
    }
}

/// Reads an option. Returns `None` if the placeholder of the socket keeps it.
///
/// # Safety
/// `value` is null or has room for `*len` bytes.
pub unsafe fn get(object: u32, level: c_int, name: c_int, value: *mut c_void, len: InOut<socklen_t>) -> Option<c_int> {
    let mut answer = [0u8; VALUE_BYTES_MAX];
    let request = setting(object, (level, name), answer.len(), false);
    match client::call_with_tail::<op::SocketSetting>(&request, &[], &mut answer) {
        // SAFETY: the room is the caller's.
        Ok((_, count)) => Some(unsafe { names::put_value(&answer[..count.min(VALUE_BYTES_MAX)], value, len) }),
        Err(Errno(libc::ENOPROTOOPT)) => None,
        Err(Errno(errno)) => Some(fail(errno)),
    }
}

/// Carries out a request about the bytes of a socket. Returns `None` for any other request.
///
/// # Safety
/// The argument has the type of the request.
pub unsafe fn control(entry: Option<Entry>, request: c_ulong, argument: usize) -> Option<c_int> {
    /// `SIOCATMARK` of asm-generic/sockios.h.
    const AT_MARK: c_ulong = 0x8905;
    let entry = entry.filter(|entry| is_modelled() && matches!(entry.kind, Kind::StreamSocket | Kind::DatagramSocket))?;
    let name = match request {
        libc::FIONREAD => socket_option::UNREAD,
        libc::TIOCOUTQ => socket_option::UNSENT,
        AT_MARK => socket_option::AT_MARK,
        _ => return None,
    };
    let question = SocketOption { object: entry.object, name, value: 0, set: 0 };
    Some(match client::call::<op::SocketOption>(&question) {
        Ok(answer) => {
            // SAFETY: all three requests take the address of an `int`.
            unsafe { Out::from_raw(argument as *mut c_int) }.set(answer.value as c_int);
            0
        }
        Err(Errno(errno)) => fail(errno),
    })
}

/// Lets urgent data of a socket raise SIGURG in this process, if the program makes it the owner.
pub fn note_owner(fd: c_int, owner: libc::pid_t) {
    let Some(object) = stream(fd).filter(|_| is_modelled()) else { return };
    let is_own = owner != 0 && owner.unsigned_abs() == pid::own_number().unsigned_abs();
    if owner != 0 && !is_own {
        warn::once("urgent data raises SIGURG in the process that calls F_SETOWN alone in simulated time");
    }
    // The call fails for a socket that has gone, which raises no signals.
    let _ = client::call::<op::SocketOption>(&SocketOption { object, name: socket_option::OWNER, value: u32::from(is_own), set: 1 });
}
