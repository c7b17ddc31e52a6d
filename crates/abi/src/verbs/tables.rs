//! Function tables through which the headers' inline functions call the library.
//!
//! Unsupported entries are declared without arguments. The function behind them ignores its
//! arguments, which the C calling conventions of Linux allow.

use super::*;
use libc::{c_int, c_uint, c_void, pthread_mutex_t};

/// An entry that returns an error status for all arguments.
pub type StatusStub = Option<unsafe extern "C" fn() -> c_int>;
/// An entry that returns NULL, instead of an object, for all arguments.
pub type ObjectStub = Option<unsafe extern "C" fn() -> *mut c_void>;
/// An entry that nobody calls.
pub type Unused = Option<unsafe extern "C" fn() -> *mut c_void>;

c_structs! {
    pub struct ibv_context_ops {
        pub _compat_query_device: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_device_attr) -> c_int>,
        pub _compat_query_port: Option<unsafe extern "C" fn(*mut ibv_context, u8, *mut c_void) -> c_int>,
        pub _compat_alloc_pd: Unused,
        pub _compat_dealloc_pd: Unused,
        pub _compat_reg_mr: Unused,
        pub _compat_rereg_mr: Unused,
        pub _compat_dereg_mr: Unused,
        pub alloc_mw: Option<unsafe extern "C" fn(*mut ibv_pd, c_uint) -> *mut ibv_mw>,
        pub bind_mw: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_mw, *mut ibv_mw_bind) -> c_int>,
        pub dealloc_mw: Option<unsafe extern "C" fn(*mut ibv_mw) -> c_int>,
        pub _compat_create_cq: Unused,
        pub poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int>,
        pub req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>,
        pub _compat_cq_event: Unused,
        pub _compat_resize_cq: Unused,
        pub _compat_destroy_cq: Unused,
        pub _compat_create_srq: Unused,
        pub _compat_modify_srq: Unused,
        pub _compat_query_srq: Unused,
        pub _compat_destroy_srq: Unused,
        pub post_srq_recv: Option<unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
        pub _compat_create_qp: Unused,
        pub _compat_query_qp: Unused,
        pub _compat_modify_qp: Unused,
        pub _compat_destroy_qp: Unused,
        pub post_send: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int>,
        pub post_recv: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
        pub _compat_create_ah: Unused,
        pub _compat_destroy_ah: Unused,
        pub _compat_attach_mcast: Unused,
        pub _compat_detach_mcast: Unused,
        pub _compat_async_event: Unused,
    }

    pub struct ibv_context {
        pub device: *mut ibv_device,
        pub ops: ibv_context_ops,
        pub cmd_fd: c_int,
        pub async_fd: c_int,
        pub num_comp_vectors: c_int,
        pub mutex: pthread_mutex_t,
        pub abi_compat: *mut c_void,
    }

    pub struct verbs_context {
        pub query_port: Option<unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, usize) -> c_int>,
        pub advise_mr: Option<unsafe extern "C" fn(*mut ibv_pd, c_uint, u32, *mut ibv_sge, u32) -> c_int>,
        pub alloc_null_mr: ObjectStub,
        pub read_counters: StatusStub,
        pub attach_counters_point_flow: StatusStub,
        pub create_counters: ObjectStub,
        pub destroy_counters: StatusStub,
        pub reg_dm_mr: ObjectStub,
        pub alloc_dm: ObjectStub,
        pub free_dm: StatusStub,
        pub modify_flow_action_esp: StatusStub,
        pub destroy_flow_action: StatusStub,
        pub create_flow_action_esp: ObjectStub,
        pub modify_qp_rate_limit: StatusStub,
        pub alloc_parent_domain: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_parent_domain_init_attr) -> *mut ibv_pd>,
        pub dealloc_td: Option<unsafe extern "C" fn(*mut ibv_td) -> c_int>,
        pub alloc_td: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_td_init_attr) -> *mut ibv_td>,
        pub modify_cq: StatusStub,
        pub post_srq_ops: StatusStub,
        pub destroy_rwq_ind_table: StatusStub,
        pub create_rwq_ind_table: ObjectStub,
        pub destroy_wq: StatusStub,
        pub modify_wq: StatusStub,
        pub create_wq: ObjectStub,
        pub query_rt_values: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_values_ex) -> c_int>,
        pub create_cq_ex: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex>,
        pub r#priv: *mut c_void,
        pub query_device_ex: Option<unsafe extern "C" fn(*mut ibv_context, *const ibv_query_device_ex_input, *mut ibv_device_attr_ex, usize) -> c_int>,
        pub ibv_destroy_flow: StatusStub,
        pub ABI_placeholder2: Unused,
        pub ibv_create_flow: ObjectStub,
        pub ABI_placeholder1: Unused,
        pub open_qp: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_open_attr) -> *mut ibv_qp>,
        pub create_qp_ex: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp>,
        pub get_srq_num: Option<unsafe extern "C" fn(*mut ibv_srq, *mut u32) -> c_int>,
        pub create_srq_ex: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq>,
        pub open_xrcd: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd>,
        pub close_xrcd: Option<unsafe extern "C" fn(*mut ibv_xrcd) -> c_int>,
        pub _ABI_placeholder3: u64,
        pub sz: usize,
        pub context: ibv_context,
    }
}

/// Value of `ibv_context::abi_compat` if the context is the end of a [`verbs_context`].
pub const VERBS_ABI_IS_EXTENDED: *mut c_void = std::ptr::without_provenance_mut(usize::MAX);
