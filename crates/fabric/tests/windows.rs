//! Memory windows in a fabric: the access that their keys grant, its holders, and its end.

use crate::common::*;
use softband_model::verbs::WindowType;
use softband_model::verbs::api::*;
use softband_types::*;

const WRITE: Access = Access { local_write: false, remote_write: true, remote_read: false, remote_atomic: false, mw_bind: false };

/// Host 0 writes to host 1 through windows.
struct Windows {
    lab: Lab,
    qps: (Qpn, Qpn),
    region: (MrHandle, RKey),
}

fn windows() -> Windows {
    let mut lab = Lab::new(&back_to_back(LinkSpeed::Sdr, 10, 5, host_part(600, 300)));
    let qps = lab.connect(0, 1, QpType::Rc);
    let to = lab.programs[1];
    let init = MrInit { owner: to.process, pd: to.pd, address: BASE, len_bytes: 0x10_000, iova: BASE, access: ALL_RIGHTS };
    let (mr, _, rkey) = lab.world.register_mr(to.hca, init).unwrap();
    lab.fill(0, 0, 0x1000, 7);
    Windows { lab, qps, region: (mr, rkey) }
}

impl Windows {
    fn alloc(&mut self, window_type: WindowType) -> (MwHandle, RKey) {
        let to = self.lab.programs[1];
        self.lab.world.alloc_mw(to.process, to.pd, window_type).unwrap()
    }

    fn bind(&self, (mw, rkey): (MwHandle, RKey), offset: u64, len_bytes: u64) -> WindowBind {
        let rkey = RKey(rkey.0 & !0xFF | rkey.0.wrapping_add(1) & 0xFF);
        WindowBind { mw, rkey, mr: Some(self.region.0), iova: BASE + offset, len_bytes, access: WRITE, zero_based: false }
    }

    /// Posts local work on host 1's queue pair and returns its outcome.
    fn local(&mut self, qpn: Qpn, operation: SendOperation) -> WcStatus {
        let mut request = self.lab.request(1, 99, operation, 0, 0);
        request.entries.clear();
        self.lab.send(1, qpn, request);
        self.lab.run();
        self.lab.statuses(1).last().unwrap().1
    }

    /// Writes 64 bytes from host 0 with `rkey`. Returns the outcome, and whether a byte has moved.
    fn write(&mut self, offset: u64, rkey: RKey) -> (WcStatus, bool) {
        self.lab.memory.blocks[1].fill(0);
        let operation = SendOperation::RdmaWrite { remote_address: BASE + offset, rkey, immediate: None };
        let request = self.lab.request(0, 1, operation, 0, 64);
        let qpn = self.qps.0;
        self.lab.send(0, qpn, request);
        self.lab.run();
        (self.lab.statuses(0).last().unwrap().1, self.lab.memory.blocks[1].iter().any(|byte| *byte != 0))
    }

    /// Reconnects both sides after an error.
    fn reconnect(&mut self) {
        self.qps = self.lab.connect(0, 1, QpType::Rc);
    }
}

const DONE: (WcStatus, bool) = (WcStatus::Success, true);
const REFUSED: (WcStatus, bool) = (WcStatus::RemoteAccessError, false);

#[test]
fn a_window_opens_its_part_of_the_region_until_it_is_bound_anew() {
    let mut w = windows();
    let window = w.alloc(WindowType::One);
    assert_eq!(w.write(0x100, window.1), REFUSED, "not bound yet");
    w.reconnect();
    let bind = w.bind(window, 0x100, 0x40);
    let own = w.qps.1;
    assert_eq!(w.local(own, SendOperation::BindWindow(bind)), WcStatus::Success);
    assert_eq!(w.write(0x100, bind.rkey), DONE);
    assert_eq!(w.write(0x101, bind.rkey), REFUSED, "one byte beyond");
    w.reconnect();
    let own = w.qps.1;
    let next = w.bind((window.0, bind.rkey), 0x200, 0x40);
    assert_eq!(w.local(own, SendOperation::BindWindow(next)), WcStatus::Success);
    assert_eq!(w.write(0x200, next.rkey), DONE);
    assert_eq!(w.write(0x100, bind.rkey), REFUSED, "the former key");
    w.reconnect();
    let own = w.qps.1;
    let none = WindowBind { mr: None, len_bytes: 0, ..w.bind((window.0, next.rkey), 0, 0) };
    assert_eq!(w.local(own, SendOperation::BindWindow(none)), WcStatus::Success);
    assert_eq!(w.write(0x200, none.rkey), REFUSED, "bound to nothing");
}

#[test]
fn a_region_stays_while_a_window_is_bound_to_it() {
    let mut w = windows();
    let to = w.lab.programs[1];
    let window = w.alloc(WindowType::One);
    let bind = w.bind(window, 0, 0x100);
    let own = w.qps.1;
    w.local(own, SendOperation::BindWindow(bind));
    assert_eq!(w.lab.world.deregister_mr(to.process, w.region.0), Err(VerbsError::Busy));
    assert_eq!(w.lab.world.reregister_mr(to.process, w.region.0, &MrChange::default()), Err(VerbsError::Busy));
    assert_eq!(w.lab.world.dealloc_mw(to.process, window.0), Ok(()));
    assert_eq!(w.lab.world.deregister_mr(to.process, w.region.0), Ok(()));
    assert_eq!(w.write(0, bind.rkey), REFUSED);
}

#[test]
fn a_window_of_type_2_belongs_to_the_queue_pair_that_bound_it() {
    let mut w = windows();
    let other = w.lab.connect(0, 1, QpType::Rc);
    let window = w.alloc(WindowType::Two);
    let bind = w.bind(window, 0, 0x100);
    assert_eq!(w.local(other.1, SendOperation::BindWindow(bind)), WcStatus::Success);
    assert_eq!(w.write(0, bind.rkey), REFUSED, "by another queue pair");
    w.qps = other;
    assert_eq!(w.write(0, bind.rkey), DONE);
    let again = w.bind((window.0, bind.rkey), 0, 0x80);
    assert_eq!(w.local(other.1, SendOperation::BindWindow(again)), WcStatus::WindowBindError, "it must be taken back first");
    assert_eq!(w.lab.state(1, other.1), QpState::Error);
}

#[test]
fn a_key_that_was_taken_back_opens_nothing() {
    let mut w = windows();
    let window = w.alloc(WindowType::Two);
    let bind = w.bind(window, 0, 0x100);
    let own = w.qps.1;
    w.local(own, SendOperation::BindWindow(bind));
    assert_eq!(w.write(0, bind.rkey), DONE);
    assert_eq!(w.local(own, SendOperation::LocalInvalidate { rkey: bind.rkey }), WcStatus::Success);
    assert_eq!(w.write(0, bind.rkey), REFUSED);
    w.reconnect();
    let own = w.qps.1;
    assert_eq!(w.local(own, SendOperation::LocalInvalidate { rkey: bind.rkey }), WcStatus::WindowBindError, "nothing to take back");
}

#[test]
fn a_send_takes_the_receivers_key_back_and_says_which() {
    let mut w = windows();
    let window = w.alloc(WindowType::Two);
    let bind = w.bind(window, 0, 0x100);
    let (a, b) = w.qps;
    w.local(b, SendOperation::BindWindow(bind));
    w.lab.receive(1, b, 5, 0x8000, 5_000);
    let request = w.lab.request(0, 6, SendOperation::SendAndInvalidate { rkey: bind.rkey }, 0, 4_000);
    w.lab.send(0, a, request);
    w.lab.run();
    let received = w.lab.completions(1).pop().unwrap();
    assert_eq!((received.wr_id, received.status, received.invalidated), (5, WcStatus::Success, Some(bind.rkey)));
    assert_eq!(w.write(0, bind.rkey), REFUSED);
    w.reconnect();
    let (a, b) = w.qps;
    w.lab.receive(1, b, 7, 0x8000, 5_000);
    let region = w.region.1;
    let request = w.lab.request(0, 8, SendOperation::SendAndInvalidate { rkey: region }, 0, 10);
    w.lab.send(0, a, request);
    w.lab.run();
    assert_eq!(w.lab.statuses(0).last(), Some(&(8, WcStatus::RemoteAccessError)), "a region's key cannot be taken back");
    assert_eq!(w.lab.statuses(1).last(), Some(&(7, WcStatus::FlushError)));
}

#[test]
fn bindings_that_the_region_does_not_allow_fail_in_their_place_of_the_queue() {
    let own_pd = |w: &Windows| w.lab.programs[1].pd;
    let wrong: [fn(&mut WindowBind); 4] =
        [|bind| bind.len_bytes = 0x10_001, |bind| bind.rkey = RKey(bind.rkey.0 ^ 0x100), |bind| bind.mr = None, |bind| bind.zero_based = true];
    for change in wrong {
        let mut w = windows();
        let window = w.alloc(WindowType::One);
        let mut bind = w.bind(window, 0, 0x100);
        change(&mut bind);
        let own = w.qps.1;
        assert_eq!(w.local(own, SendOperation::BindWindow(bind)), WcStatus::WindowBindError, "{bind:?}");
    }
    let mut w = windows();
    let (to, pd) = (w.lab.programs[1], own_pd(&w));
    let access = Access { mw_bind: false, ..ALL_RIGHTS };
    let init = MrInit { owner: to.process, pd, address: BASE, len_bytes: 64, iova: BASE, access };
    let (mr, ..) = w.lab.world.register_mr(to.hca, init).unwrap();
    let window = w.alloc(WindowType::One);
    let bind = WindowBind { mr: Some(mr), ..w.bind(window, 0, 64) };
    let own = w.qps.1;
    assert_eq!(w.local(own, SendOperation::BindWindow(bind)), WcStatus::WindowBindError, "the region does not allow windows");
}

#[test]
fn local_work_completes_in_its_place_and_is_not_done_twice_when_packets_are_lost() {
    for seed in 0..20 {
        let mut w = windows();
        w.lab.world.set_packet_loss(100_000 + seed * 7_000);
        let (a, b) = w.qps;
        let mut window = w.alloc(WindowType::Two);
        for round in 0..8 {
            w.lab.receive(0, a, round, 0, 10_000);
            let send = w.lab.request(1, 10 * round, SendOperation::Send { immediate: None }, 0, 9_000);
            w.lab.send(1, b, send);
            let bind = w.bind(window, 0, 0x100);
            window.1 = bind.rkey;
            for (n, operation) in [(1, SendOperation::BindWindow(bind)), (2, SendOperation::LocalInvalidate { rkey: bind.rkey })] {
                let mut request = w.lab.request(1, 10 * round + n, operation, 0, 0);
                request.entries.clear();
                w.lab.send(1, b, request);
            }
        }
        w.lab.run();
        let statuses = w.lab.statuses(1);
        let failed = statuses.iter().position(|(_, status)| *status != WcStatus::Success).unwrap_or(statuses.len());
        // With this loss a queue pair may give up, but all completed requests completed in order.
        let expected: Vec<u64> = (0..8).flat_map(|round| [10 * round, 10 * round + 1, 10 * round + 2]).collect();
        assert_eq!(statuses[..failed].iter().map(|(id, _)| *id).collect::<Vec<_>>(), expected[..failed], "loss {seed}");
        assert!(statuses[failed..].iter().all(|(_, status)| *status != WcStatus::WindowBindError), "loss {seed}: {statuses:?}");
    }
}
