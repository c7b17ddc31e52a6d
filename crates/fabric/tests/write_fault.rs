//! Messages behind a write whose region goes away while the write is on the bus.

use crate::common::*;
use softband_model::verbs::api::{MrInit, PayloadSlice, SendOperation, SendRequest};
use softband_types::{LinkSpeed, QpType, WcStatus};

const LEN: u32 = 4096;
const WRITE: u64 = 100;
const SENDS: u64 = 3;
const RECEIVES: u64 = 5;
/// Offset of the buffers of the receives, behind the region that goes.
const LANDING: u64 = 0x8000;

type Statuses = Vec<(u64, WcStatus)>;

/// The receiver's program, and where its buffers are.
#[derive(Clone, Copy)]
struct Layout {
    /// 0: on the sender's HCA. Its packets arrive as the HCA makes them ready, without a link.
    receiver: usize,
    /// The buffers of the receives are in the region that goes.
    lands_in_target: bool,
}

const PEER: Layout = Layout { receiver: 1, lands_in_target: false };

/// Deregisters the target of a write after `events` events. Returns the completions of the sender
/// and of the receiver, or `None` if there are fewer events.
fn statuses_after(layout: Layout, events: u32) -> Option<[Statuses; 2]> {
    let mut part = host_part(600, 300);
    // The bus is slower than the link, so many packets wait for it.
    part.memory.bytes_per_second = Some(200_000_000);
    let mut lab = Lab::new(&back_to_back(LinkSpeed::Sdr, 1, 1, part));
    let receiver = layout.receiver;
    let (qpn, peer) = lab.connect(0, receiver, QpType::Rc);
    let to = lab.programs[receiver];
    let init = MrInit { owner: to.process, pd: to.pd, address: BASE, len_bytes: 0x1000, iova: BASE, access: ALL_RIGHTS };
    let (target, lkey, rkey) = lab.world.register_mr(to.hca, init).unwrap();
    for n in 0..RECEIVES {
        let (lkey, offset) = if layout.lands_in_target { (lkey, n * 64) } else { (to.lkey, LANDING + n * 64) };
        lab.receive_with(receiver, peer, n, offset, 64, lkey);
    }
    // The freed places of earlier packets give the later ones no order.
    (0..SENDS).for_each(|_| lab.send(0, qpn, SendRequest { signaled: false, ..lab.request(0, WRITE, lab.write_to(receiver, 0x3000), 0x2000, 64) }));
    lab.run();
    let inline = Some(PayloadSlice { buffer: Some(vec![7; 64].into()), offset: 0, len: 64 });
    let send = |lab: &mut Lab, n| {
        let request = lab.request(0, n, SendOperation::Send { immediate: None }, 0x2000, 64);
        lab.send(0, qpn, SendRequest { inline: inline.clone(), ..request });
    };
    if layout.lands_in_target {
        (0..SENDS).for_each(|n| send(&mut lab, n));
    }
    let write = SendOperation::RdmaWrite { remote_address: BASE, rkey, immediate: None };
    lab.send(0, qpn, lab.request(0, WRITE, write, 0x2000, LEN));
    if !layout.lands_in_target {
        (0..SENDS).for_each(|n| send(&mut lab, n));
    }
    for _ in 0..events {
        if !lab.step() {
            return None;
        }
    }
    lab.world.deregister_mr(to.process, target).unwrap();
    lab.run();
    Some([lab.statuses_of(0, qpn), lab.statuses_of(receiver, peer)])
}

fn all_are(run: &Statuses, status: WcStatus) -> bool {
    run.iter().all(|(_, found)| *found == status)
}

fn runs(layout: Layout) -> Vec<[Statuses; 2]> {
    let runs: Vec<_> = (0..).map_while(|events| statuses_after(layout, events)).collect();
    for (events, [_, received]) in runs.iter().enumerate() {
        assert!(received.iter().map(|(wr_id, _)| *wr_id).eq(0..received.len() as u64), "after {events} events: {received:?}");
    }
    runs
}

fn assert_nothing_succeeds_behind_a_failure(layout: Layout) {
    let runs = runs(layout);
    assert!(runs.iter().any(|[_, received]| all_are(received, WcStatus::FlushError)), "a write failed");
    assert!(runs.iter().any(|[_, received]| all_are(received, WcStatus::Success)), "a write succeeded");
    for (events, [sent, received]) in runs.iter().enumerate() {
        let succeeded = received.len() as u64 == SENDS && all_are(received, WcStatus::Success) && all_are(sent, WcStatus::Success);
        let failed = received.len() as u64 == RECEIVES
            && all_are(received, WcStatus::FlushError)
            && !sent.iter().any(|(_, status)| *status == WcStatus::Success);
        assert!(succeeded || failed, "after {events} events: {sent:?}, {received:?}");
    }
}

#[test]
fn no_message_succeeds_behind_a_write_that_failed() {
    assert_nothing_succeeds_behind_a_failure(PEER);
}

#[test]
fn packets_of_the_own_hca_that_arrive_at_once_fail_in_order() {
    assert_nothing_succeeds_behind_a_failure(Layout { receiver: 0, ..PEER });
}

#[test]
fn receives_on_the_bus_fail_before_those_that_an_access_error_flushed() {
    let runs = runs(Layout { lands_in_target: true, ..PEER });
    let lost = |(_, status): &(u64, WcStatus)| *status == WcStatus::LocalProtectionError;
    assert!(runs.iter().any(|[_, received]| received.iter().any(lost)), "a receive lost its buffer on the bus");
    assert!(runs.iter().all(|[_, received]| [SENDS, RECEIVES].contains(&(received.len() as u64))), "each receive completes once: {runs:?}");
}
