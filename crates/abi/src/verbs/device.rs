//! Devices, ports and their attributes.

use super::{ibv_context, ibv_gid};
use libc::{c_char, c_int, c_uint, c_void};

c_structs! {
    pub struct _ibv_device_ops {
        pub _dummy1: Option<unsafe extern "C" fn(*mut ibv_device, c_int) -> *mut ibv_context>,
        pub _dummy2: Option<unsafe extern "C" fn(*mut ibv_context)>,
    }

    pub struct ibv_device {
        pub _ops: _ibv_device_ops,
        pub node_type: c_int,
        pub transport_type: c_int,
        pub name: [c_char; 64],
        pub dev_name: [c_char; 64],
        pub dev_path: [c_char; 256],
        pub ibdev_path: [c_char; 256],
    }

    pub struct ibv_device_attr {
        pub fw_ver: [c_char; 64],
        /** Big endian. */
        pub node_guid: u64,
        /** Big endian. */
        pub sys_image_guid: u64,
        pub max_mr_size: u64,
        pub page_size_cap: u64,
        pub vendor_id: u32,
        pub vendor_part_id: u32,
        pub hw_ver: u32,
        pub max_qp: c_int,
        pub max_qp_wr: c_int,
        pub device_cap_flags: c_uint,
        pub max_sge: c_int,
        pub max_sge_rd: c_int,
        pub max_cq: c_int,
        pub max_cqe: c_int,
        pub max_mr: c_int,
        pub max_pd: c_int,
        pub max_qp_rd_atom: c_int,
        pub max_ee_rd_atom: c_int,
        pub max_res_rd_atom: c_int,
        pub max_qp_init_rd_atom: c_int,
        pub max_ee_init_rd_atom: c_int,
        pub atomic_cap: c_uint,
        pub max_ee: c_int,
        pub max_rdd: c_int,
        pub max_mw: c_int,
        pub max_raw_ipv6_qp: c_int,
        pub max_raw_ethy_qp: c_int,
        pub max_mcast_grp: c_int,
        pub max_mcast_qp_attach: c_int,
        pub max_total_mcast_qp_attach: c_int,
        pub max_ah: c_int,
        pub max_fmr: c_int,
        pub max_map_per_fmr: c_int,
        pub max_srq: c_int,
        pub max_srq_wr: c_int,
        pub max_srq_sge: c_int,
        pub max_pkeys: u16,
        pub local_ca_ack_delay: u8,
        pub phys_port_cnt: u8,
    }

    pub struct ibv_query_device_ex_input {
        pub comp_mask: u32,
    }

    pub struct ibv_odp_caps {
        pub general_caps: u64,
        pub per_transport_caps: [u32; 3],
    }

    pub struct ibv_tso_caps {
        pub max_tso: u32,
        pub supported_qpts: u32,
    }

    pub struct ibv_rss_caps {
        pub supported_qpts: u32,
        pub max_rwq_indirection_tables: u32,
        pub max_rwq_indirection_table_size: u32,
        pub rx_hash_fields_mask: u64,
        pub rx_hash_function: u8,
    }

    pub struct ibv_packet_pacing_caps {
        pub qp_rate_limit_min: u32,
        pub qp_rate_limit_max: u32,
        pub supported_qpts: u32,
    }

    pub struct ibv_tm_caps {
        pub max_rndv_hdr_size: u32,
        pub max_num_tags: u32,
        pub flags: u32,
        pub max_ops: u32,
        pub max_sge: u32,
    }

    pub struct ibv_cq_moderation_caps {
        pub max_cq_count: u16,
        pub max_cq_period: u16,
    }

    pub struct ibv_pci_atomic_caps {
        pub fetch_add: u16,
        pub swap: u16,
        pub compare_swap: u16,
    }

    pub struct ibv_device_attr_ex {
        pub orig_attr: ibv_device_attr,
        pub comp_mask: u32,
        pub odp_caps: ibv_odp_caps,
        pub completion_timestamp_mask: u64,
        pub hca_core_clock: u64,
        pub device_cap_flags_ex: u64,
        pub tso_caps: ibv_tso_caps,
        pub rss_caps: ibv_rss_caps,
        pub max_wq_type_rq: u32,
        pub packet_pacing_caps: ibv_packet_pacing_caps,
        pub raw_packet_caps: u32,
        pub tm_caps: ibv_tm_caps,
        pub cq_mod_caps: ibv_cq_moderation_caps,
        pub max_dm_size: u64,
        pub pci_atomic_caps: ibv_pci_atomic_caps,
        pub xrc_odp_caps: u32,
        pub phys_port_cnt_ex: u32,
    }

    pub struct ibv_port_attr {
        pub state: c_uint,
        pub max_mtu: c_uint,
        pub active_mtu: c_uint,
        pub gid_tbl_len: c_int,
        pub port_cap_flags: u32,
        pub max_msg_sz: u32,
        pub bad_pkey_cntr: u32,
        pub qkey_viol_cntr: u32,
        pub pkey_tbl_len: u16,
        pub lid: u16,
        pub sm_lid: u16,
        pub lmc: u8,
        pub max_vl_num: u8,
        pub sm_sl: u8,
        pub subnet_timeout: u8,
        pub init_type_reply: u8,
        pub active_width: u8,
        pub active_speed: u8,
        pub phys_state: u8,
        pub link_layer: u8,
        pub flags: u8,
        pub port_cap_flags2: u16,
    }

    pub struct ibv_gid_entry {
        pub gid: ibv_gid,
        pub gid_index: u32,
        pub port_num: u32,
        pub gid_type: u32,
        pub ndev_ifindex: u32,
    }

    pub struct ibv_values_ex {
        pub comp_mask: u32,
        pub raw_clock: libc::timespec,
    }

    pub struct ibv_async_event {
        /** A pointer to a CQ, QP, SRQ or WQ, or a port number in its first four bytes. */
        pub element: *mut c_void,
        pub event_type: c_uint,
    }
}

/// Size in bytes of the port attributes in programs built before 2019, which lack
/// `port_cap_flags2`.
pub const COMPAT_PORT_ATTR_BYTES: usize = std::mem::offset_of!(ibv_port_attr, port_cap_flags2).next_multiple_of(4);
