//! Conversions between structures of the kernel's connection manager and of the library. librdmacm
//! calls them.

use crate::guard::guarded;
use libc::c_int;
use softband_abi::verbs::*;

fn address_from_kernel(from: &ib_uverbs_ah_attr) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: from.grh.dgid },
            flow_label: from.grh.flow_label,
            sgid_index: from.grh.sgid_index,
            hop_limit: from.grh.hop_limit,
            traffic_class: from.grh.traffic_class,
        },
        dlid: from.dlid,
        sl: from.sl,
        src_path_bits: from.src_path_bits,
        static_rate: from.static_rate,
        is_global: from.is_global,
        port_num: from.port_num,
    }
}

/// Converts attributes. The target state stays the program's, because the kernel's attributes
/// contain only its consequences.
fn attributes_from_kernel(from: &ib_uverbs_qp_attr, qp_state: u32, rate_limit: u32) -> ibv_qp_attr {
    ibv_qp_attr {
        qp_state,
        cur_qp_state: from.cur_qp_state,
        path_mtu: from.path_mtu,
        path_mig_state: from.path_mig_state,
        qkey: from.qkey,
        rq_psn: from.rq_psn,
        sq_psn: from.sq_psn,
        dest_qp_num: from.dest_qp_num,
        qp_access_flags: from.qp_access_flags,
        cap: ibv_qp_cap {
            max_send_wr: from.max_send_wr,
            max_recv_wr: from.max_recv_wr,
            max_send_sge: from.max_send_sge,
            max_recv_sge: from.max_recv_sge,
            max_inline_data: from.max_inline_data,
        },
        ah_attr: address_from_kernel(&from.ah_attr),
        alt_ah_attr: address_from_kernel(&from.alt_ah_attr),
        pkey_index: from.pkey_index,
        alt_pkey_index: from.alt_pkey_index,
        en_sqd_async_notify: from.en_sqd_async_notify,
        sq_draining: from.sq_draining,
        max_rd_atomic: from.max_rd_atomic,
        max_dest_rd_atomic: from.max_dest_rd_atomic,
        min_rnr_timer: from.min_rnr_timer,
        port_num: from.port_num,
        timeout: from.timeout,
        retry_cnt: from.retry_cnt,
        rnr_retry: from.rnr_retry,
        alt_port_num: from.alt_port_num,
        alt_timeout: from.alt_timeout,
        rate_limit,
    }
}

fn path_from_kernel(from: &ib_user_path_rec) -> ibv_sa_path_rec {
    ibv_sa_path_rec {
        dgid: ibv_gid { raw: from.dgid },
        sgid: ibv_gid { raw: from.sgid },
        dlid: from.dlid,
        slid: from.slid,
        raw_traffic: from.raw_traffic as c_int,
        flow_label: from.flow_label,
        hop_limit: from.hop_limit,
        traffic_class: from.traffic_class,
        reversible: from.reversible as c_int,
        numb_path: from.numb_path,
        pkey: from.pkey,
        sl: from.sl,
        mtu_selector: from.mtu_selector,
        mtu: from.mtu as u8,
        rate_selector: from.rate_selector,
        rate: from.rate,
        packet_life_time_selector: from.packet_life_time_selector,
        packet_life_time: from.packet_life_time,
        preference: from.preference,
    }
}

fn path_to_kernel(from: &ibv_sa_path_rec) -> ib_user_path_rec {
    ib_user_path_rec {
        // SAFETY: any sixteen bytes are a GID.
        dgid: unsafe { from.dgid.raw },
        // SAFETY: any sixteen bytes are a GID.
        sgid: unsafe { from.sgid.raw },
        dlid: from.dlid,
        slid: from.slid,
        raw_traffic: from.raw_traffic as u32,
        flow_label: from.flow_label,
        reversible: from.reversible as u32,
        mtu: from.mtu.into(),
        pkey: from.pkey,
        hop_limit: from.hop_limit,
        traffic_class: from.traffic_class,
        numb_path: from.numb_path,
        sl: from.sl,
        mtu_selector: from.mtu_selector,
        rate_selector: from.rate_selector,
        rate: from.rate,
        packet_life_time_selector: from.packet_life_time_selector,
        packet_life_time: from.packet_life_time,
        preference: from.preference,
    }
}

/// Reads one structure, converts it and writes the other.
///
/// # Safety
/// Each pointer is NULL or valid for its use here.
unsafe fn copy<From, To>(to: *mut To, from: *const From, convert: impl FnOnce(&From) -> To) {
    if !to.is_null() {
        // SAFETY: the caller promises that `from` is NULL or readable and `to` writable.
        guarded((), || unsafe { from.as_ref().map_or((), |from| to.write(convert(from))) });
    }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_copy_ah_attr_from_kern(to: *mut ibv_ah_attr, from: *const ib_uverbs_ah_attr) {
    // SAFETY: by the manual page, `from` can be read and `to` written.
    unsafe { copy(to, from, address_from_kernel) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_copy_qp_attr_from_kern(to: *mut ibv_qp_attr, from: *const ib_uverbs_qp_attr) {
    // SAFETY: by the manual page, `from` can be read, and `to` can be read and written.
    unsafe { copy(to, from, |from| attributes_from_kernel(from, (*to).qp_state, (*to).rate_limit)) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_copy_path_rec_from_kern(to: *mut ibv_sa_path_rec, from: *const ib_user_path_rec) {
    // SAFETY: by the manual page, `from` can be read and `to` written.
    unsafe { copy(to, from, path_from_kernel) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_copy_path_rec_to_kern(to: *mut ib_user_path_rec, from: *const ibv_sa_path_rec) {
    // SAFETY: by the manual page, `from` can be read and `to` written.
    unsafe { copy(to, from, path_to_kernel) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_survives_the_way_to_the_kernel_and_back() {
        let path = ib_user_path_rec {
            dgid: [1; 16],
            sgid: [2; 16],
            dlid: 3,
            slid: 4,
            raw_traffic: 0,
            flow_label: 5,
            reversible: 1,
            mtu: 4,
            pkey: 0xFFFF,
            hop_limit: 6,
            traffic_class: 7,
            numb_path: 8,
            sl: 9,
            mtu_selector: 2,
            rate_selector: 2,
            rate: 3,
            packet_life_time_selector: 2,
            packet_life_time: 18,
            preference: 10,
        };
        let back = path_to_kernel(&path_from_kernel(&path));
        assert_eq!((back.dgid, back.sgid, back.mtu, back.sl), (path.dgid, path.sgid, path.mtu, path.sl));
        assert_eq!((back.hop_limit, back.traffic_class, back.packet_life_time, back.preference), (6, 7, 18, 10));
    }
}
