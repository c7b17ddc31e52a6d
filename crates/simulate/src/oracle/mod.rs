//! The oracle: an independent record of every request, against which it judges the World.

mod atomics;
mod receives;
mod rest;
mod sends;
mod violation;

pub(crate) use atomics::value_of;
pub(crate) use receives::ROUTE_BYTES;
pub use violation::{Rule, Violation};

use crate::memory::{Memory, SlotId};
use crate::plan::{ConnectionPlan, End, Flaw, Operation, Plan};
use crate::sabotage::Sabotage;
use atomics::Atomics;
use softband_fabric::World;
use softband_model::verbs::api::Completion;
use softband_types::{CqHandle, HcaId, ProcessId, QpState, QpType, Qpn, WcOpcode, WcStatus};
use std::collections::{BTreeMap, VecDeque};

/// A send request that has no completion yet.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// Tag of its payload, and its `wr_id`.
    pub tag: u64,
    pub operation: Operation,
    pub len_bytes: u32,
    pub signaled: bool,
    pub flaw: Flaw,
    pub source: Option<SlotId>,
    /// Window that the request binds or invalidates.
    pub window: Option<usize>,
    /// Target of a write, or landing of a read or an atomic's result.
    pub place: Option<SlotId>,
}

/// A message that takes a receive request of the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub tag: u64,
    pub is_write: bool,
    pub len_bytes: u32,
    pub immediate: Option<u32>,
    pub solicited: bool,
    /// Window that it invalidates.
    pub window: Option<usize>,
    /// Writes of the queue up to this message.
    pub writes: usize,
}

/// A receive request that has no completion yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posted {
    pub wr_id: u64,
    pub slot: SlotId,
}

/// One end of a connection, as its program knows it.
#[derive(Debug)]
pub(crate) struct EndRecord {
    pub process: usize,
    pub hca: HcaId,
    pub qpn: Qpn,
    pub transport: QpType,
    pub generation: u32,
    /// Whether the queue pair exists.
    pub exists: bool,
    pub sends: VecDeque<Sent>,
    pub receives: VecDeque<Posted>,
    /// Send requests retired, as the program counts them (wraps).
    retired: u32,
    send_failed: bool,
    receive_failed: bool,
    /// Whether it went back to RTS, perhaps before its flushed requests had completed.
    restarted: bool,
    /// Messages of this generation for the peer's receives, and those that the peer has got.
    pub outgoing: Vec<Outgoing>,
    delivered: usize,
    /// Messages of an unreliable queue pair that the peer may still get.
    pub undelivered: Vec<usize>,
    /// Messages that completed successfully here.
    acknowledged: usize,
    /// Targets of writes that succeeded before their last byte had landed.
    late: Vec<SlotId>,
    /// Order of its writes in the memory.
    pub order: Option<usize>,
    /// The window that it bound last.
    pub window: Option<usize>,
    /// Tag and length of the last write, for a read of the same bytes.
    pub last_write: Option<(SlotId, u64)>,
    expected_psn: Option<u32>,
}

/// A process's queues that all its connections share.
pub(crate) struct ProcessRecord {
    pub send_cq: CqHandle,
    pub receive_cq: CqHandle,
    /// Whether it has deregistered a region.
    pub has_deregistered: bool,
    /// Requests of its shared receive queue.
    pub shared: BTreeMap<u64, SlotId>,
}

/// Work for the program after a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The send queue has room again.
    Sent(End),
    /// A receive request was used.
    Received(End),
}

pub(crate) struct Oracle {
    pub ends: BTreeMap<End, EndRecord>,
    pub processes: Vec<ProcessRecord>,
    pub atomics: Atomics,
    by_number: BTreeMap<(HcaId, Qpn), End>,
    /// Nothing can make a request fail.
    pub calm: bool,
    /// Successful completions, by operation.
    pub successes: BTreeMap<&'static str, u64>,
    pub failures: BTreeMap<&'static str, u64>,
}

impl Oracle {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            ends: BTreeMap::new(),
            processes: Vec::new(),
            atomics: Atomics::default(),
            by_number: BTreeMap::new(),
            calm: plan.is_calm(),
            successes: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }

    /// Records a new queue pair.
    pub(crate) fn add_end(&mut self, end: End, (process, hca, qpn): (usize, HcaId, Qpn), plan: &ConnectionPlan, memory: &mut Memory) {
        self.by_number.insert((hca, qpn), end);
        let record = EndRecord {
            process,
            hca,
            qpn,
            transport: plan.transport,
            generation: 0,
            exists: true,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            retired: 0,
            send_failed: false,
            receive_failed: false,
            restarted: false,
            outgoing: Vec::new(),
            delivered: 0,
            undelivered: Vec::new(),
            acknowledged: 0,
            late: Vec::new(),
            order: None,
            window: None,
            last_write: None,
            expected_psn: None,
        };
        self.ends.insert(end, record);
        self.begin(end, memory);
    }

    /// Voids all requests of an end, whose queue pair was reset or has gone.
    pub(crate) fn void(&mut self, end: End, memory: &mut Memory) {
        let Some(record) = self.ends.get_mut(&end) else { return };
        for sent in record.sends.drain(..) {
            // Packets on their way hold copies of the payload.
            sent.source.into_iter().for_each(|slot| memory.close(slot));
            sent.place.into_iter().for_each(|slot| memory.abandon(slot));
        }
        record.receives.drain(..).for_each(|posted| memory.abandon(posted.slot));
    }

    /// Records that an end works again after an error of its send queue.
    pub(crate) fn restart(&mut self, end: End) {
        if let Some(record) = self.ends.get_mut(&end) {
            record.send_failed = false;
            record.restarted = true;
        }
    }

    /// Starts a new generation of an end.
    pub(crate) fn begin(&mut self, end: End, memory: &mut Memory) {
        self.void(end, memory);
        let Some(record) = self.ends.get_mut(&end) else { return };
        memory.orders.push((Vec::new(), 0));
        record.order = (record.transport.is_reliable()).then(|| memory.orders.len() - 1);
        record.generation += 1;
        (record.retired, record.acknowledged, record.delivered) = (0, 0, 0);
        (record.send_failed, record.receive_failed, record.restarted) = (false, false, false);
        if record.transport.is_reliable() {
            // Packets of an unreliable queue pair may arrive after its reset.
            record.outgoing.clear();
            record.undelivered.clear();
        }
        record.late.clear();
        record.last_write = None;
        record.window = None;
        record.expected_psn = None;
    }

    /// Records that a queue pair is gone.
    pub(crate) fn remove(&mut self, end: End, memory: &mut Memory) {
        self.void(end, memory);
        if let Some(record) = self.ends.get_mut(&end) {
            record.exists = false;
        }
    }

    /// Records the death of a process.
    pub(crate) fn kill(&mut self, process: usize, memory: &mut Memory) {
        let of_process: Vec<End> = self.ends.iter().filter(|(_, record)| record.process == process).map(|(end, _)| *end).collect();
        of_process.into_iter().for_each(|end| self.remove(end, memory));
        self.processes[process].shared.clear();
    }

    /// Judges a completion.
    pub(crate) fn on_completed(
        &mut self,
        (process, cq): (ProcessId, CqHandle),
        completion: &Completion,
        world: &World,
        memory: &mut Memory,
    ) -> Result<Effect, Violation> {
        let process = process.0 as usize;
        let wrong = |why: &str| Violation::new(Rule::Completions, format!("{why}: {completion:?} of process {process}"));
        let Some(known) = self.processes.get(process).filter(|_| memory.is_alive(process)) else {
            return Err(wrong("a dead process got a completion"));
        };
        let receives = matches!(completion.opcode, WcOpcode::Receive | WcOpcode::ReceiveRdmaWithImmediate);
        if cq != if receives { known.receive_cq } else { known.send_cq } {
            return Err(wrong("the completion came to another completion queue"));
        }
        let end = self.by_number.iter().find(|((_, qpn), end)| *qpn == completion.qpn && self.ends[*end].process == process).map(|(_, end)| *end);
        let Some(end) = end else { return Err(wrong("no queue pair of the process has this number")) };
        if !self.ends[&end].exists && completion.srq.is_none() {
            return Err(wrong("a destroyed queue pair has a completion"));
        }
        if completion.status == WcStatus::FlushError {
            self.judge_flush(end, completion, world)?;
        } else if completion.status != WcStatus::Success && self.calm {
            return Err(Violation::new(Rule::Outcome, format!("nothing disturbs this request, but it failed: {completion:?}")));
        }
        if receives {
            self.on_received(end, completion, memory)?;
            Ok(Effect::Received(end))
        } else {
            self.on_sent(end, completion, memory)?;
            Ok(Effect::Sent(end))
        }
    }

    fn judge_flush(&self, end: End, completion: &Completion, world: &World) -> Result<(), Violation> {
        let record = &self.ends[&end];
        let state = world.find_qp(record.hca, record.qpn).map(|(_, snapshot)| snapshot.state);
        if self.calm || record.exists && !record.restarted && !matches!(state, Some(QpState::Error | QpState::Sqe)) {
            return Err(Violation::new(Rule::Outcome, format!("a request was flushed, but its queue pair is in {state:?}: {completion:?}")));
        }
        Ok(())
    }

    /// Judges the PSNs of all reliable connections. The responder's expected PSN only advances, and
    /// never beyond the packets that the requester has numbered.
    pub(crate) fn judge_psns(&mut self, connections: &[ConnectionPlan], world: &World, skips: bool) -> Result<(), Violation> {
        for (index, plan) in connections.iter().enumerate().filter(|(_, plan)| plan.transport.is_reliable()) {
            for side in 0..2 {
                let end = End { connection: index, side };
                let (Some(own), Some(peer)) = (self.ends.get(&end), self.ends.get(&end.peer())) else { continue };
                if !own.exists || !peer.exists || own.generation != peer.generation {
                    continue;
                }
                let snapshot = |record: &EndRecord| world.find_qp(record.hca, record.qpn).map(|(_, snapshot)| snapshot);
                let (Some(responder), Some(requester)) = (snapshot(own), snapshot(peer)) else { continue };
                let first = first_psn(plan, own.generation, end.peer().side);
                let behind = |psn: softband_types::Psn| psn.since(softband_types::Psn::new(first));
                let expected = behind(responder.receive_psn) + u32::from(skips) * 1_000_000;
                let numbered = behind(requester.send_psn);
                let before = own.expected_psn.unwrap_or(0);
                if expected < before || expected > numbered {
                    let detail =
                        format!("{end:?}: the responder expects packet {expected}, after {before}; the requester has numbered {numbered} packets");
                    return Err(Violation::new(Rule::PsnOrder, detail));
                }
                self.ends.get_mut(&end).expect("just found").expected_psn = Some(expected);
            }
        }
        Ok(())
    }

    /// Records the effect of a bind or of an invalidation of this side.
    fn judge_window(&mut self, end: End, operation: Operation, window: usize, memory: &mut Memory) {
        if matches!(operation, Operation::Bind { .. }) {
            self.ends.get_mut(&end).expect("the caller found it").window = Some(window);
            memory.windows[window].is_closed_early = memory.saboteur.plan() == Some(Sabotage::CloseWindows);
        } else if operation == Operation::Invalidate {
            memory.windows[window].is_open = false;
        }
    }

    fn count(&mut self, operation: &'static str, status: WcStatus) {
        let counts = if status == WcStatus::Success { &mut self.successes } else { &mut self.failures };
        let name = if status == WcStatus::Success { operation } else { status_name(status) };
        *counts.entry(name).or_default() += 1;
    }
}

/// Returns the PSN of the first packet that a side sends in a generation.
pub(crate) fn first_psn(plan: &ConnectionPlan, generation: u32, side: usize) -> u32 {
    if generation <= 1 {
        return (plan.first_psn + side as u32 * 0x1234) & 0xFF_FFFF;
    }
    // Far from the numbers of the former connection, whose packets may still be on their way.
    crate::memory::mix(u64::from(plan.first_psn) << 32 | u64::from(generation) << 1 | side as u64) as u32 & 0xFF_FFFF
}

fn status_name(status: WcStatus) -> &'static str {
    match status {
        WcStatus::Success => "success",
        WcStatus::LocalLengthError => "local length error",
        WcStatus::LocalQpOperationError => "local QP operation error",
        WcStatus::LocalProtectionError => "local protection error",
        WcStatus::FlushError => "flush",
        WcStatus::WindowBindError => "window bind error",
        WcStatus::BadResponseError => "bad response",
        WcStatus::LocalAccessError => "local access error",
        WcStatus::RemoteInvalidRequestError => "remote invalid request",
        WcStatus::RemoteAccessError => "remote access error",
        WcStatus::RemoteOperationError => "remote operation error",
        WcStatus::RetryExceeded => "retries exceeded",
        WcStatus::RnrRetryExceeded => "RNR retries exceeded",
        WcStatus::FatalError => "fatal error",
        WcStatus::GeneralError => "general error",
    }
}
