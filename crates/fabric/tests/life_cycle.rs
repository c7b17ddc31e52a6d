//! Random sequences of verbs by several processes, with objects that are alive, destroyed,
//! another's or nonexistent. Nothing panics, a dying process removes exactly its own objects, and
//! the fabric comes to rest with all its credits.

use crate::common::*;
use softband_model::verbs::api::*;
use softband_model::verbs::{WindowType, XrcdOpen};
use softband_sim::RandomStream;
use softband_types::*;

const CALLS: u32 = 1_000;
const SEEDS: u64 = 400;

/// Objects that a process has created so far, alive or destroyed.
#[derive(Default)]
struct Known {
    pds: Vec<PdHandle>,
    cqs: Vec<CqHandle>,
    mrs: Vec<(MrHandle, LKey, RKey)>,
    mws: Vec<(MwHandle, RKey)>,
    srqs: Vec<SrqHandle>,
    xrcds: Vec<XrcdHandle>,
    ahs: Vec<AhHandle>,
    qps: Vec<(usize, Qpn, QpType)>,
}

struct Players {
    lab: Lab,
    /// Known objects by player.
    known: [Known; 4],
    random: RandomStream,
    /// Processes 0 and 2 are on host 0, 1 and 3 on host 1.
    processes: [(ProcessId, usize); 4],
}

const TYPES: [QpType; 5] = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcSend, QpType::XrcRecv];

impl Players {
    fn new(seed: u64) -> Self {
        let lab = Lab::new(&through_switch(LinkSpeed::Sdr, &[1, 1], 5, host_part(600, 300)));
        let mut lab = Self {
            lab,
            known: Default::default(),
            random: RandomStream::new(seed, 7),
            processes: [0, 1, 2, 3].map(|n| (ProcessId(n), n as usize % 2)),
        };
        lab.lab.memory.blocks.resize(4, vec![0; MEMORY_BYTES]);
        for n in 0..4 {
            let hca = lab.hca(n);
            let pd = lab.lab.world.alloc_pd(ProcessId(n as u32), hca).unwrap();
            lab.known[n].pds.push(pd);
            lab.known[n].cqs.push(lab.lab.world.create_cq(ProcessId(n as u32), hca, 5_000).unwrap());
        }
        lab
    }

    fn hca(&self, player: usize) -> HcaId {
        self.lab.programs[self.processes[player].1].hca
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.random.next_u64() % limit as u64) as usize
    }

    /// Picks an object, usually a late one of the player's own; `None` if none exists yet.
    fn pick<T: Copy>(&mut self, player: usize, from: impl Fn(&Known) -> &Vec<T>) -> Option<T> {
        let whose = if self.below(10) == 0 { self.below(4) } else { player };
        let len = from(&self.known[whose]).len();
        if len == 0 {
            return None;
        }
        let back = self.below(len.min(6));
        Some(from(&self.known[whose])[len - 1 - back])
    }

    fn call(&mut self) {
        let player = self.below(4);
        let (owner, _) = self.processes[player];
        match self.below(60) {
            0..=11 => self.make(player, owner),
            12..=14 => self.unmake(player, owner),
            15..=24 => self.connect(player),
            25..=58 => self.post(player, owner),
            _ if self.below(20) == 0 => {
                let now = self.lab.world.now();
                self.lab.world.remove_process(now, owner);
            }
            _ => {}
        }
    }

    fn make(&mut self, player: usize, owner: ProcessId) {
        let hca = self.hca(player);
        let pd = self.pick(player, |k| &k.pds).unwrap_or_default();
        let cq = self.pick(player, |k| &k.cqs).unwrap_or_default();
        let world = &mut self.lab.world;
        match self.random.next_u64() % 9 {
            0 => self.known[player].pds.extend(world.alloc_pd(owner, hca)),
            1 => self.known[player].cqs.extend(world.create_cq(owner, hca, 5_000)),
            2 => {
                let init = MrInit { owner, pd, address: BASE, len_bytes: 0x8000, iova: BASE, access: ALL_RIGHTS };
                self.known[player].mrs.extend(world.register_mr(hca, init));
            }
            3 => {
                let kind = if owner.0 < 2 { WindowType::One } else { WindowType::Two };
                self.known[player].mws.extend(world.alloc_mw(owner, pd, kind));
            }
            4 => {
                let open = XrcdOpen { key: (owner.0 > 0).then_some((1, 1)), create: true, exclusive: false };
                self.known[player].xrcds.extend(world.open_xrcd(owner, hca, open));
            }
            5 => {
                let xrcd = self.known[player].xrcds.last().copied().filter(|_| owner.0.is_multiple_of(2));
                let init = SrqInit { pd, max_wr: 32, max_sge: 2, xrc: xrcd.map(|xrcd| SrqOfXrc { xrcd, cq }) };
                self.known[player].srqs.extend(world.create_srq(owner, hca, init));
            }
            6 => {
                let vector = AddressVector { dlid: self.lab.programs[1].lid, port: PortNumber(1), ..Default::default() };
                self.known[player].ahs.extend(world.create_ah(owner, pd, vector));
            }
            _ => self.make_qp(player, owner, pd, cq),
        }
    }

    fn make_qp(&mut self, player: usize, owner: ProcessId, pd: PdHandle, cq: CqHandle) {
        let qp_type = TYPES[self.below(5)];
        let srq = if self.below(3) == 0 { self.pick(player, |k| &k.srqs) } else { None };
        let xrcd = self.pick(player, |k| &k.xrcds).filter(|_| qp_type == QpType::XrcRecv);
        let capabilities = QpCapabilities { max_send_wr: 64, max_recv_wr: 64, max_send_sge: 4, max_recv_sge: 4, max_inline_bytes: 0 };
        let init = QpInit { qp_type, pd, send_cq: cq, recv_cq: cq, srq, xrcd, capabilities, signal_all: false, block_own_multicast: false };
        let hca = self.hca(player);
        if let Ok(made) = self.lab.world.create_qp(owner, hca, init) {
            self.known[player].qps.push((player, made.qpn, qp_type));
        }
    }

    fn unmake(&mut self, player: usize, owner: ProcessId) {
        let (hca, now) = (self.hca(player), self.lab.world.now());
        let known = [0; 8].map(|_| self.below(1 << 16));
        let whose = if self.below(10) == 0 { self.below(4) } else { player };
        let world = &mut self.lab.world;
        let at = |len: usize, n: usize| if len == 0 { None } else { Some(known[n] % len) };
        let k = &self.known[whose];
        let _ = match known[7] % 9 {
            0 => at(k.pds.len(), 0).map(|n| world.dealloc_pd(owner, k.pds[n])),
            1 => at(k.cqs.len(), 1).map(|n| world.destroy_cq(owner, k.cqs[n])),
            2 => at(k.mrs.len(), 2).map(|n| world.deregister_mr(owner, k.mrs[n].0)),
            3 => at(k.mws.len(), 3).map(|n| world.dealloc_mw(owner, k.mws[n].0)),
            4 => at(k.xrcds.len(), 4).map(|n| world.close_xrcd(owner, k.xrcds[n])),
            5 => at(k.srqs.len(), 5).map(|n| world.destroy_srq(owner, k.srqs[n])),
            6 => at(k.mrs.len(), 2).map(|n| {
                let change = MrChange { pd: at(k.pds.len(), 0).map(|n| k.pds[n]), ..MrChange::default() };
                world.reregister_mr(owner, k.mrs[n].0, &change).map(|_| ())
            }),
            7 => at(k.qps.len(), 6).map(|n| {
                let (xrcd, qpn) = (k.xrcds.last().copied().unwrap_or_default(), k.qps[n].1);
                world.open_qp(owner, xrcd, qpn).map(|_| ())
            }),
            _ => at(k.qps.len(), 6).map(|n| world.destroy_qp(now, owner, hca, k.qps[n].1)),
        };
    }

    /// Connects two queue pairs, or moves one queue pair to some state.
    fn connect(&mut self, player: usize) {
        let Some((owner, qpn, qp_type)) = self.pick(player, |k| &k.qps) else { return };
        let failed = self.lab.world.query_qp(self.processes[player].0, self.hca(player), qpn).is_ok_and(|qp| qp.state == QpState::Error);
        if self.below(6) == 0 || failed {
            let state = if failed { QpState::Reset } else { [QpState::Reset, QpState::Error, QpState::Sqd, QpState::Rts][self.below(4)] };
            let (now, hca) = (self.lab.world.now(), self.hca(player));
            let change = QpModification { state: Some(state), ..Default::default() };
            let _ = self.lab.world.modify_qp(now, self.processes[player].0, hca, qpn, &change);
            return;
        }
        let other = match qp_type {
            QpType::XrcSend => QpType::XrcRecv,
            QpType::XrcRecv => QpType::XrcSend,
            same => same,
        };
        let peers: Vec<_> = self.known.iter().flat_map(|k| k.qps.iter().copied()).filter(|(.., kind)| *kind == other).collect();
        if peers.is_empty() {
            return;
        }
        let at = self.below(peers.len());
        let (peer, peer_qpn, _) = peers[at];
        self.bring_up((owner, qpn, qp_type), (peer, peer_qpn));
        self.bring_up((peer, peer_qpn, other), (owner, qpn));
    }

    fn bring_up(&mut self, (player, qpn, qp_type): (usize, Qpn, QpType), (peer, peer_qpn): (usize, Qpn)) {
        let (owner, hca) = (self.processes[player].0, self.hca(player));
        let ud = qp_type == QpType::Ud;
        let (requests, responds) = (qp_type != QpType::XrcRecv, qp_type != QpType::XrcSend);
        let fetches = |allowed: bool| (qp_type.is_reliable() && allowed).then_some(4);
        let vector = AddressVector { dlid: self.lab.programs[self.processes[peer].1].lid, port: PortNumber(1), ..Default::default() };
        let steps = [
            QpModification {
                state: Some(QpState::Init),
                pkey_index: Some(0),
                port: Some(PortNumber(1)),
                access: (!ud).then_some(ALL_RIGHTS),
                qkey: ud.then_some(QKey(1)),
                ..Default::default()
            },
            QpModification {
                state: Some(QpState::Rtr),
                address_vector: (!ud).then_some(vector),
                path_mtu: (!ud).then_some(Mtu::B256),
                dest_qpn: (!ud).then_some(peer_qpn),
                receive_psn: (!ud).then_some(Psn::new(0)),
                max_dest_rd_atomic: fetches(responds),
                min_rnr_timer: fetches(responds).map(|_| 1),
                ..Default::default()
            },
            QpModification {
                state: Some(QpState::Rts),
                send_psn: Some(Psn::new(0)),
                local_ack_timeout: fetches(true).map(|_| 6),
                retry_count: fetches(requests).map(|_| 1),
                rnr_retry: fetches(requests).map(|_| 1),
                max_rd_atomic: fetches(requests),
                ..Default::default()
            },
        ];
        for step in steps {
            let now = self.lab.world.now();
            let _ = self.lab.world.modify_qp(now, owner, hca, qpn, &step);
        }
    }

    fn post(&mut self, player: usize, owner: ProcessId) {
        let (hca, now) = (self.hca(player), self.lab.world.now());
        let Some((_, qpn, _)) = self.pick(player, |k| &k.qps) else { return };
        // A library would refuse this, but a program may bypass the library.
        let ready = self.lab.world.query_qp(owner, hca, qpn).is_ok_and(|qp| matches!(qp.state, QpState::Rts | QpState::Sqd));
        if !ready && self.below(50) > 0 {
            return;
        }
        let (mr, lkey, rkey) = self.pick(player, |k| &k.mrs).unwrap_or_default();
        let len_bytes = if self.below(2) == 0 { 8 } else { self.below(3_000) as u32 };
        let entries = vec![ScatterGatherEntry { address: BASE + 8 * self.below(0x800) as u64, len_bytes, lkey }];
        let srq = self.pick(player, |k| &k.srqs).unwrap_or_default();
        let mut mgid = Gid::default();
        mgid.0[0] = 0xFF;
        match self.below(8) {
            0 | 1 => self.lab.world.post_receive(now, owner, hca, qpn, ReceiveRequest { wr_id: 1, entries, srq: None }),
            2 => self.lab.world.post_srq_receive(now, owner, srq, ReceiveRequest { wr_id: 2, entries, srq: None }),
            3 => {
                let attach = self.below(2) == 0;
                let _ = if attach {
                    self.lab.world.attach_multicast(owner, hca, qpn, mgid, Lid(0xC001))
                } else {
                    self.lab.world.detach_multicast(owner, hca, qpn, mgid, Lid(0xC001))
                };
            }
            _ => {
                let operation = self.operation(player, mr, rkey);
                let datagram = self.pick(player, |k| &k.ahs).map(|ah| DatagramDestination { ah, remote_qpn: qpn, remote_qkey: QKey(1) });
                let xrc_srq = Some(srq.0 >> 8);
                let request =
                    SendRequest { wr_id: 3, operation, signaled: true, solicited: false, fence: false, inline: None, entries, datagram, xrc_srq };
                self.lab.world.post_send(now, owner, hca, qpn, request);
            }
        }
    }

    fn operation(&mut self, player: usize, mr: MrHandle, region_key: RKey) -> SendOperation {
        let (mw, window_key) = self.pick(player, |k| &k.mws).unwrap_or_default();
        let anybody = self.below(4);
        let theirs = self.pick(anybody, |k| &k.mrs).map_or(region_key, |(.., rkey)| rkey);
        let window = self.pick(anybody, |k| &k.mws).map_or(window_key, |(_, rkey)| RKey(rkey.0 + 1));
        let rkey = if self.below(3) == 0 { window } else { theirs };
        let remote_address = BASE + 8 * self.below(0x800) as u64;
        let next = RKey(window_key.0 & !0xFF | self.below(2) as u32);
        let bind = WindowBind { mw, rkey: next, mr: Some(mr), iova: BASE, len_bytes: 0x1000, access: ALL_RIGHTS, zero_based: false };
        match self.below(9) {
            0 => SendOperation::Send { immediate: Some(4) },
            1 => SendOperation::SendAndInvalidate { rkey: window_key },
            2 => SendOperation::RdmaWrite { remote_address, rkey, immediate: None },
            3 => SendOperation::RdmaWrite { remote_address, rkey, immediate: Some(5) },
            4 => SendOperation::RdmaRead { remote_address, rkey },
            5 => SendOperation::FetchAdd { remote_address, rkey, add: 1 },
            6 => SendOperation::AtomicWrite { remote_address, rkey },
            7 => SendOperation::LocalInvalidate { rkey: window_key },
            _ => SendOperation::BindWindow(bind),
        }
    }
}

#[test]
fn any_sequence_of_verbs_leaves_a_fabric_that_comes_to_rest() {
    let mut completed = 0;
    for seed in 0..SEEDS {
        let mut players = Players::new(seed);
        for _ in 0..CALLS {
            players.call();
            for _ in 0..players.below(20) {
                players.lab.step();
            }
        }
        completed += players.lab.notices.len();
        for n in 0..4 {
            let now = players.lab.world.now();
            players.lab.world.remove_process(now, ProcessId(n));
        }
        players.lab.run();
        assert_eq!(players.lab.world.packets_under_way(), 0, "seed {seed}");
        players.lab.world.assert_credits_are_back();
    }
    assert!(completed > 5_000, "too little happens to prove anything: {completed}");
}
