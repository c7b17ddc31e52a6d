//! Posts of work requests, as a library in the program makes them: never more than a queue holds.

use super::setup::QKEY;
use super::{Driver, Objects, Timer};
use crate::memory::{CELLS, MAIN, Memory, STATIC_BYTES, SlotId, Use, cell_address, mix};
use crate::oracle::{Outgoing, Posted, ROUTE_BYTES, Sent};
use crate::plan::{ConnectionPlan, End, Flaw, Message, Operation};
use softband_model::verbs::SharedReceiveQueue;
use softband_model::verbs::api::{DatagramDestination, PayloadSlice, ReceiveRequest, ScatterGatherEntry, SendOperation, SendRequest};
use softband_sim::SimDuration;
use softband_types::{LKey, QpState, QpType, RKey};
use std::sync::Arc;

/// Marks the `wr_id` of receive requests.
const RECEIVE: u64 = 1 << 63;
/// Key of no region and no window.
const UNKNOWN_KEY: u32 = 0x00FF_FF01;

impl Driver<'_> {
    /// Checks whether the program of an end can post to its send queue.
    pub(super) fn can_post(&self, end: End) -> bool {
        let record = &self.oracle.ends[&end];
        let state = self.world.find_qp(record.hca, record.qpn).map(|(_, snapshot)| snapshot.state);
        let sends = self.plan.connections[end.connection].type_at(end.side) != QpType::XrcRecv;
        sends && record.exists && matches!(state, Some(QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Error))
    }

    /// Posts a message, or lets it wait for room.
    pub(super) fn post(&mut self, end: End, message: Message) {
        self.backlog.get_mut(&end).expect("every end has one").push_back(message);
        self.post_backlog(end);
    }

    pub(super) fn post_backlog(&mut self, end: End) {
        let depth = self.plan.connections[end.connection].send_depth as usize;
        while self.can_post(end)
            && self.oracle.ends[&end].sends.len() < depth
            && let Some(message) = self.backlog.get_mut(&end).and_then(std::collections::VecDeque::pop_front)
        {
            // Only a completion shows that unsignaled requests have left the queue.
            let outstanding = &self.oracle.ends[&end].sends;
            let silent = outstanding.iter().rev().take_while(|sent| !sent.signaled).count();
            let signaled = message.signaled || silent + 1 >= depth.div_ceil(2);
            self.post_now(end, Message { signaled, ..message });
        }
    }

    fn post_now(&mut self, end: End, message: Message) {
        let plan = &self.plan.connections[end.connection];
        let tag = self.next_tag;
        self.next_tag += 1;
        let process = plan.ends[end.side];
        let Objects { id, hca, .. } = self.objects[process];
        let qpn = self.oracle.ends[&end].qpn;
        let message = self.with_window(end, message);
        let carries = !message.operation.is_local() && (!message.operation.expects_response() || message.operation == Operation::AtomicWrite);
        let immediate = message.immediate.then_some(tag as u32 ^ 0x5A00_0000);
        let window = self.window_of(end, &message);
        let (operation, place, len_bytes) = self.operation(end, &message, tag, immediate);
        if let Some(slot) = place.filter(|_| message.operation == Operation::WriteWindow) {
            self.memory.slots[slot].window = window;
        }
        let window = window.filter(|_| message.operation != Operation::WriteWindow);
        let source = (carries && !message.inline).then(|| self.memory.allocate((process, MAIN), len_bytes, message.pieces, Use::Source));
        let content = if message.operation == Operation::AtomicWrite {
            crate::oracle::value_of(tag).to_ne_bytes().to_vec()
        } else {
            Memory::content(tag, len_bytes)
        };
        source.into_iter().for_each(|slot| self.memory.overwrite(slot, &content));
        let inline = (carries && message.inline).then(|| PayloadSlice { buffer: Some(Arc::from(content.as_slice())), offset: 0, len: len_bytes });
        let landing = place.filter(|_| !carries);
        let mut entries = source.or(landing).map_or_else(Vec::new, |slot| self.entries(process, slot));
        if message.flaw == Flaw::LocalKey {
            entries.iter_mut().for_each(|entry| entry.lkey = LKey(UNKNOWN_KEY));
        }
        let request = SendRequest {
            wr_id: tag,
            operation: if message.flaw == Flaw::RemoteKey { with_unknown_key(operation) } else { operation },
            signaled: message.signaled,
            solicited: message.solicited,
            fence: message.fence,
            inline,
            entries,
            datagram: self.address_handles.get(&end).map(|ah| DatagramDestination {
                ah: *ah,
                remote_qpn: self.oracle.ends[&end.peer()].qpn,
                remote_qkey: QKEY,
            }),
            xrc_srq: self.number_of_queue(end),
        };
        let signaled = message.signaled || plan.signals_all;
        // A request without bytes needs no key.
        let flaw = if len_bytes > 0 { message.flaw } else { Flaw::None };
        self.record(end, &message, Sent { tag, operation: message.operation, len_bytes, signaled, flaw, source, window, place }, immediate);
        self.world.post_send(self.world.now(), id, hca, qpn, request);
    }

    fn record(&mut self, end: End, message: &Message, sent: Sent, immediate: Option<u32>) {
        let record = self.oracle.ends.get_mut(&end).expect("both ends exist from the start");
        let is_write = message.operation.writes();
        if let Some(slot) = sent.place.filter(|_| matches!(message.operation, Operation::Write { .. })) {
            record.last_write = Some((slot, sent.tag));
        }
        if message.takes_receive() {
            let writes = record.order.map_or(0, |queue| self.memory.orders[queue].0.len());
            let outgoing =
                Outgoing { tag: sent.tag, is_write, len_bytes: sent.len_bytes, immediate, solicited: message.solicited, window: sent.window, writes };
            record.undelivered.push(record.outgoing.len());
            record.outgoing.push(outgoing);
        }
        record.sends.push_back(sent);
    }

    /// Returns the operation of a message, the slot that it writes to, and its length.
    fn operation(&mut self, end: End, message: &Message, tag: u64, immediate: Option<u32>) -> (SendOperation, Option<SlotId>, u32) {
        let plan = &self.plan.connections[end.connection];
        let (process, peer) = (plan.ends[end.side], plan.ends[end.peer().side]);
        let main = self.objects[peer].regions[MAIN].2;
        let len = message.len_bytes;
        match message.operation {
            Operation::Send => (SendOperation::Send { immediate }, None, len),
            Operation::SendInvalidate => (SendOperation::SendAndInvalidate { rkey: self.window_key(end.peer()) }, None, len),
            Operation::Invalidate => (SendOperation::LocalInvalidate { rkey: self.window_key(end) }, None, 0),
            Operation::Bind { .. } => (self.bind(process), None, 0),
            Operation::WriteWindow => {
                let rkey = self.window_key(end.peer());
                let region = self.oracle.ends[&end.peer()].window.map_or(MAIN, |window| self.memory.windows[window].region);
                let slot = self.memory.allocate_target((peer, region), len, tag, self.oracle.ends[&end].order);
                let (remote_address, _) = self.memory.slots[slot].pieces.first().copied().unwrap_or_default();
                (SendOperation::RdmaWrite { remote_address, rkey, immediate }, Some(slot), len)
            }
            Operation::Write { region } => {
                let region = region + 1;
                let order = self.oracle.ends[&end].order;
                let slot = self.memory.allocate_target((peer, region), len, tag, order);
                let (remote_address, _) = self.memory.slots[slot].pieces.first().copied().unwrap_or_default();
                let rkey = self.objects[peer].regions[region].2;
                (SendOperation::RdmaWrite { remote_address, rkey, immediate }, Some(slot), len)
            }
            Operation::ReadBack if let Some((target, written)) = self.oracle.ends[&end].last_write => {
                let (remote_address, len) = self.memory.slots[target].pieces.first().copied().unwrap_or_default();
                let region = self.memory.slots[target].region();
                let landing = Use::Landing { tag: written, from: 0 };
                let slot = self.memory.allocate((process, MAIN), len, message.pieces, landing);
                (SendOperation::RdmaRead { remote_address, rkey: self.objects[peer].regions[region].2 }, Some(slot), len)
            }
            Operation::Read | Operation::ReadBack => {
                let from = (mix(tag) % u64::from(STATIC_BYTES - len)) as u32;
                let landing = Use::Landing { tag: crate::memory::static_tag(peer), from };
                let slot = self.memory.allocate((process, MAIN), len, message.pieces, landing);
                (SendOperation::RdmaRead { remote_address: crate::memory::address_of(MAIN) + u64::from(from), rkey: main }, Some(slot), len)
            }
            Operation::FetchAdd | Operation::CompareSwap | Operation::AtomicWrite => {
                let cell = tag % CELLS;
                // Half of the comparisons are with the present value.
                let compare = if tag.is_multiple_of(2) { self.memory.cell(peer, cell) } else { mix(tag) };
                let operand = self.oracle.atomics.post(tag, message.operation, (peer, cell), compare, &self.memory);
                let remote_address = cell_address(cell);
                let operation = match message.operation {
                    Operation::FetchAdd => SendOperation::FetchAdd { remote_address, rkey: main, add: operand },
                    Operation::CompareSwap => SendOperation::CompareSwap { remote_address, rkey: main, compare, swap: operand },
                    _ => return (SendOperation::AtomicWrite { remote_address, rkey: main }, None, 8),
                };
                let slot = self.memory.allocate((process, MAIN), 8, 1, Use::Outcome);
                (operation, Some(slot), 8)
            }
        }
    }

    fn entries(&self, process: usize, slot: SlotId) -> Vec<ScatterGatherEntry> {
        let lkey = self.objects[process].regions[MAIN].1;
        let entry = |(address, len_bytes): &(u64, u32)| ScatterGatherEntry { address: *address, len_bytes: *len_bytes, lkey };
        self.memory.slots[slot].pieces.iter().map(entry).collect()
    }

    /// Posts a receive request if the queue has room.
    pub(super) fn post_receive(&mut self, end: End) {
        let plan = &self.plan.connections[end.connection];
        let receives = plan.receives[end.side];
        let process = plan.ends[end.side];
        let Objects { id, hca, srq, extended, .. } = self.objects[process];
        let srq = match plan.type_at(end.side) {
            QpType::XrcRecv => extended.map(|(_, srq)| srq),
            // Its peer sends nothing.
            QpType::XrcSend => return,
            _ => srq,
        };
        let record = &self.oracle.ends[&end];
        let is_ready = self.world.find_qp(record.hca, record.qpn).is_some_and(|(_, snapshot)| snapshot.state != QpState::Reset);
        if !record.exists || !is_ready {
            return;
        }
        let len_bytes = if srq.is_some() { self.shared_room(process) } else { room(plan, end.side) };
        let again = srq.is_some() || !plan.transport.is_reliable();
        let wr_id = RECEIVE | self.next_tag;
        self.next_tag += 1;
        let now = self.world.now();
        let slot = self.memory.allocate((process, MAIN), len_bytes, receives.pieces, Use::Receive { again });
        let request = ReceiveRequest { wr_id, entries: self.entries(process, slot), srq };
        if let Some(srq) = srq {
            self.oracle.processes[process].shared.insert(wr_id, slot);
            return self.world.post_srq_receive(now, id, srq, request);
        }
        let record = self.oracle.ends.get_mut(&end).expect("both ends exist from the start");
        if record.receives.len() < receives.depth as usize {
            record.receives.push_back(Posted { wr_id, slot });
            let qpn = record.qpn;
            self.world.post_receive(now, id, hca, qpn, request);
        }
    }

    /// Returns the number of the queue that an extended reliable connection delivers to.
    fn number_of_queue(&self, end: End) -> Option<u32> {
        let plan = &self.plan.connections[end.connection];
        let (_, srq) = self.objects[plan.ends[end.peer().side]].extended.filter(|_| plan.transport == QpType::XrcSend)?;
        Some(SharedReceiveQueue::number_of(srq))
    }

    /// Returns the room of a shared receive request, which any message to the process may take.
    fn shared_room(&self, process: usize) -> u32 {
        let of_sides = |plan: &ConnectionPlan| [0, 1].map(|side| if plan.ends[side] == process { room(plan, side) } else { 0 });
        self.plan.connections.iter().flat_map(of_sides).max().unwrap_or(0)
    }

    /// Posts another receive request for a used one, after the plan's lag.
    pub(super) fn renew_receive(&mut self, end: End) {
        let record = &self.oracle.ends[&end];
        let state = self.world.find_qp(record.hca, record.qpn).map(|(_, snapshot)| snapshot.state);
        if state.is_none_or(|state| state == QpState::Error) {
            return;
        }
        let lag = SimDuration::from_nanos(self.plan.connections[end.connection].receives[end.side].lag_nanos);
        let (hca, generation, at) = (record.hca, record.generation, self.world.now() + lag);
        self.wake_at(hca, at, Timer::Receive { end, generation, count: 1 });
    }
}

/// Returns the room of a receive request of one side, with that of a datagram's route header.
fn room(plan: &ConnectionPlan, side: usize) -> u32 {
    plan.receives[side].len_bytes + if plan.transport == QpType::Ud { ROUTE_BYTES } else { 0 }
}

fn with_unknown_key(operation: SendOperation) -> SendOperation {
    let rkey = RKey(UNKNOWN_KEY);
    match operation {
        SendOperation::RdmaWrite { remote_address, immediate, .. } => SendOperation::RdmaWrite { remote_address, rkey, immediate },
        SendOperation::RdmaRead { remote_address, .. } => SendOperation::RdmaRead { remote_address, rkey },
        other => other,
    }
}
