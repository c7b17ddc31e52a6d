//! Data of a read that is on the bus when its queue pair fails.

use crate::common::*;
use softband_model::verbs::api::QpModification;
use softband_types::{LinkSpeed, QpState, QpType};

const LEN: usize = 64;

/// Fails the requester of a read after `events` events. Returns the landing buffer when the read
/// completes and at the end, or `None` if the read completed before.
fn buffers_after(events: u32) -> Option<[Vec<u8>; 2]> {
    let mut lab = Lab::new(&back_to_back(LinkSpeed::Sdr, 1, 1, host_part(600, 300)));
    lab.fill(1, 0, LEN, 1);
    let (qpn, _) = lab.connect(0, 1, QpType::Rc);
    lab.send(0, qpn, lab.request(0, 1, lab.read_from(1, 0), 0, LEN as u32));
    (0..events).for_each(|_| assert!(lab.step(), "the read has more events"));
    if !lab.completions(0).is_empty() {
        return None;
    }
    lab.modify(0, qpn, QpModification { state: Some(QpState::Error), ..Default::default() }).unwrap();
    while lab.completions(0).is_empty() {
        assert!(lab.step(), "the read completes");
    }
    let landing = |lab: &Lab| lab.memory.blocks[0][..LEN].to_vec();
    let completed = landing(&lab);
    lab.run();
    Some([completed, landing(&lab)])
}

#[test]
fn nothing_lands_in_the_buffer_of_a_read_after_its_flush() {
    let runs: Vec<_> = (2..).map_while(buffers_after).collect();
    assert!(runs.len() > 5, "every event of the read is a chance to fail: {}", runs.len());
    assert!(runs.iter().any(|[completed, _]| completed[1] != 0), "some reads have landed when they fail");
    for (event, [completed, last]) in runs.iter().enumerate() {
        assert_eq!(completed, last, "after {} events", event + 2);
    }
}
