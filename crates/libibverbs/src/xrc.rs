//! XRC domains.

use crate::context::context;
use crate::guard::{not_null, object, status};
use crate::unsupported::refuse;
use libc::c_int;
use softband_abi::verbs::*;
use softband_client::{Errno, call};
use softband_ipc::calls::{Handle, OpenXrcd, op};

/// An XRC domain: the header's structure, and the engine's handle.
#[repr(C)]
struct Xrcd {
    abi: ibv_xrcd,
    handle: u32,
}

/// Returns the engine's handle of a domain.
///
/// # Safety
/// `abi_xrcd` is NULL or a domain of ours.
pub(crate) unsafe fn handle(abi_xrcd: *mut ibv_xrcd) -> Result<u32, Errno> {
    // SAFETY: the caller promises a domain of ours, and NULL is checked.
    Ok(unsafe { (*not_null(abi_xrcd)?.cast::<Xrcd>()).handle })
}

pub(crate) unsafe extern "C" fn open_xrcd(abi_context: *mut ibv_context, init: *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd {
    object(|| {
        // SAFETY: the caller names an open context and readable attributes.
        let (hca, init) = unsafe { (context(abi_context)?.hca, *not_null(init)?) };
        let needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
        if init.comp_mask & needed != needed || init.comp_mask & !needed != 0 || init.oflags & !(libc::O_CREAT | libc::O_EXCL) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        let file = file_of(init.fd)?;
        if file.is_none() && init.oflags & libc::O_CREAT == 0 {
            return Err(Errno(libc::EINVAL));
        }
        let (device, inode) = file.unwrap_or_default();
        let request = OpenXrcd {
            hca,
            has_file: u32::from(file.is_some()),
            device,
            inode,
            create: u32::from(init.oflags & libc::O_CREAT != 0),
            exclusive: u32::from(init.oflags & libc::O_EXCL != 0),
        };
        let Handle { handle, .. } = call::<op::OpenXrcd>(&request).map_err(|errno| match errno {
            Errno(libc::EOPNOTSUPP) => refuse("XRC (ibv_open_xrcd) on this HCA"),
            other => other,
        })?;
        Ok(Box::into_raw(Box::new(Xrcd { abi: ibv_xrcd { context: abi_context }, handle })).cast())
    })
}

/// Returns device and inode of a domain's file, or `None` for -1.
fn file_of(fd: c_int) -> Result<Option<(u64, u64)>, Errno> {
    if fd == -1 {
        return Ok(None);
    }
    if fd < 0 {
        return Err(Errno(libc::EBADF));
    }
    // SAFETY: the descriptor is only borrowed for this call; a number that is not open gives an
    // error.
    let file = unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) };
    let found = rustix::fs::fstat(file).map_err(|error| Errno(error.raw_os_error()))?;
    Ok(Some((found.st_dev, found.st_ino)))
}

pub(crate) unsafe extern "C" fn close_xrcd(abi_xrcd: *mut ibv_xrcd) -> c_int {
    status(|| {
        // SAFETY: the caller names a domain of ours.
        let handle = unsafe { handle(abi_xrcd) }?;
        call::<op::CloseXrcd>(&Handle { handle, reserved: 0 })?;
        // SAFETY: `open_xrcd` boxed it, and nobody uses it any more.
        drop(unsafe { Box::from_raw(abi_xrcd.cast::<Xrcd>()) });
        Ok(())
    })
}
