//! Messages behind a write whose region goes away while the write is on the bus.
mod common;

use common::*;
use softband_model::verbs::api::{MrInit, SendOperation};
use softband_types::{LinkSpeed, QpType, WcStatus};

const LEN: u32 = 4096;
const WRITE: u64 = 100;
const SENDS: u64 = 3;
const RECEIVES: u64 = 5;
/// Offset of the buffers of the receives, behind the region that goes.
const LANDING: u64 = 0x8000;

type Statuses = Vec<(u64, WcStatus)>;

/// Deregisters the target of a write after `events` events. Returns the completions of the sender
/// and of the receiver, or `None` if there are fewer events.
fn statuses_after(events: u32) -> Option<[Statuses; 2]> {
    let mut part = host_part(600, 300);
    // The bus is slower than the link, so many packets wait for it.
    part.memory.bytes_per_second = Some(200_000_000);
    let mut lab = Lab::new(&back_to_back(LinkSpeed::Sdr, 1, 1, part));
    let (qpn, peer) = lab.connect(0, 1, QpType::Rc);
    let to = lab.programs[1];
    let init = MrInit { owner: to.process, pd: to.pd, address: BASE, len_bytes: 0x1000, iova: BASE, access: ALL_RIGHTS };
    let (target, _, rkey) = lab.world.register_mr(to.hca, init).unwrap();
    (0..RECEIVES).for_each(|n| lab.receive(1, peer, n, LANDING + n * 64, 64));
    let write = SendOperation::RdmaWrite { remote_address: BASE, rkey, immediate: None };
    lab.send(0, qpn, lab.request(0, WRITE, write, 0, LEN));
    for n in 0..SENDS {
        lab.send(0, qpn, lab.request(0, n, SendOperation::Send { immediate: None }, 0, 64));
    }
    for _ in 0..events {
        if !lab.step() {
            return None;
        }
    }
    lab.world.deregister_mr(to.process, target).unwrap();
    lab.run();
    Some([lab.statuses(0), lab.statuses(1)])
}

#[test]
fn no_message_succeeds_behind_a_write_that_failed() {
    let runs: Vec<_> = (0..).map_while(statuses_after).collect();
    let all_are = |run: &Statuses, status: WcStatus| run.iter().all(|(_, found)| *found == status);
    assert!(runs.iter().any(|[_, received]| all_are(received, WcStatus::FlushError)), "a write failed");
    assert!(runs.iter().any(|[_, received]| all_are(received, WcStatus::Success)), "a write succeeded");
    for (events, [sent, received]) in runs.iter().enumerate() {
        let succeeded = received.len() as u64 == SENDS && all_are(received, WcStatus::Success) && all_are(sent, WcStatus::Success);
        let failed = received.len() as u64 == RECEIVES
            && all_are(received, WcStatus::FlushError)
            && !sent.iter().any(|(_, status)| *status == WcStatus::Success);
        assert!(succeeded || failed, "after {events} events: {sent:?}, {received:?}");
        assert!(received.iter().map(|(wr_id, _)| *wr_id).eq(0..received.len() as u64), "after {events} events: {received:?}");
    }
}
