//! The audit of credits, staging places and requesters, between the events of a busy fabric.

use crate::common::*;
use softband_model::verbs::api::SendOperation;
use softband_types::{LinkSpeed, QpType};

#[test]
fn every_block_is_accounted_for_after_each_event_and_a_lost_one_is_noticed() {
    let mut lab = Lab::new(&through_switch(LinkSpeed::Sdr, &[1, 10, 1], 2, host_part(600, 300)));
    lab.world.set_packet_loss(20_000);
    let pairs = [(0, lab.connect(0, 2, QpType::Rc)), (1, lab.connect(1, 2, QpType::Rc))];
    for wr_id in 0..20 {
        for (from, (qpn, peer)) in pairs {
            lab.receive(2, peer, wr_id, 0, 10_000);
            lab.send(from, qpn, lab.request(from, wr_id, SendOperation::Send { immediate: None }, 0, 9_000));
            lab.send(from, qpn, lab.request(from, 100 + wr_id, lab.read_from(2, 0), 20_000, 5_000));
        }
    }
    let mut events = 0;
    while lab.step() {
        events += 1;
        assert_eq!(lab.world.audit(), Ok(()), "after {events} events");
    }
    assert!(events > 2_000, "too little happened: {events}");
    assert!(lab.world.lose_credits());
    let error = lab.world.audit().expect_err("a block is missing");
    assert!(error.contains("misses 1 blocks of VL0") && error.contains("0 are held"), "{error}");
}
