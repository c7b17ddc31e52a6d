//! Partitions: the P_Keys that the subnet manager gave the ports decide which hosts can
//! communicate.

use crate::common::*;
use softband_model::verbs::api::*;
use softband_types::*;

const FULL: PKey = PKey(0x8005);
const LIMITED: PKey = PKey(0x0005);

/// Sends from host 0 to host 1, both with the last key of their tables. Returns the outcome on both
/// sides.
fn send(keys: [&[PKey]; 2], qp_type: QpType) -> (Vec<WcStatus>, Vec<WcStatus>) {
    let mut spec = back_to_back(LinkSpeed::Sdr, 10, 5, host_part(600, 300));
    for (host, keys) in spec.hosts.iter_mut().zip(keys) {
        host.hcas[0].pkeys = keys.to_vec();
    }
    let mut lab = Lab::new(&spec);
    let last = [keys[0].len() as u16 - 1, keys[1].len() as u16 - 1];
    let qps = [0, 1].map(|who| lab.create(who, qp_type));
    for who in 0..2 {
        let init = |m: &mut QpModification| m.pkey_index = Some(last[who]);
        lab.bring_up_by(who, qps[who], qp_type, (1 - who, qps[1 - who]), init, |_| ());
    }
    lab.receive(1, qps[1], 1, 0, 100);
    let mut request = lab.request(0, 2, SendOperation::Send { immediate: None }, 0, 10);
    if qp_type == QpType::Ud {
        let (from, to) = (lab.programs[0], lab.programs[1]);
        let vector = AddressVector { dlid: to.lid, port: PortNumber(1), ..Default::default() };
        let ah = lab.world.create_ah(from.process, from.pd, vector).unwrap();
        request.datagram = Some(DatagramDestination { ah, remote_qpn: qps[1], remote_qkey: QKey(0x1111) });
    }
    lab.send(0, qps[0], request);
    lab.run();
    let statuses = |who: usize| lab.statuses(who).into_iter().map(|(_, status)| status).collect();
    (statuses(0), statuses(1))
}

#[test]
fn members_of_a_partition_reach_each_other_unless_both_are_limited() {
    let done = vec![WcStatus::Success];
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        for keys in [[FULL, FULL], [FULL, LIMITED], [LIMITED, FULL]] {
            assert_eq!(send([&[PKey::DEFAULT_FULL, keys[0]], &[keys[1]]], qp_type), (done.clone(), done.clone()), "{keys:?}");
        }
        for keys in [[LIMITED, LIMITED], [FULL, PKey(0x8006)]] {
            let (sent, received) = send([&[keys[0]], &[keys[1]]], qp_type);
            assert!(received.is_empty(), "{qp_type:?} {keys:?}");
            let expected = if qp_type == QpType::Rc { WcStatus::RetryExceeded } else { WcStatus::Success };
            assert_eq!(sent, [expected], "an unreliable sender does not learn of it");
        }
    }
}

#[test]
fn a_queue_pair_takes_only_keys_that_its_port_has() {
    let mut lab = Lab::new(&back_to_back(LinkSpeed::Sdr, 10, 5, host_part(600, 300)));
    let qpn = lab.create(0, QpType::Rc);
    let init =
        QpModification { state: Some(QpState::Init), pkey_index: Some(1), port: Some(PortNumber(1)), access: Some(ALL_RIGHTS), ..Default::default() };
    assert_eq!(lab.modify(0, qpn, init), Err(VerbsError::Invalid));
    assert!(lab.modify(0, qpn, QpModification { pkey_index: Some(0), ..init }).is_ok());
}
