//! Table entries of queue pairs during their lifetime, and posted MADs.

use super::*;
use softband_catalog::{Catalog, LoadOptions, load_fabric};
use softband_ipc::calls::{MadAgent, MadOpen, MadReceive, MadReceived};
use std::path::Path;

fn harness() -> WallHarness {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let catalog = Catalog::load(&root.join("catalog")).expect("the catalogue");
    WallHarness::new(&load_fabric(&root.join("fabrics/modern-pair.toml"), &catalog, &LoadOptions::default()).expect("a fabric").spec)
}

impl WallHarness {
    fn entry_of(&self, place: Place) -> u32 {
        self.engine.realtime.entry_of(self.hca(place.process), Qpn(place.qpn)).checked_sub(1).expect("it has an entry")
    }

    fn is_sole_producer(&self, place: Place) -> bool {
        self.engine.realtime.qp(self.entry_of(place)).is_sole_producer.load(Ordering::SeqCst) != 0
    }

    fn version(&self, place: Place) -> u32 {
        self.engine.realtime.qp(self.entry_of(place)).version.load(Ordering::SeqCst)
    }

    /// Returns the table entry of its peer.
    fn peer_of(&self, place: Place) -> Option<u32> {
        self.engine.realtime.qp(self.entry_of(place)).peer.load(Ordering::SeqCst).checked_sub(1)
    }

    /// Creates another queue pair on the same CQ, with at most `max_recv_wr` receive requests.
    fn beside(&mut self, place: Place, max_recv_wr: u32) -> Place {
        let hca = self.hca(place.process);
        let mut wanted = QpFields { hca: hca.0, qp_type: RC, send_cq: place.cq, recv_cq: place.cq, ..Zeroable::zeroed() };
        wanted.pd = self.engine.world.find_qp(hca, Qpn(place.qpn)).expect("it was made").1.init.pd.0;
        (wanted.max_send_wr, wanted.max_recv_wr, wanted.max_send_sge, wanted.max_recv_sge) = (DEPTH, max_recv_wr, 2, 2);
        let qp = self.ask::<op::CreateQp>(place.process, &wanted);
        let beside = Place { qpn: qp.qpn, srq: 0, datagrams_to: None, ..place };
        self.modify(beside, TO_INIT, QpFields { state: 1, ..Zeroable::zeroed() });
        beside
    }

    /// Opens the device of MADs, and registers an agent of subnet management that only asks.
    fn open_mads(&mut self, process: usize) -> u32 {
        let Object { object, .. } = self.ask::<op::MadOpen>(process, &MadOpen { device: 0, is_manager: 0 });
        let wanted = MadAgent { object, class: 1, class_version: 1, is_newer: 1, ..Zeroable::zeroed() };
        assert_eq!(self.ask::<op::MadRegister>(process, &wanted).id, 0);
        object
    }

    /// Posts a MAD of agent 0 to a LID without a port.
    fn post_mad(&mut self, process: usize, object: u32, timeout_millis: u32) {
        let mut mad = [0; 320];
        mad[8..12].copy_from_slice(&timeout_millis.to_ne_bytes());
        mad[28..30].copy_from_slice(&0xbfff_u16.to_be_bytes());
        mad[64..68].copy_from_slice(&[1, 1, 1, 1]);
        let record = PostRecord { kind: kind::MAD, object, inline_len: 320, ..Zeroable::zeroed() };
        self.post(process, &[bytemuck::bytes_of(&record), &mad].concat());
    }

    /// Reads a record of MADs. Returns its status.
    fn read_mad(&mut self, process: usize, object: u32) -> Option<i32> {
        let request = MadReceive { object, room: 320, offset: 0, reserved: 0 };
        let outcome = self.call(process, Op::MadReceive as u32, bytemuck::bytes_of(&request));
        let reply = self.engine.processes[process].shared().request(0);
        let status = || reply[size_of::<MadReceived>() + 4..][..4].try_into().expect("four bytes");
        (outcome == 0).then(|| i32::from_ne_bytes(status()))
    }

    fn destroy(&mut self, place: Place) {
        let hca = self.hca(place.process).0;
        let name = softband_ipc::calls::QpName { hca, qpn: place.qpn };
        self.ask::<op::DestroyQp>(place.process, &name);
    }
}

#[test]
fn a_queue_pair_is_alone_at_its_completion_queue_until_it_gets_company_and_afterwards() {
    let mut harness = harness();
    let plain = harness.pair[0];
    assert!(harness.is_sole_producer(plain));
    let before = harness.version(plain);
    let guest = harness.beside(plain, DEPTH);
    assert!(!harness.is_sole_producer(plain) && !harness.is_sole_producer(guest));
    assert_ne!(harness.version(plain), before, "who remembers that it was alone looks again");
    let between = harness.version(plain);
    harness.destroy(guest);
    assert!(harness.is_sole_producer(plain));
    assert_ne!(harness.version(plain), between);
}

#[test]
fn who_has_many_senders_is_never_alone() {
    let harness = harness();
    let of_shared_queue = harness.pair[1];
    assert!(of_shared_queue.srq != 0 && !harness.is_sole_producer(of_shared_queue));
    assert!(harness.liars[3].datagrams_to.is_some() && !harness.is_sole_producer(harness.liars[3]));
}

#[test]
fn a_queue_pair_whose_peer_has_left_leads_nowhere_whoever_comes_instead() {
    let mut harness = harness();
    let (sender, receiver) = (harness.liars[2], harness.peer);
    assert_eq!(harness.peer_of(sender), Some(harness.entry_of(receiver)));
    harness.modify(receiver, 1, Zeroable::zeroed());
    assert_eq!(harness.peer_of(sender), None);
    let other = harness.beside(sender, DEPTH);
    harness.connect(other, receiver);
    harness.connect(receiver, other);
    harness.connect_rts(other);
    harness.connect_rts(receiver);
    assert_eq!(harness.peer_of(other), Some(harness.entry_of(receiver)));
    assert_eq!((harness.peer_of(sender), harness.peer_of(receiver)), (None, Some(harness.entry_of(other))));
}

#[test]
fn a_posted_mad_that_cannot_leave_comes_back_as_late() {
    let mut harness = harness();
    let process = PAIR[0];
    let object = harness.open_mads(process);
    // The second has the transaction of the first, which is under way.
    harness.post_mad(process, object, 60_000);
    harness.post_mad(process, object, 60_000);
    harness.engine.wall_round();
    assert_eq!([(); 2].map(|()| harness.read_mad(process, object)), [Some(libc::ETIMEDOUT), None]);
}
