//! Work within an HCA beside other requests: binds and invalidations of windows.

use crate::common::*;
use softband_model::verbs::WindowType;
use softband_model::verbs::api::{QpModification, SendOperation, WindowBind};
use softband_types::{LinkSpeed, MrHandle, QpState, QpType, RKey, WcStatus};

/// Returns a bind of a new window of a program to the first `len_bytes` of its memory.
fn bind(lab: &mut Lab, who: usize, len_bytes: u64) -> (RKey, SendOperation) {
    let program = lab.programs[who];
    let (mw, rkey) = lab.world.alloc_mw(program.process, program.pd, WindowType::Two).unwrap();
    let (rkey, mr) = (RKey(rkey.0 | 1), Some(MrHandle(program.rkey.0)));
    (rkey, SendOperation::BindWindow(WindowBind { mw, rkey, mr, iova: BASE, len_bytes, access: ALL_RIGHTS, zero_based: false }))
}

#[test]
fn a_bind_behind_a_failed_request_is_flushed_in_its_order() {
    let mut lab = Lab::new(&back_to_back(LinkSpeed::Sdr, 1, 1, host_part(600, 300)));
    let (qpn, _) = lab.connect(0, 1, QpType::Rc);
    let (_, bind) = bind(&mut lab, 0, 64);
    // The peer has no receive request, so the send waits. The bind behind it waits for nobody.
    lab.send(0, qpn, lab.request(0, 1, SendOperation::Send { immediate: None }, 0, 8));
    lab.send(0, qpn, lab.request(0, 2, bind, 0, 0));
    (0..60).for_each(|_| assert!(lab.step(), "the send is repeated again and again"));
    assert!(lab.completions(0).is_empty());
    lab.modify(0, qpn, QpModification { state: Some(QpState::Error), ..Default::default() }).unwrap();
    lab.run();
    assert_eq!(lab.statuses(0), [(1, WcStatus::FlushError), (2, WcStatus::FlushError)]);
    let retired: Vec<u32> = lab.completions(0).iter().map(|completion| completion.send_retired).collect();
    assert_eq!(retired, [1, 2]);
}

/// Invalidates a window after `events` events of a write through it. Returns the memory behind the
/// window when a completion tells of the invalidation, and at the end. The invalidation is
/// `signaled`, or a signaled request follows it.
fn memory_after(events: u32, signaled: bool) -> [Vec<u8>; 2] {
    const LEN: usize = 16_384;
    let mut lab = Lab::new(&back_to_back(LinkSpeed::Sdr, 1, 1, host_part(600, 300)));
    lab.fill(0, 0, LEN, 1);
    let (writer, holder) = lab.connect(0, 1, QpType::Rc);
    let (rkey, bind) = bind(&mut lab, 1, LEN as u64);
    lab.send(1, holder, lab.request(1, 1, bind, 0, 0));
    lab.run();
    let write = SendOperation::RdmaWrite { remote_address: BASE, rkey, immediate: None };
    lab.send(0, writer, lab.request(0, 2, write, 0, LEN as u32));
    (0..events).for_each(|_| assert!(lab.step(), "the write has more events"));
    let invalidate = lab.request(1, 3, SendOperation::LocalInvalidate { rkey }, 0, 0);
    lab.send(1, holder, softband_model::verbs::api::SendRequest { signaled, ..invalidate });
    if !signaled {
        let (_, other) = self::bind(&mut lab, 1, 8);
        lab.send(1, holder, lab.request(1, 4, other, 0, 0));
    }
    while lab.completions(1).len() < 2 {
        assert!(lab.step(), "the invalidation completes");
    }
    assert_eq!(lab.statuses(1)[1].1, WcStatus::Success);
    let memory = |lab: &Lab| lab.memory.blocks[1][..LEN].to_vec();
    let told = memory(&lab);
    lab.run();
    [told, memory(&lab)]
}

#[test]
fn nothing_lands_through_a_window_after_its_invalidation_completed() {
    let mut partial = 0;
    for events in 0..24 {
        for signaled in [true, false] {
            let [told, last] = memory_after(events, signaled);
            assert_eq!(told, last, "after {events} events, signaled: {signaled}");
            let has_any = |bytes: &[u8]| bytes.iter().any(|byte| *byte != 0);
            partial += u32::from(has_any(&told[..64]) && !has_any(&told[told.len() - 64..]));
        }
    }
    assert!(partial >= 4, "the invalidation stops writes in the middle: {partial}");
}
