//! The send queue drained state: started work finishes, other work waits.

use crate::common::*;
use softband_model::verbs::api::*;
use softband_spec::PortRef;
use softband_types::*;

const SEND: SendOperation = SendOperation::Send { immediate: None };
const DRAINED: u32 = 5;

fn to(state: QpState) -> QpModification {
    QpModification { state: Some(state), ..Default::default() }
}

fn draining(lab: &Lab, qpn: Qpn) -> bool {
    let program = lab.programs[0];
    lab.world.query_qp(program.process, program.hca, qpn).unwrap().send_queue_draining
}

#[test]
fn a_message_that_was_begun_ends_and_then_the_event_comes_once() {
    for loss_ppm in [0, 30_000] {
        let mut lab = Lab::new(&back_to_back(LinkSpeed::Sdr, 10, 5, host_part(600, 300)));
        let (a, b) = lab.connect_with(0, 1, QpType::Rc, |m| m.retry_count = m.retry_count.map(|_| 7));
        lab.world.set_packet_loss(loss_ppm);
        lab.receive(1, b, 1, 0, 200_000);
        lab.receive(1, b, 2, 0, 200_000);
        for wr_id in [11, 12] {
            let request = lab.request(0, wr_id, SEND, 0, 100_000);
            lab.send(0, a, request);
        }
        while lab.world.packets_under_way() < 3 {
            lab.step();
        }
        lab.modify(0, a, QpModification { drained_event: Some(true), ..to(QpState::Sqd) }).unwrap();
        assert!(draining(&lab, a) && lab.async_events(0).is_empty());
        lab.run();
        assert_eq!(lab.statuses(0), [(11, WcStatus::Success)], "loss {loss_ppm}");
        assert_eq!(lab.async_events(0), [DRAINED]);
        assert!(!draining(&lab, a));
        lab.modify(0, a, to(QpState::Rts)).unwrap();
        lab.run();
        assert_eq!(lab.statuses(0), [(11, WcStatus::Success), (12, WcStatus::Success)], "loss {loss_ppm}");
        assert_eq!(lab.async_events(0), [DRAINED]);
    }
}

#[test]
fn an_idle_queue_is_drained_at_once_and_only_who_asks_is_told() {
    let mut lab = Lab::new(&back_to_back(LinkSpeed::Sdr, 10, 5, host_part(600, 300)));
    let (a, _) = lab.connect(0, 1, QpType::Rc);
    lab.modify(0, a, to(QpState::Sqd)).unwrap();
    lab.run();
    assert!(lab.async_events(0).is_empty());
    lab.modify(0, a, to(QpState::Rts)).unwrap();
    lab.modify(0, a, QpModification { drained_event: Some(true), ..to(QpState::Sqd) }).unwrap();
    lab.run();
    assert_eq!(lab.async_events(0), [DRAINED]);
    assert_eq!(lab.modify(0, a, QpModification { drained_event: Some(true), ..to(QpState::Rts) }), Err(VerbsError::Invalid));
}

#[test]
fn a_queue_pair_cannot_move_to_a_port_that_does_not_carry_its_packets() {
    for (mtu_max, fits) in [(Mtu::B1024, false), (Mtu::B2048, true)] {
        // A second port of the first host leads to a third host.
        let mut spec = back_to_back(LinkSpeed::Sdr, 10, 5, host_part(600, 300));
        let mut third = spec.hosts[1].clone();
        third.name = "c".into();
        third.hcas[0].node_guid = Guid(0x77);
        third.hcas[0].part.mtu_max = mtu_max;
        spec.hosts.push(third);
        spec.hosts[0].hcas[0].part.ports = 2;
        let mut second = spec.cables[0].clone();
        second.ends = [(0, 2), (2, 1)].map(|(host, port)| PortRef::Hca { host, hca: 0, port: PortNumber(port) });
        spec.cables.push(second);
        let mut lab = Lab::new(&spec);
        let (a, _) = lab.connect(0, 1, QpType::Rc);
        let mtu = lab.world.query_qp(lab.programs[0].process, lab.programs[0].hca, a).unwrap().path_mtu;
        assert_eq!(mtu, Mtu::B2048);
        lab.modify(0, a, to(QpState::Sqd)).unwrap();
        let moved = lab.modify(0, a, QpModification { port: Some(PortNumber(2)), ..Default::default() });
        assert_eq!(moved.is_ok(), fits, "{mtu_max:?}");
    }
}
