//! Work requests, completions, and the structures that they use.

use super::{ibv_ah, ibv_mr, ibv_mw};
use libc::{c_int, c_uint, c_void};

c_structs! {
    /// Sixteen bytes in network order.
    pub union ibv_gid {
        pub raw: [u8; 16],
        pub global: [u64; 2],
    }

    pub struct ibv_global_route {
        pub dgid: ibv_gid,
        pub flow_label: u32,
        pub sgid_index: u8,
        pub hop_limit: u8,
        pub traffic_class: u8,
    }

    pub struct ibv_grh {
        /** Big endian. */
        pub version_tclass_flow: u32,
        /** Big endian. */
        pub paylen: u16,
        pub next_hdr: u8,
        pub hop_limit: u8,
        pub sgid: ibv_gid,
        pub dgid: ibv_gid,
    }

    pub struct ibv_ah_attr {
        pub grh: ibv_global_route,
        pub dlid: u16,
        pub sl: u8,
        pub src_path_bits: u8,
        pub static_rate: u8,
        pub is_global: u8,
        pub port_num: u8,
    }

    pub struct ibv_sge {
        pub addr: u64,
        pub length: u32,
        pub lkey: u32,
    }

    pub struct ibv_data_buf {
        pub addr: *mut c_void,
        pub length: usize,
    }

    pub struct ibv_mw_bind_info {
        pub mr: *mut ibv_mr,
        pub addr: u64,
        pub length: u64,
        pub mw_access_flags: c_uint,
    }

    pub struct ibv_send_wr {
        pub wr_id: u64,
        pub next: *mut ibv_send_wr,
        pub sg_list: *mut ibv_sge,
        pub num_sge: c_int,
        pub opcode: c_uint,
        pub send_flags: c_uint,
        /** Big endian; or the key to invalidate. */
        pub imm_data: u32,
        pub wr: send_wr_target,
        pub qp_type: u32,
        pub bind_mw: send_wr_bind,
    }

    pub struct ibv_recv_wr {
        pub wr_id: u64,
        pub next: *mut ibv_recv_wr,
        pub sg_list: *mut ibv_sge,
        pub num_sge: c_int,
    }

    pub struct ibv_wc {
        pub wr_id: u64,
        pub status: c_uint,
        pub opcode: c_uint,
        pub vendor_err: u32,
        pub byte_len: u32,
        /** Big endian; or the key that was invalidated. */
        pub imm_data: u32,
        pub qp_num: u32,
        pub src_qp: u32,
        pub wc_flags: c_uint,
        pub pkey_index: u16,
        pub slid: u16,
        pub sl: u8,
        pub dlid_path_bits: u8,
    }

    pub struct ibv_wc_tm_info {
        pub tag: u64,
        pub r#priv: u32,
    }
}

/// `wr.rdma` of a send request.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct send_wr_rdma {
    pub remote_addr: u64,
    pub rkey: u32,
}

/// `wr.atomic` of a send request.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct send_wr_atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

/// `wr.ud` of a send request.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct send_wr_ud {
    pub ah: *mut ibv_ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

/// `wr` of a send request. Any bytes are valid in each of its views.
#[repr(C)]
#[derive(Clone, Copy)]
pub union send_wr_target {
    pub rdma: send_wr_rdma,
    pub atomic: send_wr_atomic,
    pub ud: send_wr_ud,
}

/// `bind_mw` of a send request, the largest of the views at its end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct send_wr_bind {
    pub mw: *mut ibv_mw,
    pub rkey: u32,
    pub bind_info: ibv_mw_bind_info,
}
