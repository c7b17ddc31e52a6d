//! Conversions between the header's structures and the engine's.

use softband_abi::verbs::{ibv_ah_attr, ibv_gid, ibv_global_route, ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr, ibv_wc};
use softband_ipc::calls::{AddressVector, QpFields};
use softband_ipc::ring::{Cqe, flags};

/// Converts a number of the engine to the header's width. Replaces a number that does not fit by
/// the largest.
pub(crate) fn narrow<T: TryFrom<u32> + Bounded>(value: u32) -> T {
    T::try_from(value).unwrap_or(T::LARGEST)
}

pub(crate) trait Bounded {
    const LARGEST: Self;
}

impl Bounded for u8 {
    const LARGEST: Self = Self::MAX;
}

impl Bounded for u16 {
    const LARGEST: Self = Self::MAX;
}

pub(crate) fn address_vector(attributes: &ibv_ah_attr) -> AddressVector {
    AddressVector {
        dlid: attributes.dlid.into(),
        service_level: attributes.sl.into(),
        source_path_bits: attributes.src_path_bits.into(),
        static_rate: attributes.static_rate.into(),
        port: attributes.port_num.into(),
        is_global: u32::from(attributes.is_global != 0),
        // SAFETY: any sixteen bytes are a GID.
        dgid: unsafe { attributes.grh.dgid.raw },
        flow_label: attributes.grh.flow_label,
        sgid_index: attributes.grh.sgid_index.into(),
        hop_limit: attributes.grh.hop_limit.into(),
        traffic_class: attributes.grh.traffic_class.into(),
    }
}

pub(crate) fn ah_attributes(vector: &AddressVector) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: vector.dgid },
            flow_label: vector.flow_label,
            sgid_index: narrow(vector.sgid_index),
            hop_limit: narrow(vector.hop_limit),
            traffic_class: narrow(vector.traffic_class),
        },
        dlid: narrow(vector.dlid),
        sl: narrow(vector.service_level),
        src_path_bits: narrow(vector.source_path_bits),
        static_rate: narrow(vector.static_rate),
        is_global: u8::from(vector.is_global != 0),
        port_num: narrow(vector.port),
    }
}

pub(crate) fn capabilities(fields: &QpFields) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: fields.max_send_wr,
        max_recv_wr: fields.max_recv_wr,
        max_send_sge: fields.max_send_sge,
        max_recv_sge: fields.max_recv_sge,
        max_inline_data: fields.max_inline,
    }
}

/// Converts the creation attributes. Handles name the objects.
pub(crate) fn init_fields(init: &ibv_qp_init_attr, hca: u32, pd: u32, send_cq: u32, recv_cq: u32) -> QpFields {
    QpFields {
        hca,
        qp_type: init.qp_type,
        pd,
        send_cq,
        recv_cq,
        signal_all: u32::from(init.sq_sig_all != 0),
        max_send_wr: init.cap.max_send_wr,
        max_recv_wr: init.cap.max_recv_wr,
        max_send_sge: init.cap.max_send_sge,
        max_recv_sge: init.cap.max_recv_sge,
        max_inline: init.cap.max_inline_data,
        ..bytemuck::Zeroable::zeroed()
    }
}

pub(crate) fn qp_fields(attributes: &ibv_qp_attr) -> QpFields {
    QpFields {
        state: attributes.qp_state,
        current_state: attributes.cur_qp_state,
        path_mtu_code: attributes.path_mtu,
        qkey: attributes.qkey,
        receive_psn: attributes.rq_psn,
        send_psn: attributes.sq_psn,
        dest_qpn: attributes.dest_qp_num,
        access: attributes.qp_access_flags,
        pkey_index: attributes.pkey_index.into(),
        port: attributes.port_num.into(),
        max_rd_atomic: attributes.max_rd_atomic.into(),
        max_dest_rd_atomic: attributes.max_dest_rd_atomic.into(),
        min_rnr_timer: attributes.min_rnr_timer.into(),
        timeout: attributes.timeout.into(),
        retry_count: attributes.retry_cnt.into(),
        rnr_retry: attributes.rnr_retry.into(),
        drained_event: attributes.en_sqd_async_notify.into(),
        vector: address_vector(&attributes.ah_attr),
        ..bytemuck::Zeroable::zeroed()
    }
}

pub(crate) fn qp_attributes(fields: &QpFields) -> ibv_qp_attr {
    ibv_qp_attr {
        qp_state: fields.state,
        cur_qp_state: fields.current_state,
        path_mtu: fields.path_mtu_code,
        path_mig_state: softband_abi::verbs::IBV_MIG_MIGRATED,
        qkey: fields.qkey,
        rq_psn: fields.receive_psn,
        sq_psn: fields.send_psn,
        dest_qp_num: fields.dest_qpn,
        qp_access_flags: fields.access,
        cap: capabilities(fields),
        ah_attr: ah_attributes(&fields.vector),
        alt_ah_attr: ah_attributes(&bytemuck::Zeroable::zeroed()),
        pkey_index: narrow(fields.pkey_index),
        alt_pkey_index: 0,
        en_sqd_async_notify: narrow(fields.drained_event),
        sq_draining: narrow(fields.draining),
        max_rd_atomic: narrow(fields.max_rd_atomic),
        max_dest_rd_atomic: narrow(fields.max_dest_rd_atomic),
        min_rnr_timer: narrow(fields.min_rnr_timer),
        port_num: narrow(fields.port),
        timeout: narrow(fields.timeout),
        retry_cnt: narrow(fields.retry_count),
        rnr_retry: narrow(fields.rnr_retry),
        alt_port_num: 0,
        alt_timeout: 0,
        rate_limit: 0,
    }
}

/// Returns the header's bits of `wc_flags`. The ring has another bit of its own.
pub(crate) fn wc_flags(cqe: &Cqe) -> u32 {
    cqe.flags & (flags::GRH | flags::WITH_IMMEDIATE | flags::WITH_INVALIDATE)
}

/// Returns the field `imm_data`: immediate data in network order, or an invalidated key as a plain
/// number.
pub(crate) fn immediate_or_key(cqe: &Cqe) -> u32 {
    if cqe.flags & flags::WITH_INVALIDATE != 0 { cqe.immediate } else { cqe.immediate.to_be() }
}

pub(crate) fn work_completion(cqe: &Cqe) -> ibv_wc {
    ibv_wc {
        wr_id: cqe.wr_id,
        status: cqe.status,
        opcode: cqe.opcode,
        vendor_err: cqe.vendor_error,
        byte_len: cqe.byte_len,
        imm_data: immediate_or_key(cqe),
        qp_num: cqe.qpn,
        src_qp: cqe.source_qpn,
        wc_flags: wc_flags(cqe),
        pkey_index: cqe.pkey_index,
        slid: cqe.source_lid,
        sl: cqe.service_level,
        dlid_path_bits: cqe.path_bits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;
    use softband_abi::verbs::{IBV_WC_GRH, IBV_WC_WITH_IMM};

    #[test]
    fn attributes_survive_the_way_to_the_engine_and_back() {
        let mut fields = QpFields::zeroed();
        (fields.state, fields.path_mtu_code, fields.dest_qpn, fields.send_psn) = (3, 4, 0x12_3456, 0xAB_CDEF);
        (fields.timeout, fields.retry_count, fields.rnr_retry, fields.min_rnr_timer) = (14, 7, 6, 12);
        (fields.access, fields.pkey_index, fields.port, fields.max_rd_atomic) = (0xF, 1, 2, 4);
        fields.vector.dlid = 17;
        fields.vector.is_global = 1;
        fields.vector.dgid = *b"0123456789abcdef";
        fields.vector.flow_label = 0xF_1234;
        let back = qp_fields(&qp_attributes(&fields));
        assert_eq!(bytemuck::bytes_of(&back), bytemuck::bytes_of(&fields));
    }

    #[test]
    fn immediate_data_is_in_network_order_in_a_completion() {
        let mut cqe = Cqe::zeroed();
        (cqe.immediate, cqe.flags, cqe.source_lid) = (0x0102_0304, flags::WITH_IMMEDIATE | flags::GRH | flags::RECEIVE, 9);
        let wc = work_completion(&cqe);
        assert_eq!(wc.imm_data.to_ne_bytes(), [1, 2, 3, 4]);
        assert_eq!((wc.wc_flags, wc.slid), (IBV_WC_GRH | IBV_WC_WITH_IMM, 9));
    }

    #[test]
    fn a_number_that_does_not_fit_is_cut_to_the_largest() {
        assert_eq!(narrow::<u8>(300), 255);
        assert_eq!(narrow::<u16>(300), 300);
    }
}
