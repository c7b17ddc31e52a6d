//! An engine in wall pace without programs, for fuzzing and property tests of the memory that
//! programs share with it. One process writes arbitrary bytes into its shared memory and queues. An
//! honest pair works beside it and must not notice.

use crate::completion::record::CqRecord;
use crate::engine::Engine;
use crate::options::Pace;
use crate::process::image::Mapped;
use crate::realtime::receive_queues::{QueueName, ReceiveQueue};
use bytemuck::{Pod, Zeroable};
use rustix::fd::AsFd;
use softband_ipc::calls::{Call, ChannelEvent, CreateAh, CreateCq, Hca, Message, ModifyQp, Object, Op, QpFields, SrqFields, op};
use softband_ipc::layout::{PAYLOAD_BYTES, WALL_RING_BYTES};
use softband_ipc::post::{PostRecord, kind, opcode, send_flags};
use softband_ipc::ring::ring_bytes;
use softband_shm_transport::arming::Arming;
use softband_shm_transport::queues::{
    ReceiveEntry, ReceiveQueueHeader, RemoteCqe, RemoteCqeRingHeader, entry_bytes, mode, receive_queue_bytes, remote_cqe_ring_bytes,
};
use softband_spec::FabricSpec;
use softband_types::{HcaId, PortNumber, Qpn, SrqHandle};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Process numbers. The second process of the pair is on another host.
const LIAR: usize = 0;
const PAIR: [usize; 2] = [1, 2];
/// Entries of every queue.
const DEPTH: u32 = 4;
/// Time after which a missing message of the pair counts as lost.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time that the engine waits for a thread that claims to move data. It is short, so that a case is
/// short too.
const GRACE: Duration = Duration::from_millis(2);
const RC: u32 = 2;
const UD: u32 = 4;
/// Type of a queue pair of the harness.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Shared,
    Datagrams,
}
/// First place at which [`deed::HEADER`] overwrites a slot instead of the header.
pub const SLOTS_FROM: u16 = 128;

/// Bits of the place of [`deed::EVENT`].
pub const CLAIMS: u16 = 1;
pub const TELLS: u16 = 2;
/// The liar only puts in a completion.
pub const PUTS: u16 = 4;

/// Bits of `enum ibv_qp_attr_mask`.
const TO_INIT: u32 = 1 | 1 << 3 | 1 << 4 | 1 << 5;
const TO_RTR: u32 = 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20;
const TO_INIT_FOR_DATAGRAMS: u32 = 1 | 1 << 4 | 1 << 5 | 1 << 6;
const TO_RTS_FOR_DATAGRAMS: u32 = 1 | 1 << 16;
const TO_RTS: u32 = 1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16;

/// A queue pair of a process, its CQ, and the channel of the CQ.
#[derive(Clone, Copy, Default)]
struct Place {
    process: usize,
    qpn: u32,
    cq: u32,
    channel: u32,
    /// Shared receive queue, or 0.
    srq: u32,
    /// Destination of its datagrams, if its type is UD: address handle and QPN.
    datagrams_to: Option<(u32, u32)>,
}

/// Actions of a program against the engine, by the number that a test uses.
pub mod deed {
    /// Makes a call: `place` is its number, the bytes are the request.
    pub const CALL: u8 = 0;
    /// Puts bytes into the ring of posts.
    pub const POST: u8 = 1;
    /// Posts one valid record of queue pair `place`. The bytes are kind, opcode, flags and length
    /// of the inline data.
    pub const WORK: u8 = 2;
    /// Writes bytes over a word of the header ([`super::SLOTS_FROM`]), or over the head of a slot.
    pub const HEADER: u8 = 3;
    /// Writes bytes at `place` of a receive queue. The first byte selects the queue pair.
    pub const RECEIVES: u8 = 4;
    /// Writes bytes at `place` of a ring of remote CQEs. The first byte selects the queue pair.
    pub const REMOTE_CQES: u8 = 5;
    /// Writes bytes at `place` of a completion ring. The first byte selects the queue pair.
    pub const COMPLETIONS: u8 = 6;
    /// Lets the liar's honest peer receive and send.
    pub const PEER: u8 = 7;
    /// Lets the engine do a round of its work.
    pub const ROUND: u8 = 8;
    /// Raises an event of the honest peer, which armed its queue ([`super::CLAIMS`]), and notifies
    /// the engine ([`super::TELLS`]).
    pub const EVENT: u8 = 9;
    pub const COUNT: u8 = 10;
}

/// The engine and the queue pairs of its programs.
pub struct WallHarness {
    engine: Engine,
    /// The first two are connected to each other, the third to the peer. The fourth sends datagrams
    /// to the peer's other queue pair.
    liars: Vec<Place>,
    peer: Place,
    pair: [Place; 2],
    sent: u64,
}

impl WallHarness {
    /// Creates an engine with its processes and queue pairs.
    ///
    /// # Panics
    /// If the machine has no memory for it, or the fabric has fewer than two hosts.
    pub fn new(spec: &FabricSpec) -> Self {
        let mut engine = Engine::for_harness(spec, "softband-harness", Pace::Wall).expect("an engine");
        engine.realtime.set_grace(GRACE);
        for (process, host) in [0, 0, 1].into_iter().enumerate() {
            engine.expect_process(host, 0, None).expect("memory for a process");
            // No process of the host has this id, so the engine reaches no memory.
            engine.processes[process].attach((1 << 30) + process as i32, None, 0);
        }
        let mut harness = Self { engine, liars: Vec::new(), peer: Place::default(), pair: [Place::default(); 2], sent: 0 };
        // The second queue pair of each has a shared receive queue.
        harness.liars = [Kind::Plain, Kind::Shared, Kind::Plain].map(|kind| harness.make(LIAR, kind)).to_vec();
        harness.peer = harness.make(PAIR[1], Kind::Plain);
        harness.pair = [harness.make(PAIR[0], Kind::Plain), harness.make(PAIR[1], Kind::Shared)];
        let (liars, pair, peer) = (harness.liars.clone(), harness.pair, harness.peer);
        for (one, other) in [(liars[0], liars[1]), (liars[2], peer), (pair[0], pair[1])] {
            harness.connect(one, other);
            harness.connect(other, one);
        }
        for place in [one_of(&pair, 0), one_of(&pair, 1)] {
            harness.connect_rts(place);
        }
        for place in liars.into_iter().chain([peer]) {
            harness.connect_rts(place);
        }
        harness.make_datagrams();
        harness
    }

    fn hca(&self, process: usize) -> HcaId {
        self.engine.world.hca_id(self.engine.processes[process].host(), 0)
    }

    fn ask<C: Call<Request: Pod>>(&mut self, process: usize, request: &C::Request) -> C::Reply {
        assert_eq!(self.call(process, C::OP as u32, bytemuck::bytes_of(request)), 0, "{:?}", C::OP);
        C::Reply::from_bytes(&self.engine.processes[process].shared().request(0)).expect("the whole reply")
    }

    /// Creates two UD queue pairs: one of the liar, and one of the honest process that gets its
    /// datagrams.
    fn make_datagrams(&mut self) {
        let mut places = [LIAR, PAIR[1]].map(|process| self.make(process, Kind::Datagrams));
        for place in places {
            self.modify(place, TO_INIT_FOR_DATAGRAMS, QpFields { state: 1, qkey: 7, ..Zeroable::zeroed() });
            self.modify(place, 1, QpFields { state: 2, ..Zeroable::zeroed() });
            self.modify(place, TO_RTS_FOR_DATAGRAMS, QpFields { state: 3, ..Zeroable::zeroed() });
        }
        let (hca, to) = (self.hca(LIAR).0, self.engine.world.port(self.hca(PAIR[1]), PortNumber(1)).expect("a port").lid);
        let pd = self.engine.world.find_qp(HcaId(hca), Qpn(places[0].qpn)).expect("it was made").1.init.pd.0;
        let mut wanted = CreateAh { pd, hca, vector: Zeroable::zeroed() };
        (wanted.vector.dlid, wanted.vector.port) = (u32::from(to.0), 1);
        let ah = self.ask::<op::CreateAh>(LIAR, &wanted);
        places[0].datagrams_to = Some((ah.handle, places[1].qpn));
        self.liars.push(places[0]);
        self.receive(places[1], 1);
    }

    fn make(&mut self, process: usize, kind: Kind) -> Place {
        let hca = self.hca(process).0;
        let pd = self.ask::<op::AllocPd>(process, &Hca { hca, reserved: 0 });
        let Object { object: channel, .. } = self.ask::<op::CreateChannel>(process, &Hca { hca, reserved: 0 });
        let cq = self.ask::<op::CreateCq>(process, &CreateCq { hca, entries: 4 * DEPTH, channel, own_only: 0, cookie: 0 });
        let qp_type = if kind == Kind::Datagrams { UD } else { RC };
        let mut wanted = QpFields { hca, qp_type, pd: pd.handle, send_cq: cq.handle, recv_cq: cq.handle, ..Zeroable::zeroed() };
        (wanted.max_send_wr, wanted.max_recv_wr, wanted.max_send_sge, wanted.max_recv_sge, wanted.max_inline) = (DEPTH, DEPTH, 2, 2, 64);
        if kind == Kind::Shared {
            let srq = self.ask::<op::CreateSrq>(process, &SrqFields { hca, pd: pd.handle, max_wr: DEPTH, max_sge: 2, ..Zeroable::zeroed() });
            (wanted.srq, wanted.max_recv_wr, wanted.max_recv_sge) = (srq.handle, 0, 0);
        }
        let qp = self.ask::<op::CreateQp>(process, &wanted);
        Place { process, qpn: qp.qpn, cq: cq.handle, channel, srq: wanted.srq, datagrams_to: None }
    }

    fn cq(&self, handle: u32) -> &CqRecord {
        self.engine.cqs.get(handle).expect("the queue exists")
    }

    /// Returns the queue from which a queue pair takes its receive requests, if the queue exists.
    fn queue_of(&self, place: Place) -> Option<ReceiveQueue> {
        let own = QueueName::Own(self.hca(place.process), Qpn(place.qpn));
        let name = if place.srq == 0 { own } else { QueueName::Shared(SrqHandle(place.srq)) };
        self.engine.realtime.receive_queue(name)
    }

    fn modify(&mut self, place: Place, mask: u32, mut fields: QpFields) {
        (fields.hca, fields.qpn, fields.port, fields.access) = (self.hca(place.process).0, place.qpn, 1, 0b1111);
        self.ask::<op::ModifyQp>(place.process, &ModifyQp { mask, reserved: 0, fields });
    }

    fn connect(&mut self, place: Place, peer: Place) {
        let lid = self.engine.world.port(self.hca(peer.process), PortNumber(1)).expect("a port").lid;
        self.modify(place, TO_INIT, QpFields { state: 1, ..Zeroable::zeroed() });
        let mut fields = QpFields { state: 2, path_mtu_code: 3, dest_qpn: peer.qpn, max_dest_rd_atomic: 1, min_rnr_timer: 1, ..Zeroable::zeroed() };
        (fields.vector.dlid, fields.vector.port) = (u32::from(lid.0), 1);
        self.modify(place, TO_RTR, fields);
    }

    fn connect_rts(&mut self, place: Place) {
        self.modify(place, TO_RTS, QpFields { state: 3, timeout: 14, retry_count: 7, rnr_retry: 7, max_rd_atomic: 1, ..Zeroable::zeroed() });
    }

    fn call(&mut self, process: usize, op: u32, request: &[u8]) -> i32 {
        let slot = self.engine.processes[process].shared().slot(0);
        let len = request.len().min(PAYLOAD_BYTES);
        // SAFETY: no other thread uses the slot, and the length was cut to the size of the payload.
        unsafe { std::ptr::copy_nonoverlapping(request.as_ptr(), slot.payload.as_ptr().cast_mut(), len) };
        slot.payload_len.store(request.len() as u32, Ordering::Relaxed);
        slot.op.store(op, Ordering::Relaxed);
        self.engine.serve_call(process, 0);
        self.engine.wall_round();
        self.engine.processes[process].shared().slot(0).status.load(Ordering::Relaxed)
    }

    /// Puts bytes into a ring of posts, as a program does.
    fn post(&mut self, process: usize, bytes: &[u8]) {
        let shared = &self.engine.processes[process].shared();
        let produced = shared.header().ring_produced.load(Ordering::Relaxed);
        let ring = shared.slot(1).posted.as_ptr().cast_mut();
        for (index, byte) in bytes.iter().enumerate() {
            // SAFETY: the index is below the ring's length.
            unsafe { ring.add((produced.wrapping_add(index as u64) % WALL_RING_BYTES as u64) as usize).write(*byte) };
        }
        shared.header().ring_produced.store(produced.wrapping_add(bytes.len() as u64), Ordering::Release);
    }

    fn work(&mut self, place: Place, mut record: PostRecord, inline: &[u8]) {
        let object = match record.kind {
            kind::ARM_CQ | kind::CQ_OVERRUN | kind::NOTIFY_OWN => place.cq,
            kind::SRQ_RECEIVE => place.srq,
            _ => place.qpn,
        };
        (record.hca, record.object, record.inline_len) = (self.hca(place.process).0, object, inline.len() as u32);
        if let Some((ah, qpn)) = place.datagrams_to {
            (record.ah, record.remote_qpn, record.remote_qkey) = (ah, qpn, 7);
        }
        let mut bytes = bytemuck::bytes_of(&record).to_vec();
        bytes.extend_from_slice(inline);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        self.post(place.process, &bytes);
    }

    fn send(&mut self, place: Place, wr_id: u64) {
        let flags = send_flags::SIGNALED | send_flags::INLINE;
        self.work(place, PostRecord { kind: kind::SEND, opcode: opcode::SEND, flags, wr_id, ..Zeroable::zeroed() }, &[]);
    }

    /// Posts a receive request to the present place of the queue, as a program does.
    fn receive(&mut self, place: Place, wr_id: u64) {
        let queue = self.queue_of(place).expect("it was made");
        let mapped = self.map(queue.process, queue.offset, receive_queue_bytes(queue.entries, queue.sges)).expect("it is there");
        // SAFETY: the mapping begins with the header, which consists of atomics.
        let header = unsafe { &*mapped.base().cast::<ReceiveQueueHeader>() };
        if header.mode() != mode::SHARED {
            let kind = if place.srq == 0 { kind::RECEIVE } else { kind::SRQ_RECEIVE };
            return self.work(place, PostRecord { kind, wr_id, ..Zeroable::zeroed() }, &[]);
        }
        let produced = header.produced.0.load(Ordering::Relaxed);
        let at = size_of::<ReceiveQueueHeader>() + (produced % queue.entries) as usize * entry_bytes(queue.sges);
        // SAFETY: the entry lies within the mapping, at a multiple of the entry size.
        unsafe { mapped.base().add(at).cast::<ReceiveEntry>().write(ReceiveEntry { wr_id, count: 0, reserved: 0 }) };
        header.produced.0.store(produced.wrapping_add(1), Ordering::SeqCst);
    }

    /// Puts a completion into the peer's queue, as a process does that ends immediately afterwards.
    fn put_into_peers_queue(&self) {
        let cq = self.cq(self.peer.cq);
        let Some(ring) = self.map(self.peer.process, cq.remote_cqe_ring(), remote_cqe_ring_bytes(cq.remote_cqe_entries())) else { return };
        // SAFETY: the mapping begins with the header, and the entries follow. Both accessed parts
        // are atomics.
        unsafe {
            let counter = (*ring.base().cast::<RemoteCqeRingHeader>()).consumed.0.load(Ordering::Relaxed);
            let at = size_of::<RemoteCqeRingHeader>() + (counter % cq.remote_cqe_entries()) as usize * size_of::<RemoteCqe>();
            (*ring.base().add(at).cast::<RemoteCqe>()).sequence.store(counter.wrapping_add(1), Ordering::Release);
        }
    }

    fn map(&self, process: usize, offset: u64, bytes: usize) -> Option<Mapped> {
        Mapped::new(self.engine.processes[process].shared().memory_file()?.as_fd(), offset, bytes)
    }

    fn scribble(&self, (offset, bytes): (u64, usize), place: usize, what: &[u8]) {
        if let Some(mapped) = self.map(LIAR, offset, bytes) {
            for (index, byte) in what.iter().enumerate().take_while(|(index, _)| place + index < bytes) {
                // SAFETY: the index is below the mapping's length.
                unsafe { mapped.base().add(place + index).write_volatile(*byte) };
            }
        }
    }

    /// Does a [`deed`] of the liar. Does nothing to objects that the liar no longer has.
    pub fn lie(&mut self, deed: u8, place: u16, bytes: &[u8]) {
        if !self.engine.processes[LIAR].is_attached() {
            return;
        }
        let (first, rest) = bytes.split_first().map_or((0, bytes), |(first, rest)| (*first, rest));
        let whose = one_of(&self.liars, first);
        match deed % deed::COUNT {
            deed::CALL if place as u32 == Op::ProcessExit as u32 => {} // [`Self::die`]
            deed::CALL => drop(self.call(LIAR, u32::from(place), bytes)),
            deed::POST => self.post(LIAR, bytes),
            deed::WORK => {
                let mut given = [0; 4];
                given.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
                let record = PostRecord {
                    kind: u32::from(given[0]) % 9,
                    opcode: u32::from(given[1]) % 16,
                    flags: u32::from(given[2]) % 16,
                    wr_id: u64::from(place),
                    ..Zeroable::zeroed()
                };
                self.work(one_of(&self.liars, place as u8), record, &[7; 64][..usize::from(given[3]) % 65]);
            }
            deed::HEADER => {
                let shared = &self.engine.processes[LIAR].shared();
                let base = if place < SLOTS_FROM { self.word(place) } else { std::ptr::from_ref(shared.slot(u32::from(place) % 3)).cast() };
                let at = if place < SLOTS_FROM { 0 } else { usize::from(place) % 64 };
                for (index, byte) in bytes.iter().take(8).enumerate() {
                    // SAFETY: the address is a word of the header or the head of a slot. The engine
                    // must bear any value there, as from a program.
                    unsafe { base.cast_mut().add(at + index).write_volatile(*byte) };
                }
            }
            deed::RECEIVES => {
                if let Some(queue) = self.queue_of(whose).filter(|queue| queue.process == LIAR) {
                    self.scribble((queue.offset, receive_queue_bytes(queue.entries, queue.sges)), usize::from(place), rest);
                }
            }
            deed::REMOTE_CQES => {
                if let Some(cq) = self.engine.cqs.get(whose.cq).filter(|cq| cq.process() == LIAR && cq.takes_remote_cqes()) {
                    self.scribble((cq.remote_cqe_ring(), remote_cqe_ring_bytes(cq.remote_cqe_entries())), usize::from(place), rest);
                }
            }
            deed::COMPLETIONS => {
                if let Some(cq) = self.engine.cqs.get(whose.cq).filter(|cq| cq.process() == LIAR) {
                    let shared = &self.engine.processes[LIAR].shared();
                    for (index, byte) in rest.iter().enumerate().take_while(|(index, _)| usize::from(place) + index < ring_bytes(cq.capacity())) {
                        // SAFETY: the index lies within the ring.
                        unsafe { shared.at(cq.offset() + usize::from(place) + index).write_volatile(*byte) };
                    }
                }
            }
            deed::PEER => {
                if self.peer_is_ready() {
                    self.arm(self.peer);
                    self.receive(self.peer, u64::from(place));
                    self.send(self.peer, u64::from(place));
                }
            }
            deed::EVENT => {
                if place & CLAIMS != 0 {
                    self.arm(self.peer);
                    self.arming(self.peer).is_raised_by(false);
                }
                if place & PUTS != 0 {
                    self.arm(self.peer);
                    self.put_into_peers_queue();
                }
                if place & TELLS != 0 {
                    self.work(self.liars[2], PostRecord { kind: kind::NOTIFY_PEER, ..Zeroable::zeroed() }, &[]);
                }
            }
            _ => drop(self.engine.wall_round()),
        }
    }

    /// Does the lies of a fuzzer's input in order: deed, place, length of the bytes, bytes. Then
    /// checks that honest programs are unharmed.
    ///
    /// # Panics
    /// If an honest program is harmed.
    pub fn survive(&mut self, mut input: &[u8]) {
        while let [deed, low, high, len, tail @ ..] = input {
            let (bytes, rest) = tail.split_at(usize::from(*len).min(tail.len()));
            self.lie(*deed, u16::from_le_bytes([*low, *high]), bytes);
            input = rest;
        }
        self.assert_pair_unharmed();
        self.die();
        self.assert_pair_unharmed();
    }

    /// Returns a word of the header that programs can write.
    fn word(&self, which: u16) -> *const u8 {
        let header = self.engine.processes[LIAR].shared().header();
        match which % 8 {
            0 => (&raw const header.deadline_ps).cast(),
            1 => (&raw const header.epoch_slots[0]).cast(),
            2 => (&raw const header.epoch_slots[usize::from(which / 8) % header.epoch_slots.len()]).cast(),
            3 => (&raw const header.memory_generation).cast(),
            4 => (&raw const header.ring_produced).cast(),
            5 => (&raw const header.ring_consumed).cast(),
            6 => (&raw const header.memory_file).cast(), // and the next word
            _ => (&raw const header.wall_start_ns).cast(),
        }
    }

    fn peer_is_ready(&self) -> bool {
        self.queue_of(self.peer).is_some()
    }

    /// Ends the liar.
    pub fn die(&mut self) {
        self.engine.process_gone(LIAR);
        self.engine.wall_round();
    }

    /// Lets the engine do some rounds. Then sends a message between the pair and back, as if the
    /// pair were alone.
    ///
    /// # Panics
    /// If a message or its completion is missing.
    pub fn assert_pair_unharmed(&mut self) {
        for _ in 0..4 {
            self.engine.wall_round();
        }
        for (from, to) in [(self.pair[0], self.pair[1]), (self.pair[1], self.pair[0])] {
            self.sent += 1;
            let before = [from, to].map(|place| self.completions(place));
            self.arm(from);
            self.arm(to);
            self.receive(to, self.sent);
            self.send(from, self.sent);
            let started = Instant::now();
            while [from, to].map(|place| self.completions(place)) != before.map(|count| count.wrapping_add(1)) {
                self.engine.wall_round();
                assert!(started.elapsed() < PATIENCE, "honest programs wait in vain, at {:?} by the engine's clock", self.engine.scheduler.now());
            }
            for place in [from, to] {
                let found = self.newest(place);
                assert_eq!((found.wr_id, found.status, found.qpn), (self.sent, 0, place.qpn), "the completion is what an honest program expects");
                assert_eq!(self.events(place), 1, "an honest program hears once of what it has asked for");
            }
        }
    }

    /// Returns the arming word of a CQ.
    fn arming(&self, place: Place) -> &Arming {
        self.cq(place.cq).armable().expect("it has a channel").arming()
    }

    fn arm(&self, place: Place) {
        self.arming(place).arm(false);
    }

    /// Reads all events of a CQ, and returns their number.
    fn events(&mut self, place: Place) -> u32 {
        let channel = Object { object: place.channel, reserved: 0 };
        let mut events = 0;
        while self.call(place.process, Op::ChannelRead as u32, bytemuck::bytes_of(&channel)) == 0 {
            let event: ChannelEvent = bytemuck::pod_read_unaligned(&self.engine.processes[place.process].shared().request(0));
            assert_eq!(event.cq, place.cq);
            events += 1;
        }
        events
    }

    /// Reads all events of the liar's honest peer, and returns their number.
    pub fn events_of_peer(&mut self) -> u32 {
        self.engine.wall_round();
        self.events(self.peer)
    }

    fn completions(&self, place: Place) -> u32 {
        self.engine.processes[place.process].shared().produced(self.cq(place.cq).offset())
    }

    /// Takes all completions of a queue, and returns the last.
    fn newest(&self, place: Place) -> softband_ipc::ring::Cqe {
        let (shared, cq) = (self.engine.processes[place.process].shared(), self.cq(place.cq));
        shared.take_all(cq.offset(), cq.capacity())
    }
}

fn one_of(places: &[Place], which: u8) -> Place {
    places[usize::from(which) % places.len()]
}

#[cfg(test)]
mod tests;
