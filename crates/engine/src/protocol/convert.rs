//! Conversions between the numbers of the protocol (those of `verbs.h`) and the types of the model.

use softband_ipc::calls::{AddressVector as WireVector, QpFields, RegisterMr};
use softband_ipc::post::{BindInfo, PostRecord, PostSge, opcode, send_flags};
use softband_model::management::agent::LinkState;
use softband_model::verbs::api::{
    AddressVector, DatagramDestination, GlobalRoute, PayloadSlice, QpCapabilities, QpInit, QpModification, QpSnapshot, ReceiveRequest,
    ScatterGatherEntry, SendOperation, SendRequest, VerbsError, WindowBind,
};
use softband_types::{
    Access, AhHandle, CqHandle, Gid, LKey, Lid, LinkLayer, LinkSpeed, MrHandle, Mtu, MwHandle, PdHandle, PortNumber, Psn, QKey, QpState, QpType, Qpn,
    RKey, ServiceLevel, SrqHandle, XrcdHandle,
};
use softband_wire::mad::PhysicalState;
use std::sync::Arc;

/// Bits of `enum ibv_access_flags`.
const ACCESS_LOCAL_WRITE: u32 = 1;
const ACCESS_REMOTE_WRITE: u32 = 2;
const ACCESS_REMOTE_READ: u32 = 4;
const ACCESS_REMOTE_ATOMIC: u32 = 8;
const ACCESS_MW_BIND: u32 = 16;
const ACCESS_ZERO_BASED: u32 = 32;
/// Bits without effect here: on-demand paging, relaxed ordering and the other optional flags.
const ACCESS_OPTIONAL: u32 = 0x3FF0_0000 | RegisterMr::ACCESS_ON_DEMAND;

/// Bits of `enum ibv_qp_attr_mask`.
mod mask {
    pub(crate) const STATE: u32 = 1;
    pub(crate) const CUR_STATE: u32 = 1 << 1;
    pub(crate) const EN_SQD_ASYNC_NOTIFY: u32 = 1 << 2;
    pub(crate) const ACCESS_FLAGS: u32 = 1 << 3;
    pub(crate) const PKEY_INDEX: u32 = 1 << 4;
    pub(crate) const PORT: u32 = 1 << 5;
    pub(crate) const QKEY: u32 = 1 << 6;
    pub(crate) const AV: u32 = 1 << 7;
    pub(crate) const PATH_MTU: u32 = 1 << 8;
    pub(crate) const TIMEOUT: u32 = 1 << 9;
    pub(crate) const RETRY_CNT: u32 = 1 << 10;
    pub(crate) const RNR_RETRY: u32 = 1 << 11;
    pub(crate) const RQ_PSN: u32 = 1 << 12;
    pub(crate) const MAX_QP_RD_ATOMIC: u32 = 1 << 13;
    pub(crate) const MIN_RNR_TIMER: u32 = 1 << 15;
    pub(crate) const SQ_PSN: u32 = 1 << 16;
    pub(crate) const MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
    pub(crate) const DEST_QPN: u32 = 1 << 20;
    pub(crate) const KNOWN: u32 = STATE
        | CUR_STATE
        | EN_SQD_ASYNC_NOTIFY
        | ACCESS_FLAGS
        | PKEY_INDEX
        | PORT
        | QKEY
        | AV
        | PATH_MTU
        | TIMEOUT
        | RETRY_CNT
        | RNR_RETRY
        | RQ_PSN
        | MAX_QP_RD_ATOMIC
        | MIN_RNR_TIMER
        | SQ_PSN
        | MAX_DEST_RD_ATOMIC
        | DEST_QPN;
}

pub(crate) fn errno_of(error: VerbsError) -> i32 {
    match error {
        VerbsError::Invalid => libc::EINVAL,
        VerbsError::Absent => libc::EAGAIN,
        VerbsError::Busy => libc::EBUSY,
        VerbsError::NoMemory => libc::ENOMEM,
        VerbsError::Unsupported => libc::EOPNOTSUPP,
        VerbsError::Forbidden => libc::EPERM,
        // The errno of the kernel after a failed neighbour lookup.
        VerbsError::Unresolved => libc::ETIMEDOUT,
    }
}

pub(crate) fn access(bits: u32) -> Result<Access, i32> {
    let known = ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC | ACCESS_MW_BIND | ACCESS_OPTIONAL;
    if bits & !known != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    Ok(Access {
        local_write: bits & ACCESS_LOCAL_WRITE != 0,
        remote_write: bits & ACCESS_REMOTE_WRITE != 0,
        remote_read: bits & ACCESS_REMOTE_READ != 0,
        remote_atomic: bits & ACCESS_REMOTE_ATOMIC != 0,
        mw_bind: bits & ACCESS_MW_BIND != 0,
    })
}

pub(crate) fn access_bits(access: Access) -> u32 {
    (u32::from(access.local_write) * ACCESS_LOCAL_WRITE)
        | (u32::from(access.remote_write) * ACCESS_REMOTE_WRITE)
        | (u32::from(access.remote_read) * ACCESS_REMOTE_READ)
        | (u32::from(access.remote_atomic) * ACCESS_REMOTE_ATOMIC)
        | (u32::from(access.mw_bind) * ACCESS_MW_BIND)
}

/// Returns a port's state as in `enum ibv_port_state`, which is that of PortInfo.
pub(crate) fn state_code(state: Option<LinkState>) -> u8 {
    match state {
        None => 1,
        Some(LinkState::Init) => 2,
        Some(LinkState::Armed) => 3,
        Some(LinkState::Active) => 4,
    }
}

/// Returns a port's physical state as in PortInfo (IBTA 14.2.5.6).
pub(crate) fn physical_state_code(state: Option<LinkState>, is_disabled: bool) -> u8 {
    let physical = match state {
        _ if is_disabled => PhysicalState::DISABLED,
        None => PhysicalState::POLLING,
        Some(_) => PhysicalState::LINK_UP,
    };
    physical.0
}

/// Returns the code of a link layer in `struct ibv_port_attr`.
pub(crate) fn link_layer_code(layer: LinkLayer) -> u32 {
    match layer {
        LinkLayer::Infiniband => 1,
        LinkLayer::Ethernet => 2,
    }
}

/// Returns the code of a link's speed. The kernel's drivers report an Ethernet lane of 10.3 Gb/s as
/// QDR.
pub(crate) fn speed_code(layer: LinkLayer, speed: LinkSpeed) -> u32 {
    let abi_speed = if layer == LinkLayer::Ethernet && speed == LinkSpeed::Fdr10 { LinkSpeed::Qdr } else { speed };
    u32::from(abi_speed.code())
}

/// Returns the code of an MTU in `enum ibv_mtu`.
pub(crate) fn mtu_code(mtu: Mtu) -> u32 {
    Mtu::ALL.iter().position(|other| *other == mtu).map_or(0, |index| index as u32 + 1)
}

fn mtu(code: u32) -> Result<Mtu, i32> {
    code.checked_sub(1).and_then(|index| Mtu::ALL.get(index as usize)).copied().ok_or(libc::EINVAL)
}

fn qp_state(code: u32) -> Result<QpState, i32> {
    Ok(match code {
        0 => QpState::Reset,
        1 => QpState::Init,
        2 => QpState::Rtr,
        3 => QpState::Rts,
        4 => QpState::Sqd,
        5 => QpState::Sqe,
        6 => QpState::Error,
        _ => return Err(libc::EINVAL),
    })
}

fn byte(value: u32) -> Result<u8, i32> {
    u8::try_from(value).map_err(|_| libc::EINVAL)
}

pub(crate) fn qp_init(fields: &QpFields) -> Result<QpInit, i32> {
    let qp_type = match fields.qp_type {
        2 => QpType::Rc,
        3 => QpType::Uc,
        4 => QpType::Ud,
        9 => QpType::XrcSend,
        10 => QpType::XrcRecv,
        _ => return Err(libc::EOPNOTSUPP),
    };
    Ok(QpInit {
        qp_type,
        pd: PdHandle(fields.pd),
        send_cq: CqHandle(fields.send_cq),
        recv_cq: CqHandle(fields.recv_cq),
        srq: (fields.srq != 0).then_some(SrqHandle(fields.srq)),
        xrcd: (fields.xrcd != 0).then_some(XrcdHandle(fields.xrcd)),
        capabilities: QpCapabilities {
            max_send_wr: fields.max_send_wr,
            max_recv_wr: fields.max_recv_wr,
            max_send_sge: fields.max_send_sge,
            max_recv_sge: fields.max_recv_sge,
            max_inline_bytes: fields.max_inline,
        },
        signal_all: fields.signal_all != 0,
        block_own_multicast: fields.block_own_multicast != 0,
    })
}

pub(crate) fn vector(wire: &WireVector) -> Result<AddressVector, i32> {
    let grh = GlobalRoute {
        dgid: Gid(wire.dgid),
        flow_label: wire.flow_label,
        sgid_index: byte(wire.sgid_index)?,
        hop_limit: byte(wire.hop_limit)?,
        traffic_class: byte(wire.traffic_class)?,
    };
    Ok(AddressVector {
        dlid: Lid(u16::try_from(wire.dlid).map_err(|_| libc::EINVAL)?),
        service_level: ServiceLevel(byte(wire.service_level)?),
        source_path_bits: byte(wire.source_path_bits)?,
        static_rate: byte(wire.static_rate)?,
        port: PortNumber(byte(wire.port)?),
        grh: (wire.is_global != 0).then_some(grh),
    })
}

fn wire_vector(vector: &AddressVector) -> WireVector {
    let grh = vector.grh.unwrap_or_default();
    WireVector {
        dlid: u32::from(vector.dlid.0),
        service_level: u32::from(vector.service_level.0),
        source_path_bits: u32::from(vector.source_path_bits),
        static_rate: u32::from(vector.static_rate),
        port: u32::from(vector.port.0),
        is_global: u32::from(vector.grh.is_some()),
        dgid: grh.dgid.0,
        flow_label: grh.flow_label,
        sgid_index: u32::from(grh.sgid_index),
        hop_limit: u32::from(grh.hop_limit),
        traffic_class: u32::from(grh.traffic_class),
    }
}

pub(crate) fn modification(bits: u32, fields: &QpFields) -> Result<QpModification, i32> {
    if bits & !mask::KNOWN != 0 {
        return Err(libc::EINVAL);
    }
    let has = |bit: u32| bits & bit != 0;
    let mut change = QpModification::default();
    if has(mask::STATE) {
        change.state = Some(qp_state(fields.state)?);
    }
    if has(mask::CUR_STATE) {
        change.current_state = Some(qp_state(fields.current_state)?);
    }
    if has(mask::ACCESS_FLAGS) {
        change.access = Some(access(fields.access)?);
    }
    if has(mask::PKEY_INDEX) {
        change.pkey_index = Some(u16::try_from(fields.pkey_index).map_err(|_| libc::EINVAL)?);
    }
    if has(mask::PORT) {
        change.port = Some(PortNumber(byte(fields.port)?));
    }
    if has(mask::QKEY) {
        change.qkey = Some(QKey(fields.qkey));
    }
    if has(mask::AV) {
        change.address_vector = Some(vector(&fields.vector)?);
    }
    if has(mask::PATH_MTU) {
        change.path_mtu = Some(mtu(fields.path_mtu_code)?);
    }
    change.local_ack_timeout = has(mask::TIMEOUT).then(|| byte(fields.timeout)).transpose()?;
    change.retry_count = has(mask::RETRY_CNT).then(|| byte(fields.retry_count)).transpose()?;
    change.rnr_retry = has(mask::RNR_RETRY).then(|| byte(fields.rnr_retry)).transpose()?;
    change.receive_psn = has(mask::RQ_PSN).then(|| Psn::new(fields.receive_psn));
    change.send_psn = has(mask::SQ_PSN).then(|| Psn::new(fields.send_psn));
    change.max_rd_atomic = has(mask::MAX_QP_RD_ATOMIC).then(|| byte(fields.max_rd_atomic)).transpose()?;
    change.max_dest_rd_atomic = has(mask::MAX_DEST_RD_ATOMIC).then(|| byte(fields.max_dest_rd_atomic)).transpose()?;
    change.min_rnr_timer = has(mask::MIN_RNR_TIMER).then(|| byte(fields.min_rnr_timer)).transpose()?;
    change.drained_event = has(mask::EN_SQD_ASYNC_NOTIFY).then_some(fields.drained_event != 0);
    change.dest_qpn = has(mask::DEST_QPN).then_some(Qpn(fields.dest_qpn & 0xFF_FFFF));
    Ok(change)
}

pub(crate) fn qp_fields(hca: u32, qp: &QpSnapshot) -> QpFields {
    let caps = &qp.init.capabilities;
    QpFields {
        hca,
        qpn: qp.qpn.0,
        qp_type: match qp.init.qp_type {
            QpType::Rc => 2,
            QpType::Uc => 3,
            QpType::Ud => 4,
            QpType::XrcSend => 9,
            QpType::XrcRecv => 10,
        },
        pd: qp.init.pd.0,
        send_cq: qp.init.send_cq.0,
        recv_cq: qp.init.recv_cq.0,
        srq: qp.init.srq.map_or(0, |srq| srq.0),
        xrcd: qp.init.xrcd.map_or(0, |xrcd| xrcd.0),
        signal_all: u32::from(qp.init.signal_all),
        block_own_multicast: u32::from(qp.init.block_own_multicast),
        max_send_wr: caps.max_send_wr,
        max_recv_wr: caps.max_recv_wr,
        max_send_sge: caps.max_send_sge,
        max_recv_sge: caps.max_recv_sge,
        max_inline: caps.max_inline_bytes,
        state: qp.state as u32,
        current_state: qp.state as u32,
        path_mtu_code: mtu_code(qp.path_mtu),
        qkey: qp.qkey.0,
        receive_psn: qp.receive_psn.value(),
        send_psn: qp.send_psn.value(),
        dest_qpn: qp.dest_qpn.0,
        access: access_bits(qp.access),
        pkey_index: u32::from(qp.pkey_index),
        port: u32::from(qp.port.0),
        max_rd_atomic: u32::from(qp.max_rd_atomic),
        max_dest_rd_atomic: u32::from(qp.max_dest_rd_atomic),
        min_rnr_timer: u32::from(qp.min_rnr_timer),
        timeout: u32::from(qp.local_ack_timeout),
        retry_count: u32::from(qp.retry_count),
        rnr_retry: u32::from(qp.rnr_retry),
        drained_event: 0,
        draining: u32::from(qp.send_queue_draining),
        direct: 0,
        reserved: 0,
        since_ps: [0; 2],
        vector: wire_vector(&qp.address_vector),
    }
}

fn entries(wire: &[PostSge]) -> Vec<ScatterGatherEntry> {
    wire.iter().map(|entry| ScatterGatherEntry { address: entry.address, len_bytes: entry.len_bytes, lkey: LKey(entry.lkey) }).collect()
}

pub(crate) fn receive_request(record: &PostRecord, wire: &[PostSge]) -> ReceiveRequest {
    ReceiveRequest { wr_id: record.wr_id, entries: entries(wire), srq: None }
}

/// Converts a record into a send request. Returns `None` for an unknown opcode or an invalid bind.
pub(crate) fn send_request(record: &PostRecord, wire: &[PostSge], inline: &[u8], qp_type: QpType) -> Option<SendRequest> {
    let (remote_address, rkey) = (record.remote_address, RKey(record.rkey));
    let operation = match record.opcode {
        opcode::SEND => SendOperation::Send { immediate: None },
        opcode::SEND_WITH_IMM => SendOperation::Send { immediate: Some(record.immediate) },
        opcode::SEND_WITH_INV => SendOperation::SendAndInvalidate { rkey },
        opcode::ATOMIC_WRITE => SendOperation::AtomicWrite { remote_address, rkey },
        opcode::LOCAL_INV => SendOperation::LocalInvalidate { rkey },
        opcode::BIND_MW => SendOperation::BindWindow(window_bind(rkey, inline)?),
        opcode::RDMA_WRITE => SendOperation::RdmaWrite { remote_address, rkey, immediate: None },
        opcode::RDMA_WRITE_WITH_IMM => SendOperation::RdmaWrite { remote_address, rkey, immediate: Some(record.immediate) },
        opcode::RDMA_READ => SendOperation::RdmaRead { remote_address, rkey },
        opcode::ATOMIC_CMP_AND_SWP => SendOperation::CompareSwap { remote_address, rkey, compare: record.compare_or_add, swap: record.swap },
        opcode::ATOMIC_FETCH_AND_ADD => SendOperation::FetchAdd { remote_address, rkey, add: record.compare_or_add },
        _ => return None,
    };
    let is_inline = record.flags & send_flags::INLINE != 0;
    let destination =
        DatagramDestination { ah: AhHandle(record.ah), remote_qpn: Qpn(record.remote_qpn & 0xFF_FFFF), remote_qkey: QKey(record.remote_qkey) };
    Some(SendRequest {
        wr_id: record.wr_id,
        operation,
        signaled: record.flags & send_flags::SIGNALED != 0,
        solicited: record.flags & send_flags::SOLICITED != 0,
        fence: record.flags & send_flags::FENCE != 0,
        inline: is_inline.then(|| PayloadSlice { buffer: Some(Arc::from(inline)), offset: 0, len: inline.len() as u32 }),
        entries: if is_inline { Vec::new() } else { entries(wire) },
        datagram: (qp_type == QpType::Ud).then_some(destination),
        xrc_srq: (qp_type == QpType::XrcSend).then_some(record.xrc_srq),
    })
}

fn window_bind(rkey: RKey, bytes: &[u8]) -> Option<WindowBind> {
    let info: BindInfo = bytemuck::pod_read_unaligned(bytes.get(..size_of::<BindInfo>())?);
    Some(WindowBind {
        mw: MwHandle(info.mw),
        rkey,
        mr: (info.mr != 0).then_some(MrHandle(info.mr)),
        iova: info.address,
        len_bytes: info.len_bytes,
        access: access(info.access & !ACCESS_ZERO_BASED).ok()?,
        zero_based: info.access & ACCESS_ZERO_BASED != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_the_mtu_are_those_of_the_header() {
        assert_eq!(mtu_code(Mtu::B256), 1);
        assert_eq!(mtu_code(Mtu::B4096), 5);
        assert_eq!(mtu(4), Ok(Mtu::B2048));
        assert_eq!(mtu(0), Err(libc::EINVAL));
        assert_eq!(mtu(6), Err(libc::EINVAL));
    }

    #[test]
    fn unknown_bits_of_a_mask_or_access_are_refused() {
        let fields = bytemuck::Zeroable::zeroed();
        assert_eq!(modification(1 << 30, &fields), Err(libc::EINVAL));
        assert_eq!(access(0x20), Err(libc::EOPNOTSUPP));
        assert!(access(0x10_0001).unwrap().local_write);
    }
}
