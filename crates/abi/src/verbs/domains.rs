//! Domains, shared receive queues and other objects with creation attributes of their own.

use super::{ibv_context, ibv_cq, ibv_mw_bind_info, ibv_pd};
use libc::{c_int, c_uint, c_void};

c_structs! {
    pub struct ibv_td_init_attr {
        pub comp_mask: u32,
    }

    pub struct ibv_td {
        pub context: *mut ibv_context,
    }

    pub struct ibv_parent_domain_init_attr {
        pub pd: *mut ibv_pd,
        pub td: *mut ibv_td,
        pub comp_mask: u32,
        pub alloc: Option<unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, usize, u64) -> *mut c_void>,
        pub free: Option<unsafe extern "C" fn(*mut ibv_pd, *mut c_void, *mut c_void, u64)>,
        pub pd_context: *mut c_void,
    }

    pub struct ibv_xrcd_init_attr {
        pub comp_mask: u32,
        pub fd: c_int,
        pub oflags: c_int,
    }

    pub struct ibv_xrcd {
        pub context: *mut ibv_context,
    }

    pub struct ibv_srq_attr {
        pub max_wr: u32,
        pub max_sge: u32,
        pub srq_limit: u32,
    }

    pub struct ibv_srq_init_attr {
        pub srq_context: *mut c_void,
        pub attr: ibv_srq_attr,
    }

    pub struct ibv_tm_cap {
        pub max_num_tags: u32,
        pub max_ops: u32,
    }

    pub struct ibv_srq_init_attr_ex {
        pub srq_context: *mut c_void,
        pub attr: ibv_srq_attr,
        pub comp_mask: u32,
        pub srq_type: c_uint,
        pub pd: *mut ibv_pd,
        pub xrcd: *mut ibv_xrcd,
        pub cq: *mut ibv_cq,
        pub tm_cap: ibv_tm_cap,
    }

    pub struct ibv_qp_open_attr {
        pub comp_mask: u32,
        pub qp_num: u32,
        pub xrcd: *mut ibv_xrcd,
        pub qp_context: *mut c_void,
        pub qp_type: c_uint,
    }

    pub struct ibv_mw_bind {
        pub wr_id: u64,
        pub send_flags: c_uint,
        pub bind_info: ibv_mw_bind_info,
    }
}
