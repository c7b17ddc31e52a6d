//! What this project does not offer: loud once, and honest.

use crate::guard::set_errno;
use libc::{c_char, c_int, c_void};
use softband_abi::verbs::*;
use softband_client::{Errno, warn};
use std::ptr::null_mut;

/// Says once that `what` is not offered.
pub(crate) fn refuse(what: &str) -> Errno {
    warn::once(&format!("{what} is not supported (EOPNOTSUPP)"));
    Errno(libc::EOPNOTSUPP)
}

/// Says once that there is no engine.
pub(crate) fn not_attached() {
    warn::once("no fabric: start this program with `softband run FABRIC --on HOST 'COMMAND'` to give it RDMA devices");
}

/// Entries of tables and symbols that answer an errno.
macro_rules! refused_status {
    ($($name:ident = $what:literal;)*) => {
        $(pub(crate) unsafe extern "C" fn $name() -> c_int { refuse($what).0 })*
    };
}

/// Entries of tables and symbols that answer NULL.
macro_rules! refused_object {
    ($($name:ident = $what:literal;)*) => {
        $(pub(crate) unsafe extern "C" fn $name() -> *mut c_void {
            set_errno(refuse($what));
            null_mut()
        })*
    };
}

refused_status! {
    read_counters = "ibv_read_counters";
    attach_counters_point_flow = "ibv_attach_counters_point_flow";
    destroy_counters = "ibv_destroy_counters";
    free_dm = "device memory (ibv_free_dm)";
    modify_flow_action_esp = "ibv_modify_flow_action_esp";
    destroy_flow_action = "ibv_destroy_flow_action";
    modify_qp_rate_limit = "ibv_modify_qp_rate_limit";
    modify_cq = "completion moderation (ibv_modify_cq)";
    post_srq_ops = "tag matching (ibv_post_srq_ops)";
    destroy_rwq_ind_table = "ibv_destroy_rwq_ind_table";
    destroy_wq = "a work queue (ibv_destroy_wq)";
    modify_wq = "a work queue (ibv_modify_wq)";
    destroy_flow = "a flow (ibv_destroy_flow)";
}

refused_object! {
    alloc_null_mr = "ibv_alloc_null_mr";
    create_counters = "ibv_create_counters";
    reg_dm_mr = "device memory (ibv_reg_dm_mr)";
    alloc_dm = "device memory (ibv_alloc_dm)";
    create_flow_action_esp = "ibv_create_flow_action_esp";
    create_rwq_ind_table = "ibv_create_rwq_ind_table";
    create_wq = "a work queue (ibv_create_wq)";
    create_flow = "a flow (ibv_create_flow)";
    unused = "an entry that no program calls";
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_set_ece(_qp: *mut ibv_qp, _ece: *mut ibv_ece) -> c_int {
    refuse("enhanced connection establishment (ibv_set_ece)").0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_ece(_qp: *mut ibv_qp, _ece: *mut ibv_ece) -> c_int {
    refuse("enhanced connection establishment (ibv_query_ece)").0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_device(_cmd_fd: c_int) -> *mut ibv_context {
    set_errno(refuse("ibv_import_device"));
    null_mut()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_pd(_context: *mut ibv_context, _handle: u32) -> *mut ibv_pd {
    set_errno(refuse("ibv_import_pd"));
    null_mut()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_pd(_pd: *mut ibv_pd) {
    refuse("ibv_unimport_pd");
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_mr(_pd: *mut ibv_pd, _handle: u32) -> *mut ibv_mr {
    set_errno(refuse("ibv_import_mr"));
    null_mut()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_mr(_mr: *mut ibv_mr) {
    refuse("ibv_unimport_mr");
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_dm(_context: *mut ibv_context, _handle: u32) -> *mut c_void {
    set_errno(refuse("ibv_import_dm"));
    null_mut()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_dm(_dm: *mut c_void) {
    refuse("ibv_unimport_dm");
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_dmabuf_mr(_pd: *mut ibv_pd, _offset: u64, _length: usize, _iova: u64, _fd: c_int, _access: c_int) -> *mut ibv_mr {
    set_errno(refuse("ibv_reg_dmabuf_mr"));
    null_mut()
}

/// An InfiniBand port has no Ethernet addresses to resolve.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resolve_eth_l2_from_gid(_context: *mut ibv_context, _attr: *mut c_void, _mac: *mut u8, _vlan: *mut u16) -> c_int {
    set_errno(refuse("ibv_resolve_eth_l2_from_gid (address handles resolve by themselves, and there are no MAC addresses)"));
    -1
}

/// No device says that it delivers data in order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp_data_in_order(_qp: *mut ibv_qp, _op: u32, _flags: u32) -> c_int {
    0
}

// Where the versioned libibverbs.so.1 leads what only old programs and other providers ask for.

/// The target of entries that answer an errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn softband_unsupported_status() -> c_int {
    refuse("a private or obsolete entry of libibverbs").0
}

/// The target of entries that answer NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn softband_unsupported_object() -> *mut c_char {
    set_errno(refuse("a private or obsolete entry of libibverbs"));
    null_mut()
}

/// The target of entries that answer -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn softband_unsupported_call() -> c_int {
    set_errno(refuse("a private or obsolete entry of libibverbs"));
    -1
}

/// The target of entries that need do nothing: registering a provider, for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn softband_nothing() -> usize {
    0
}
