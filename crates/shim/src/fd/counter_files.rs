//! The counters of HCAs' ports (`/sys/class/infiniband/HCA/ports/N/counters` and `hw_counters`).
//!
//! Each open asks the engine for the present value, and opens a file in memory with it. So does each
//! `read` from the start of the file.

use crate::fd::{files, random_files};
use crate::runtime::attach::attached;
use crate::runtime::world::{active, keeping_errno, walled};
use libc::c_int;
use rustix::fd::OwnedFd;
use softband_client::call_with_tail;
use softband_ipc::calls::{CounterName, op};
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};

/// Beginnings of the names of counters. Most paths have another name, and end here.
const BEGINNINGS: [&[u8]; 16] = [
    b"symbol_",
    b"link_",
    b"port_",
    b"local_",
    b"excessive_",
    b"VL15_",
    b"unicast_",
    b"multicast_", // counters
    b"duplicate_",
    b"implied_",
    b"out_of_",
    b"packet_",
    b"req_",
    b"resp_",
    b"rnr_",
    b"rx_", // hw_counters
];

/// Returns a file that replaces `path`, if `path` names a counter. A relative path begins at
/// `folder`.
pub(super) fn instead_of(folder: c_int, path: &[u8]) -> Option<OwnedFd> {
    let (before, name) = path.iter().rposition(|byte| *byte == b'/').map_or((&[][..], path), |at| (&path[..at], &path[at + 1..]));
    let is_counter = BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)) && (before.is_empty() || before.ends_with(b"counters"));
    if !is_counter || !attached() || !(active() || walled()) {
        return None;
    }
    keeping_errno(|| {
        let whole = if path.starts_with(b"/") { before.to_vec() } else { [folder_name(folder)?.as_slice(), b"/", before].concat() };
        let (device, port, folder) = place(&whole)?;
        let name = [folder, name].concat();
        let text = text_of(device, port, &name)?;
        IS_USED.store(true, Ordering::Relaxed);
        let [device, name] = [device, &name].map(String::from_utf8_lossy);
        random_files::new_file(&format!("{FILE}{device}/{port}/{name}"), &text)
    })
}

/// Returns the present line of a counter.
fn text_of(device: &[u8], port: u32, name: &[u8]) -> Option<Vec<u8>> {
    let head = CounterName { device_len: device.len() as u32, port };
    let (value, _) = call_with_tail::<op::ReadCounter>(&head, &[device, name].concat(), &mut []).ok()?;
    Some(format!("{}\n", value.count).into_bytes())
}

/// Writes the present value into the file of a counter that the program reads from its start.
#[inline]
pub(super) fn refresh(fd: c_int) {
    if IS_USED.load(Ordering::Relaxed) {
        // Other files, and counters without a value, stay as they are.
        let _ = keeping_errno(|| refresh_at_start(fd));
    }
}

fn refresh_at_start(fd: c_int) -> Option<()> {
    // SAFETY: both calls take numbers. Only files in memory have seals.
    let is_at_start = unsafe { kernel!(libc::SYS_fcntl, fd, libc::F_GET_SEALS) >= 0 && kernel!(libc::SYS_lseek, fd, 0, libc::SEEK_CUR) == 0 };
    if !is_at_start || !(active() || walled()) {
        return None;
    }
    let link = target_of(&random_files::path_of(fd))?;
    let name = link.strip_prefix(b"/memfd:")?.strip_prefix(FILE.as_bytes())?.strip_suffix(b" (deleted)")?;
    let mut parts = name.splitn(3, |byte| *byte == b'/');
    let (device, port, name) = (parts.next()?, std::str::from_utf8(parts.next()?).ok()?.parse().ok()?, parts.next()?);
    let text = text_of(device, port, name)?;
    // The descriptor itself may be for reads only.
    // SAFETY: the strings and the text live during the calls, and the descriptor is ours.
    unsafe {
        let file = kernel!(libc::SYS_openat, libc::AT_FDCWD, random_files::path_of(fd).as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC | libc::O_TRUNC);
        kernel!(libc::SYS_write, file, text.as_ptr(), text.len());
        kernel!(libc::SYS_close, file);
    }
    Some(())
}

/// Beginning of the names of such files in memory.
const FILE: &str = "softband-counter:";
/// Whether this process has opened such a file; most never do.
static IS_USED: AtomicBool = AtomicBool::new(false);

/// Returns the HCA and the port of a folder of counters below a folder of HCAs, and the beginning of
/// its names for the engine.
fn place(folder: &[u8]) -> Option<(&[u8], u32, &'static [u8])> {
    let mut parts = folder.split(|byte| *byte == b'/').rev().filter(|part| !part.is_empty());
    let (last, port, ports, device, class) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let port = std::str::from_utf8(port).ok()?.parse().ok()?;
    let beginning: &[u8] = match last {
        b"counters" => b"",
        b"hw_counters" => b"hw_counters/",
        _ => return None,
    };
    (ports == b"ports" && class == b"infiniband").then_some((device, port, beginning))
}

/// Returns the program's name of an open or the working folder, if the engine wrote it.
pub(super) fn folder_name(folder: c_int) -> Option<Vec<u8>> {
    files::name_for_program(&folder_of(folder)?).map(CString::into_bytes)
}

/// Returns the system's name of an open or the working folder.
pub(super) fn folder_of(folder: c_int) -> Option<Vec<u8>> {
    let link = if folder == libc::AT_FDCWD { CString::from(c"/proc/self/cwd") } else { random_files::path_of(folder) };
    target_of(&link)
}

/// Returns the target of a link.
pub(super) fn target_of(link: &CStr) -> Option<Vec<u8>> {
    let mut name = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: the kernel reads a string and writes at most the length of the buffer.
    let len = unsafe { kernel!(libc::SYS_readlinkat, libc::AT_FDCWD, link.as_ptr(), name.as_mut_ptr(), name.len()) };
    name.truncate(usize::try_from(len).ok()?);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn folders_of_counters_have_a_port() {
        let found = Some((&b"mlx5_0"[..], 2, &b""[..]));
        let hardware = Some((&b"mlx5_0"[..], 2, &b"hw_counters/"[..]));
        assert_eq!(place(b"/sys/class/infiniband/mlx5_0/ports/2/hw_counters"), hardware);
        assert_eq!(place(b"/sys/class/infiniband/mlx5_0/ports/2/counters"), found);
        assert_eq!(place(b"/sys/devices/pci0000:00/0000:00:01.0/infiniband/mlx5_0/ports/2//counters/"), found);
        for other in ["", "/counters", "/sys/class/infiniband/mlx5_0/ports/x/counters", "/sys/class/net/mlx5_0/ports/2/counters"] {
            assert_eq!(place(other.as_bytes()), None, "{other}");
        }
    }
}
