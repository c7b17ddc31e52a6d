//! Attributes that a queue pair's transition needs and allows (IBTA 10.3.1 and 11.2.5.2; the
//! kernel's `ib_modify_qp_is_ok`).

use super::api::{QpModification, VerbsError};
use softband_types::{QpState, QpType};

const CURRENT_STATE: u32 = 1 << 0;
const ACCESS: u32 = 1 << 1;
const PKEY_INDEX: u32 = 1 << 2;
const PORT: u32 = 1 << 3;
const QKEY: u32 = 1 << 4;
const ADDRESS_VECTOR: u32 = 1 << 5;
const PATH_MTU: u32 = 1 << 6;
const TIMEOUT: u32 = 1 << 7;
const RETRY_COUNT: u32 = 1 << 8;
const RNR_RETRY: u32 = 1 << 9;
const RECEIVE_PSN: u32 = 1 << 10;
const MAX_RD_ATOMIC: u32 = 1 << 11;
const MIN_RNR_TIMER: u32 = 1 << 12;
const SEND_PSN: u32 = 1 << 13;
const MAX_DEST_RD_ATOMIC: u32 = 1 << 14;
const DEST_QPN: u32 = 1 << 15;
const DRAINED_EVENT: u32 = 1 << 16;

fn given(m: &QpModification) -> u32 {
    let bit = |given: bool, bit: u32| if given { bit } else { 0 };
    bit(m.current_state.is_some(), CURRENT_STATE)
        | bit(m.access.is_some(), ACCESS)
        | bit(m.pkey_index.is_some(), PKEY_INDEX)
        | bit(m.port.is_some(), PORT)
        | bit(m.qkey.is_some(), QKEY)
        | bit(m.address_vector.is_some(), ADDRESS_VECTOR)
        | bit(m.path_mtu.is_some(), PATH_MTU)
        | bit(m.local_ack_timeout.is_some(), TIMEOUT)
        | bit(m.retry_count.is_some(), RETRY_COUNT)
        | bit(m.rnr_retry.is_some(), RNR_RETRY)
        | bit(m.receive_psn.is_some(), RECEIVE_PSN)
        | bit(m.max_rd_atomic.is_some(), MAX_RD_ATOMIC)
        | bit(m.min_rnr_timer.is_some(), MIN_RNR_TIMER)
        | bit(m.send_psn.is_some(), SEND_PSN)
        | bit(m.max_dest_rd_atomic.is_some(), MAX_DEST_RD_ATOMIC)
        | bit(m.dest_qpn.is_some(), DEST_QPN)
        | bit(m.drained_event.is_some(), DRAINED_EVENT)
}

/// Returns the required and optional attributes from `from` to `to`, or `None` if the transition
/// does not exist.
fn rule(from: QpState, to: QpState, qp_type: QpType) -> Option<(u32, u32)> {
    use QpState::{Error, Init, Reset, Rtr, Rts, Sqd, Sqe};
    let by_type = |rc: u32, uc: u32, ud: u32| match qp_type {
        QpType::Rc => rc,
        // Each side of an extended reliable connection has the attributes that it needs.
        QpType::XrcSend => rc & !(MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER),
        QpType::XrcRecv => rc & !(RETRY_COUNT | RNR_RETRY | MAX_RD_ATOMIC),
        QpType::Uc => uc,
        QpType::Ud => ud,
    };
    let running = by_type(CURRENT_STATE | ACCESS | MIN_RNR_TIMER, CURRENT_STATE | ACCESS, CURRENT_STATE | QKEY);
    Some(match (from, to) {
        (_, Reset | Error) => (0, 0),
        (Reset, Init) => (PKEY_INDEX | PORT | by_type(ACCESS, ACCESS, QKEY), 0),
        (Init, Init) => (0, PKEY_INDEX | PORT | by_type(ACCESS, ACCESS, QKEY)),
        (Init, Rtr) => {
            let unreliable = ADDRESS_VECTOR | PATH_MTU | DEST_QPN | RECEIVE_PSN;
            let required = by_type(unreliable | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER, unreliable, 0);
            (required, PKEY_INDEX | by_type(ACCESS, ACCESS, QKEY))
        }
        (Rtr, Rts) => {
            let reliable = TIMEOUT | RETRY_COUNT | RNR_RETRY | MAX_RD_ATOMIC;
            (SEND_PSN | by_type(reliable, 0, 0), running)
        }
        (Rts, Rts) | (Sqd, Rts) => (0, running),
        (Rts, Sqd) => (0, DRAINED_EVENT),
        (Sqd, Sqd) => {
            let path = ADDRESS_VECTOR | ACCESS | PKEY_INDEX;
            let reliable = path | PORT | TIMEOUT | RETRY_COUNT | RNR_RETRY | MAX_RD_ATOMIC | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER;
            (0, by_type(reliable, path, PKEY_INDEX | QKEY))
        }
        // The send queue error state is for unreliable transports only (IBTA 10.3.1.6).
        (Sqe, Rts) if !qp_type.is_reliable() => (0, by_type(0, CURRENT_STATE | ACCESS, CURRENT_STATE | QKEY)),
        _ => return None,
    })
}

/// Returns the part of `modification` that a queue pair of this type takes. Programs give both
/// sides of an extended reliable connection all of its attributes. The kernel passes over those of
/// the other side (`modify_qp_mask` of its uverbs).
#[must_use]
pub fn of_this_side(modification: &QpModification, qp_type: QpType) -> QpModification {
    match qp_type {
        QpType::XrcSend => QpModification { max_dest_rd_atomic: None, min_rnr_timer: None, ..*modification },
        QpType::XrcRecv => QpModification { max_rd_atomic: None, retry_count: None, rnr_retry: None, ..*modification },
        _ => *modification,
    }
}

/// Returns the state that `modification` leads to from `current`.
///
/// # Errors
/// `Invalid` if the transition does not exist, lacks a required attribute, or does not take a given
/// attribute.
pub fn check_modification(current: QpState, qp_type: QpType, modification: &QpModification) -> Result<QpState, VerbsError> {
    if let Some(assumed) = modification.current_state {
        let transient = matches!(assumed, QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe);
        if !transient || assumed != current {
            return Err(VerbsError::Invalid);
        }
    }
    let next = modification.state.unwrap_or(current);
    let (required, optional) = rule(current, next, qp_type).ok_or(VerbsError::Invalid)?;
    let given = given(modification);
    if given & required != required || given & !(required | optional) != 0 {
        return Err(VerbsError::Invalid);
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_types::{Access, PortNumber, Psn, QKey};

    fn to_init(qp_type: QpType) -> QpModification {
        QpModification {
            state: Some(QpState::Init),
            pkey_index: Some(0),
            port: Some(PortNumber(1)),
            access: (qp_type != QpType::Ud).then(Access::default),
            qkey: (qp_type == QpType::Ud).then_some(QKey(1)),
            ..Default::default()
        }
    }

    #[test]
    fn each_type_has_its_own_attributes_on_the_way_to_init() {
        for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
            let good = to_init(qp_type);
            assert_eq!(check_modification(QpState::Reset, qp_type, &good), Ok(QpState::Init));
            let missing = QpModification { port: None, ..good };
            assert_eq!(check_modification(QpState::Reset, qp_type, &missing), Err(VerbsError::Invalid));
            let needless = QpModification { retry_count: Some(7), ..good };
            assert_eq!(check_modification(QpState::Reset, qp_type, &needless), Err(VerbsError::Invalid));
        }
        assert!(check_modification(QpState::Reset, QpType::Ud, &to_init(QpType::Rc)).is_err());
    }

    #[test]
    fn no_state_is_left_out_on_the_way_up_and_reset_and_error_are_always_reachable() {
        let rts = QpModification { state: Some(QpState::Rts), send_psn: Some(Psn::new(1)), ..Default::default() };
        assert_eq!(check_modification(QpState::Rtr, QpType::Ud, &rts), Ok(QpState::Rts));
        assert!(check_modification(QpState::Init, QpType::Ud, &rts).is_err());
        assert!(check_modification(QpState::Rtr, QpType::Rc, &rts).is_err());
        let all = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Sqe, QpState::Error];
        for (from, to) in all.into_iter().flat_map(|from| [(from, QpState::Reset), (from, QpState::Error)]) {
            let modification = QpModification { state: Some(to), ..Default::default() };
            assert_eq!(check_modification(from, QpType::Rc, &modification), Ok(to));
        }
    }

    #[test]
    fn a_wrong_assumption_about_the_current_state_is_refused() {
        let assumed = QpModification { state: Some(QpState::Rts), current_state: Some(QpState::Sqe), ..Default::default() };
        assert!(check_modification(QpState::Rts, QpType::Uc, &assumed).is_err());
        assert_eq!(check_modification(QpState::Sqe, QpType::Uc, &assumed), Ok(QpState::Rts));
    }

    #[test]
    fn attributes_of_the_other_side_of_an_extended_reliable_connection_are_passed_over() {
        let both = QpModification {
            min_rnr_timer: Some(12),
            max_dest_rd_atomic: Some(1),
            retry_count: Some(7),
            max_rd_atomic: Some(1),
            ..Default::default()
        };
        let (send, receive) = (of_this_side(&both, QpType::XrcSend), of_this_side(&both, QpType::XrcRecv));
        assert_eq!((send.min_rnr_timer, send.max_dest_rd_atomic, send.retry_count), (None, None, Some(7)));
        assert_eq!((receive.min_rnr_timer, receive.max_dest_rd_atomic, receive.retry_count, receive.max_rd_atomic), (Some(12), Some(1), None, None));
        assert_eq!(of_this_side(&both, QpType::Rc), both);
    }
}
