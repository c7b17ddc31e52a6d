//! The names of the host: `gethostname`, `uname`, `getdomainname`, and their changes. Each host of a
//! fabric has its own; other hosts find it by the name of the fabric file.

use crate::clib::args::{InOut, slice};
use crate::clib::buffers::Writable;
use crate::clib::real;
use crate::fd::own_values::{self, DOMAIN_NAME, HOST_NAME};
use crate::runtime::attach::attached;
use crate::runtime::world::{fail, keeping_errno};
use crate::socket::resolver::named;
use libc::{c_char, c_int, size_t, utsname};
use softband_client as client;

/// Longest name (`__NEW_UTS_LEN`).
const LEN_MAX: usize = 64;

/// Returns a name that a program of this host has set, or the engine at the start of the host.
fn own_value(path: &[u8]) -> Option<Vec<u8>> {
    let mut name = keeping_errno(|| own_values::get(path))?;
    let end = name.iter().position(|byte| matches!(byte, b'\n' | 0)).unwrap_or(name.len());
    name.truncate(end.min(LEN_MAX));
    Some(name)
}

/// Returns the name of this host in the fabric file.
fn name_in_file() -> &'static [u8] {
    let name = &client::header().host_name;
    &name[..name.iter().position(|byte| *byte == 0).unwrap_or(name.len())]
}

/// Returns the name of this host.
fn own_name() -> Vec<u8> {
    own_value(HOST_NAME).unwrap_or_else(|| name_in_file().to_vec())
}

/// Implements `gethostname`.
///
/// # Safety
/// `out` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostname(out: *mut c_char, len: size_t) -> c_int {
    if !named() || name_in_file().is_empty() {
        // SAFETY: the C library writes at most `len` bytes.
        return unsafe { real::gethostname(out, len) };
    }
    let name = own_name();
    if name.len() >= len {
        return fail(libc::ENAMETOOLONG);
    }
    // SAFETY: the caller's room is `len` bytes long.
    unsafe { Writable::new(out.cast(), len) }.put_text_at(0, &name);
    0
}

/// Gives this host a name, as the kernel gives it to the machine.
///
/// # Safety
/// `name` has `len` bytes.
unsafe fn set(path: &[u8], name: *const c_char, len: size_t) -> c_int {
    if !rustix::process::geteuid().is_root() {
        return fail(libc::EPERM);
    }
    if len > LEN_MAX {
        return fail(libc::EINVAL);
    }
    if name.is_null() && len > 0 {
        return fail(libc::EFAULT);
    }
    // SAFETY: the name has `len` bytes.
    let text = unsafe { slice(name.cast::<u8>(), len) };
    match keeping_errno(|| own_values::set(path, text)) {
        Ok(()) => 0,
        Err(_) => fail(libc::EPERM),
    }
}

/// Implements `sethostname`. The machine keeps its own name.
///
/// # Safety
/// `name` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sethostname(name: *const c_char, len: size_t) -> c_int {
    if attached() {
        // SAFETY: the name is the caller's.
        return unsafe { set(HOST_NAME, name, len) };
    }
    // SAFETY: the kernel reads `len` bytes.
    unsafe { kernel!(libc::SYS_sethostname, name, len) as c_int }
}

/// Implements `setdomainname`. The machine keeps its own name.
///
/// # Safety
/// `name` has `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setdomainname(name: *const c_char, len: size_t) -> c_int {
    if attached() {
        // SAFETY: the caller passes the name with its length.
        return unsafe { set(DOMAIN_NAME, name, len) };
    }
    // SAFETY: the kernel reads at most `len` bytes.
    unsafe { kernel!(libc::SYS_setdomainname, name, len) as c_int }
}

/// Implements `getdomainname`.
///
/// # Safety
/// `out` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getdomainname(out: *mut c_char, len: size_t) -> c_int {
    match own_value(DOMAIN_NAME).filter(|_| named()) {
        Some(name) if name.len() < len => {
            // SAFETY: the room of the caller has `len` bytes.
            unsafe { Writable::new(out.cast(), len) }.put_text_at(0, &name);
            0
        }
        Some(_) => fail(libc::EINVAL),
        // SAFETY: the C library respects the length.
        None => unsafe { real::getdomainname(out, len) },
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn uname(out: InOut<utsname>) -> c_int {
    let status = real::uname(out);
    if status == 0
        && named()
        && !name_in_file().is_empty()
        && let Some(mut about) = out.get()
    {
        put(&mut about.nodename, &own_name());
        if let Some(domain) = own_value(DOMAIN_NAME) {
            put(&mut about.domainname, &domain);
        }
        out.set(about);
    }
    status
}

fn put(room: &mut [c_char], name: &[u8]) {
    let name = &name[..name.len().min(LEN_MAX)];
    for (room, byte) in room.iter_mut().zip(name.iter().chain(&[0])) {
        *room = *byte as c_char;
    }
}
