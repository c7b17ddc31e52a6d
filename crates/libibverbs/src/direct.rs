//! RDMA writes and reads in wall pace: the posting thread moves the data itself, where nothing can go wrong.
//!
//! Everything that is out of the ordinary (a key that does not fit, a peer that is not ready, a completion queue that raises events)
//! is left to the engine, which is the one place that knows what follows from it. Work of one queue pair stays in order: only when
//! all that went to the engine has completed is work carried out here, and completions come in the order in which they were made.

use crate::guard::lock;
use crate::qp::QpInner;
use softband_abi::verbs::*;
use softband_client::direct::{Looking, Stretch, look, read, write};
use softband_client::{last_answer_ps, now_ps};
use softband_ipc::post::{PostRecord, kind, opcode, send_flags};
use softband_ipc::ring::{Cqe, flags};
use softband_ipc::tables::QpEntry;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Entries of a request that is carried out here.
const SGES_MAX: usize = 32;

/// Completions of work that was carried out here, each with the number of the engine's that come before it.
#[derive(Default)]
pub(crate) struct OwnCompletions {
    queue: Mutex<VecDeque<(u32, Cqe)>>,
    len: AtomicUsize,
}

impl OwnCompletions {
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    fn push(&self, behind: u32, cqe: Cqe) {
        let mut queue = lock(&self.queue);
        queue.push_back((behind, cqe));
        self.len.store(queue.len(), Ordering::Release);
    }

    /// The next one, if everything of the engine's that comes before it has been taken.
    pub(crate) fn take(&self, consumed: u32) -> Option<Cqe> {
        if self.len() == 0 {
            return None;
        }
        let mut queue = lock(&self.queue);
        let (behind, _) = queue.front()?;
        if behind.wrapping_sub(consumed) as i32 > 0 {
            return None;
        }
        let (_, cqe) = queue.pop_front()?;
        self.len.store(queue.len(), Ordering::Release);
        Some(cqe)
    }
}

/// Carries a send request out, if it is one that can be; its place in the queue is taken already.
pub(crate) fn carry_out(qp: &QpInner, record: &PostRecord, list: &[ibv_sge], inline: &[u8]) -> bool {
    let offered = match record.opcode {
        opcode::RDMA_WRITE => qp.qp_type == IBV_QPT_RC || qp.qp_type == IBV_QPT_UC,
        opcode::RDMA_READ => qp.qp_type == IBV_QPT_RC,
        _ => false,
    };
    let Some(index) = qp.direct_entry.checked_sub(1) else { return false };
    // SAFETY: a completion queue stays while queue pairs use it.
    let cq = unsafe { &*qp.send_cq.0 };
    if !offered || !cq.takes_own || !qp.send.is_settled() {
        return false;
    }
    let signalled = qp.signals_all || record.flags & send_flags::SIGNALED != 0;
    let is_full = || {
        let ring = lock(&cq.ring);
        ring.all_waiting() as usize + cq.own.len() >= ring.capacity() as usize
    };
    if signalled && is_full() {
        let overrun = PostRecord { kind: kind::CQ_OVERRUN, hca: qp.hca, object: cq.handle, ..bytemuck::Zeroable::zeroed() };
        let _ = softband_client::post::post(overrun, &[], &[]);
        return false;
    }
    let mut moved = 0;
    loop {
        // Looked up anew for each piece: what was withdrawn meanwhile is not reached any more. A request that breaks off here is
        // carried out from its start by the engine, or fails there.
        let Some(looking) = look() else { return false };
        let Some((piece, len_bytes)) = move_piece(&looking, (qp, index), record, (list, inline), moved) else { return false };
        moved += piece;
        if moved < len_bytes {
            continue;
        }
        let count = qp.send.note_carried_out();
        if signalled {
            let ring = lock(&cq.ring);
            cq.own.push(ring.all_produced(), completion(qp, record, len_bytes, count));
        }
        return true;
    }
}

/// Bytes that are moved at once: the engine waits for transfers under way before it lets anything go.
const PIECE_BYTES: u64 = 2 << 20;

/// Moves the data of a request from byte `from` on; answers how many bytes went and how many there are. `None` when something is not
/// as it should be.
fn move_piece(
    looking: &Looking,
    (qp, index): (&QpInner, u32),
    record: &PostRecord,
    (list, inline): (&[ibv_sge], &[u8]),
    from: u64,
) -> Option<(u64, u64)> {
    let own = looking.queue_pair(index, qp.qpn).filter(|own| own.state.load(Ordering::Acquire) == IBV_QPS_RTS)?;
    let peer = looking.peer(own, index)?;
    let is_read = record.opcode == opcode::RDMA_READ;
    let right = if is_read { IBV_ACCESS_REMOTE_READ } else { IBV_ACCESS_REMOTE_WRITE };
    let ready = [IBV_QPS_RTR, IBV_QPS_RTS].contains(&peer.state.load(Ordering::Acquire));
    if !ready || peer.access.load(Ordering::Relaxed) & right == 0 {
        return None;
    }
    let mut room = [Stretch { address: 0, len_bytes: 0 }; SGES_MAX];
    let local = local_stretches(looking, own, (list, inline), is_read, &mut room)?;
    let len_bytes = local.iter().map(|stretch| stretch.len_bytes).sum();
    if len_bytes > i32::MAX as u64 {
        return None;
    }
    let remote = match len_bytes {
        0 => Stretch { address: 0, len_bytes: 0 }, // nothing is looked at (IBTA 9.4.3)
        _ => looking.reach(peer, record.rkey, record.remote_address, len_bytes, right)?,
    };
    let pid = peer.pid.load(Ordering::Relaxed);
    let len = (len_bytes - from).min(PIECE_BYTES);
    let mut cut = [Stretch { address: 0, len_bytes: 0 }; SGES_MAX];
    let local = part_of(local, from, len, &mut cut);
    let remote = Stretch { address: remote.address + from, len_bytes: len };
    let moved = if is_read { read(pid, local, remote) } else { write(pid, local, remote) };
    moved.then_some((len, len_bytes))
}

/// Bytes `from..from + len` of the stretches, one after another.
fn part_of<'a>(whole: &[Stretch], from: u64, len: u64, room: &'a mut [Stretch; SGES_MAX]) -> &'a [Stretch] {
    let (mut skip, mut rest, mut count) = (from, len, 0);
    for stretch in whole {
        let begin = skip.min(stretch.len_bytes);
        let part = (stretch.len_bytes - begin).min(rest);
        skip -= begin;
        rest -= part;
        if part > 0 {
            room[count] = Stretch { address: stretch.address + begin, len_bytes: part };
            count += 1;
        }
    }
    &room[..count]
}

fn local_stretches<'a>(
    looking: &Looking,
    own: &QpEntry,
    (list, inline): (&[ibv_sge], &[u8]),
    is_written: bool,
    room: &'a mut [Stretch; SGES_MAX],
) -> Option<&'a [Stretch]> {
    if list.is_empty() {
        room[0] = Stretch { address: inline.as_ptr() as u64, len_bytes: inline.len() as u64 };
        return Some(&room[..1]);
    }
    let right = if is_written { IBV_ACCESS_LOCAL_WRITE } else { 0 };
    for (to, entry) in room.get_mut(..list.len())?.iter_mut().zip(list) {
        *to = looking.reach(own, entry.lkey, entry.addr, u64::from(entry.length), right)?;
    }
    Some(&room[..list.len()])
}

fn completion(qp: &QpInner, record: &PostRecord, len_bytes: u64, count: u32) -> Cqe {
    Cqe {
        wr_id: record.wr_id,
        // Not before what the engine has answered last: a reset tells old completions from new ones by that.
        time_ps: now_ps().max(last_answer_ps()),
        status: IBV_WC_SUCCESS,
        opcode: if record.opcode == opcode::RDMA_READ { IBV_WC_RDMA_READ } else { IBV_WC_RDMA_WRITE },
        byte_len: len_bytes as u32,
        qpn: qp.qpn,
        flags: flags::CARRIED_OUT_BY_PROGRAM,
        send_retired: count,
        ..bytemuck::Zeroable::zeroed()
    }
}
