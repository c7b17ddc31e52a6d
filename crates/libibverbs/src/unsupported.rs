//! Unsupported functions. Each warns once.

use crate::guard::set_errno;
use libc::{c_char, c_int, c_void};
use softband_abi::verbs::*;
use softband_client::{Errno, warn};
use std::ffi::CStr;
use std::ptr::null_mut;

/// Version of the structures of 2006.
const OLDEST_VERSION: &str = "@IBVERBS_1.0";

/// Warns once that `what` is not supported. Returns `EOPNOTSUPP`.
pub(crate) fn refuse(what: &str) -> Errno {
    warn::once(&format!("{what} is not supported (EOPNOTSUPP)"));
    Errno(libc::EOPNOTSUPP)
}

/// Warns once that no engine is attached.
pub(crate) fn not_attached() {
    warn::once("no fabric: start this program with `softband run FABRIC --on HOST 'COMMAND'` to give it RDMA devices");
}

/// Entries of tables and symbols that return an errno.
macro_rules! refused_status {
    ($($name:ident = $what:literal;)*) => {
        $(pub(crate) unsafe extern "C" fn $name() -> c_int { refuse($what).0 })*
    };
}

/// Entries of tables and symbols that return NULL.
macro_rules! refused_object {
    ($($name:ident = $what:literal;)*) => {
        $(pub(crate) unsafe extern "C" fn $name() -> *mut c_void {
            set_errno(refuse($what));
            null_mut()
        })*
    };
}

refused_status! {
    read_counters = "a counter (ibv_read_counters)";
    attach_counters_point_flow = "a counter (ibv_attach_counters_point_flow)";
    destroy_counters = "a counter (ibv_destroy_counters)";
    free_dm = "device memory (ibv_free_dm)";
    modify_flow_action_esp = "an action of a flow (ibv_modify_flow_action_esp)";
    destroy_flow_action = "an action of a flow (ibv_destroy_flow_action)";
    modify_qp_rate_limit = "a rate limit (ibv_modify_qp_rate_limit)";
    modify_cq = "completion moderation (ibv_modify_cq)";
    post_srq_ops = "tag matching (ibv_post_srq_ops)";
    destroy_rwq_ind_table = "an indirection table (ibv_destroy_rwq_ind_table)";
    destroy_wq = "a work queue (ibv_destroy_wq)";
    modify_wq = "a work queue (ibv_modify_wq)";
    destroy_flow = "a flow (ibv_destroy_flow)";
}

refused_object! {
    alloc_null_mr = "a null memory region (ibv_alloc_null_mr)";
    create_counters = "a counter (ibv_create_counters)";
    reg_dm_mr = "device memory (ibv_reg_dm_mr)";
    alloc_dm = "device memory (ibv_alloc_dm)";
    create_flow_action_esp = "an action of a flow (ibv_create_flow_action_esp)";
    create_rwq_ind_table = "an indirection table (ibv_create_rwq_ind_table)";
    create_wq = "a work queue (ibv_create_wq)";
    create_flow = "a flow (ibv_create_flow)";
}

// Entries of `ibv_context_ops` that current headers do not use.
refused_object! {
    compat_alloc_pd = "the obsolete entry alloc_pd of ibv_context_ops";
    compat_dealloc_pd = "the obsolete entry dealloc_pd of ibv_context_ops";
    compat_reg_mr = "the obsolete entry reg_mr of ibv_context_ops";
    compat_rereg_mr = "the obsolete entry rereg_mr of ibv_context_ops";
    compat_dereg_mr = "the obsolete entry dereg_mr of ibv_context_ops";
    compat_create_cq = "the obsolete entry create_cq of ibv_context_ops";
    compat_cq_event = "the obsolete entry cq_event of ibv_context_ops";
    compat_resize_cq = "the obsolete entry resize_cq of ibv_context_ops";
    compat_destroy_cq = "the obsolete entry destroy_cq of ibv_context_ops";
    compat_create_srq = "the obsolete entry create_srq of ibv_context_ops";
    compat_modify_srq = "the obsolete entry modify_srq of ibv_context_ops";
    compat_query_srq = "the obsolete entry query_srq of ibv_context_ops";
    compat_destroy_srq = "the obsolete entry destroy_srq of ibv_context_ops";
    compat_create_qp = "the obsolete entry create_qp of ibv_context_ops";
    compat_query_qp = "the obsolete entry query_qp of ibv_context_ops";
    compat_modify_qp = "the obsolete entry modify_qp of ibv_context_ops";
    compat_destroy_qp = "the obsolete entry destroy_qp of ibv_context_ops";
    compat_create_ah = "the obsolete entry create_ah of ibv_context_ops";
    compat_destroy_ah = "the obsolete entry destroy_ah of ibv_context_ops";
    compat_attach_mcast = "the obsolete entry attach_mcast of ibv_context_ops";
    compat_detach_mcast = "the obsolete entry detach_mcast of ibv_context_ops";
    compat_async_event = "the obsolete entry async_event of ibv_context_ops";
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_import_device(_cmd_fd: c_int) -> *mut ibv_context {
    set_errno(refuse("an object of another process (ibv_import_device)"));
    null_mut()
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_import_pd(_context: *mut ibv_context, _handle: u32) -> *mut ibv_pd {
    set_errno(refuse("an object of another process (ibv_import_pd)"));
    null_mut()
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_unimport_pd(_pd: *mut ibv_pd) {
    refuse("an object of another process (ibv_unimport_pd)");
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_import_mr(_pd: *mut ibv_pd, _handle: u32) -> *mut ibv_mr {
    set_errno(refuse("an object of another process (ibv_import_mr)"));
    null_mut()
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_unimport_mr(_mr: *mut ibv_mr) {
    refuse("an object of another process (ibv_unimport_mr)");
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_import_dm(_context: *mut ibv_context, _handle: u32) -> *mut c_void {
    set_errno(refuse("an object of another process (ibv_import_dm)"));
    null_mut()
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_unimport_dm(_dm: *mut c_void) {
    refuse("an object of another process (ibv_unimport_dm)");
}

/// Fails. UCX asks by a descriptor of -1 whether the function exists; a question needs no warning.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_reg_dmabuf_mr(
    _pd: *mut ibv_pd,
    _offset: u64,
    _length: usize,
    _iova: u64,
    fd: c_int,
    _access: c_int,
) -> *mut ibv_mr {
    set_errno(if fd < 0 { Errno(libc::EOPNOTSUPP) } else { refuse("memory of a device (ibv_reg_dmabuf_mr)") });
    null_mut()
}

/// Fails: InfiniBand ports have no Ethernet addresses to resolve.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_resolve_eth_l2_from_gid(_context: *mut ibv_context, _attr: *mut c_void, _mac: *mut u8, _vlan: *mut u16) -> c_int {
    set_errno(refuse("ibv_resolve_eth_l2_from_gid (address handles resolve by themselves, and there are no MAC addresses)"));
    -1
}

/// Returns 0: no device promises in-order data.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_query_qp_data_in_order(_qp: *mut ibv_qp, _op: u32, _flags: u32) -> c_int {
    0
}

// Targets in the versioned libibverbs.so.1 for symbols that only old programs and other providers
// use.

/// Warns once that the entry `name` is not supported. The jump to the target replaces its first
/// argument by this name.
///
/// # Safety
/// `name` is a C string: `SYMBOL@VERSION`.
unsafe fn refuse_entry(name: *const c_char) -> Errno {
    // SAFETY: the caller promises a C string.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    if name.ends_with(OLDEST_VERSION) {
        refuse(&format!("{name}, for programs built before 2007 (rebuild the program),"))
    } else {
        refuse(&format!("{name}, for drivers and libraries of rdma-core,"))
    }
}

/// Target of entries that return an errno.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn softband_unsupported_status(name: *const c_char) -> c_int {
    // SAFETY: only the jumps of the versioned library come here, with a C string.
    unsafe { refuse_entry(name) }.0
}

/// Target of entries that return NULL.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn softband_unsupported_object(name: *const c_char) -> *mut c_char {
    // SAFETY: only the jumps of the versioned library come here, with a C string.
    set_errno(unsafe { refuse_entry(name) });
    null_mut()
}

/// Target of entries that return -1.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn softband_unsupported_call(name: *const c_char) -> c_int {
    // SAFETY: only the jumps of the versioned library come here, with a C string.
    set_errno(unsafe { refuse_entry(name) });
    -1
}

/// Target of entries that need no work, for example the registration of a provider.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn softband_nothing() -> usize {
    0
}
