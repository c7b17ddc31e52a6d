//! Protection domains, thread domains and parent domains.
//!
//! Thread and parent domains are hints to a provider: which objects one thread uses, and which
//! memory its queues use. Softband's queues lie in the engine, so a parent domain is another name
//! of its protection domain.

use crate::context::context;
use crate::guard::{not_null, object, status};
use libc::c_int;
use softband_abi::verbs::*;
use softband_client::{Errno, call};
use softband_ipc::calls::{Handle, Hca, op};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

/// A protection domain, or a parent domain that represents one.
#[repr(C)]
struct Pd {
    abi: ibv_pd,
    /// Protection domain of a parent domain; NULL for a protection domain.
    parent: *mut Pd,
    td: *mut ibv_td,
    /// Number of parent domains that represent it.
    users: AtomicU32,
}

/// A thread domain.
#[repr(C)]
struct Td {
    abi: ibv_td,
    /// Number of parent domains that contain it.
    users: AtomicU32,
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_alloc_pd(abi_context: *mut ibv_context) -> *mut ibv_pd {
    object(|| {
        // SAFETY: the caller names an open context.
        let hca = unsafe { context(abi_context) }?.hca;
        let Handle { handle, .. } = call::<op::AllocPd>(&Hca { hca, reserved: 0 })?;
        Ok(boxed(ibv_pd { context: abi_context, handle }, null_mut(), null_mut()))
    })
}

fn boxed(abi: ibv_pd, parent: *mut Pd, td: *mut ibv_td) -> *mut ibv_pd {
    Box::into_raw(Box::new(Pd { abi, parent, td, users: AtomicU32::new(0) })).cast()
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_dealloc_pd(abi_pd: *mut ibv_pd) -> c_int {
    status(|| {
        let pd = not_null(abi_pd)?.cast::<Pd>();
        // SAFETY: the caller names a PD of ours; its parent and thread domain cannot be freed
        // before it.
        unsafe {
            if (*pd).users.load(Ordering::Acquire) != 0 {
                return Err(Errno(libc::EBUSY));
            }
            if (*pd).parent.is_null() {
                call::<op::DeallocPd>(&Handle { handle: (*pd).abi.handle, reserved: 0 })?;
            } else {
                (*(*pd).parent).users.fetch_sub(1, Ordering::AcqRel);
                if !(*pd).td.is_null() {
                    (*(*pd).td.cast::<Td>()).users.fetch_sub(1, Ordering::AcqRel);
                }
            }
            // `boxed` created it, and nobody uses it any more.
            drop(Box::from_raw(pd));
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn alloc_td(abi_context: *mut ibv_context, init: *mut ibv_td_init_attr) -> *mut ibv_td {
    object(|| {
        // SAFETY: the caller names an open context and readable attributes.
        unsafe {
            context(abi_context)?;
            if (*not_null(init)?).comp_mask != 0 {
                return Err(Errno(libc::EINVAL));
            }
        }
        Ok(Box::into_raw(Box::new(Td { abi: ibv_td { context: abi_context }, users: AtomicU32::new(0) })).cast())
    })
}

pub(crate) unsafe extern "C" fn dealloc_td(abi_td: *mut ibv_td) -> c_int {
    status(|| {
        let td = not_null(abi_td)?.cast::<Td>();
        // SAFETY: the caller names a thread domain of ours; without users, nobody else accesses it.
        unsafe {
            if (*td).users.load(Ordering::Acquire) != 0 {
                return Err(Errno(libc::EBUSY));
            }
            drop(Box::from_raw(td));
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn alloc_parent_domain(abi_context: *mut ibv_context, init: *mut ibv_parent_domain_init_attr) -> *mut ibv_pd {
    object(|| {
        // SAFETY: the caller names an open context and readable attributes.
        let init = unsafe {
            context(abi_context)?;
            &*not_null(init)?
        };
        if init.comp_mask & !(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        let parent = not_null(init.pd)?.cast::<Pd>();
        // SAFETY: the caller names a PD of ours and NULL or a thread domain of ours.
        unsafe {
            // A parent domain represents a protection domain, not another parent domain.
            if !(*parent).parent.is_null() {
                return Err(Errno(libc::EINVAL));
            }
            (*parent).users.fetch_add(1, Ordering::AcqRel);
            if !init.td.is_null() {
                (*init.td.cast::<Td>()).users.fetch_add(1, Ordering::AcqRel);
            }
            Ok(boxed(ibv_pd { context: abi_context, handle: (*parent).abi.handle }, parent, init.td))
        }
    })
}
