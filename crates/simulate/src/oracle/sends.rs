//! Completions of send requests: exactly one for each signaled request, in posting order.

use super::{EndRecord, Oracle, Rule, Sent, Violation};
use crate::memory::{Memory, SlotId};
use crate::plan::{End, Flaw, Operation};
use softband_model::verbs::api::Completion;
use softband_types::{WcOpcode, WcStatus};

fn opcode_of(operation: Operation) -> WcOpcode {
    match operation {
        Operation::Send | Operation::SendInvalidate => WcOpcode::Send,
        Operation::Write { .. } | Operation::WriteWindow => WcOpcode::RdmaWrite,
        Operation::Bind { .. } => WcOpcode::BindWindow,
        Operation::Invalidate => WcOpcode::LocalInvalidate,
        Operation::Read | Operation::ReadBack => WcOpcode::RdmaRead,
        Operation::FetchAdd => WcOpcode::FetchAdd,
        Operation::CompareSwap => WcOpcode::CompareSwap,
        Operation::AtomicWrite => WcOpcode::AtomicWrite,
    }
}

pub(super) fn name_of(operation: Operation) -> &'static str {
    match operation {
        Operation::Send => "send",
        Operation::Write { .. } => "write",
        Operation::Read => "read",
        Operation::ReadBack => "read back",
        Operation::FetchAdd => "fetch and add",
        Operation::CompareSwap => "compare and swap",
        Operation::AtomicWrite => "atomic write",
        Operation::Bind { .. } => "bind",
        Operation::WriteWindow => "write through a window",
        Operation::Invalidate => "invalidate",
        Operation::SendInvalidate => "send with invalidate",
    }
}

impl Oracle {
    pub(super) fn on_sent(&mut self, end: End, completion: &Completion, memory: &mut Memory) -> Result<(), Violation> {
        let wrong = |why: &str| Err(Violation::new(Rule::Completions, format!("{why}: {completion:?} of {end:?}")));
        let success = completion.status == WcStatus::Success;
        let record = self.ends.get_mut(&end).expect("the caller found it");
        let Some(place) = record.sends.iter().position(|sent| sent.tag == completion.wr_id) else {
            return wrong("a completion without an outstanding request");
        };
        if record.sends.iter().take(place).any(|sent| sent.signaled) {
            return wrong("a completion before those of earlier signaled requests");
        }
        let done: Vec<Sent> = record.sends.drain(..=place).collect();
        record.retired = record.retired.wrapping_add(done.len() as u32);
        let last = done.last().expect("its place was found");
        if completion.send_retired != record.retired {
            return wrong(&format!("{} requests are retired, the completion counts others", record.retired));
        }
        if success && !last.signaled {
            return wrong("an unsignaled request that succeeded has a completion");
        }
        if completion.opcode != opcode_of(last.operation) || success && completion.byte_len != last.len_bytes {
            return wrong(&format!("operation or length differ from the request {last:?}"));
        }
        // A mistake that the HCA found before the earlier failure keeps its own status.
        let explained = completion.status == WcStatus::FlushError || !success && (last.flaw != Flaw::None || last.operation.is_local());
        if record.send_failed && !record.restarted && !explained {
            return wrong("a request completed after an earlier failure, but was not flushed");
        }
        record.send_failed |= !success;
        // An unreliable queue pair goes on after a failure only when the program restarts it.
        let failed = (!success).then_some(completion.status);
        for (index, sent) in done.iter().enumerate() {
            let status = if index == place { failed } else { None };
            self.retire(end, sent, status, memory)?;
        }
        Ok(())
    }

    /// Judges the effects of a request that is done. `failed` is its error.
    pub(super) fn retire(&mut self, end: End, sent: &Sent, failed: Option<WcStatus>, memory: &mut Memory) -> Result<(), Violation> {
        self.count(name_of(sent.operation), failed.unwrap_or(WcStatus::Success));
        if let Some(window) = sent.window.filter(|_| failed.is_none()) {
            self.judge_window(end, sent.operation, window, memory);
        }
        let record = self.ends.get_mut(&end).expect("the caller found it");
        let result = if failed.is_none() { judge_success(record, end, sent, memory) } else { Ok(()) };
        let outcome = sent.place.map(|slot| memory.bytes(slot));
        if failed.is_none() && result.is_ok() {
            self.atomics.on_success(sent, outcome.as_deref(), memory)?;
        }
        sent.source.into_iter().for_each(|slot| memory.close(slot));
        // Packets of a failed or unreliable write may still be on their way.
        let is_reliable = self.ends[&end].transport.is_reliable();
        let has_landed = |slot: &SlotId| memory.slots[*slot].landed == memory.slots[*slot].len_bytes;
        if let Some(slot) = sent.place.filter(|slot| sent.operation.expects_response() || failed.is_none() && is_reliable && has_landed(slot)) {
            memory.close(slot);
        }
        result
    }
}

fn judge_success(record: &mut EndRecord, end: End, sent: &Sent, memory: &Memory) -> Result<(), Violation> {
    if !record.transport.is_reliable() {
        // An unreliable request succeeds when its last bit has left.
        return memory_of_unreliable(sent);
    }
    if sent.flaw != Flaw::None {
        return Err(Violation::new(Rule::Outcome, format!("a request with a mistake succeeded: {sent:?} of {end:?}")));
    }
    record.acknowledged += usize::from(record.outgoing.iter().any(|outgoing| outgoing.tag == sent.tag));
    let Some(id) = sent.place else { return Ok(()) };
    let slot = &memory.slots[id];
    if slot.landed == slot.len_bytes {
        return Ok(());
    }
    if sent.operation.writes() {
        // A NAK acknowledges the requests before it while their payload may still be on the peer's
        // bus. An acknowledgement does not promise that bytes are in memory (IBTA 9.7.5.1).
        record.late.push(id);
        return Ok(());
    }
    let detail = format!("{sent:?} of {end:?} succeeded, but only {} of {} bytes have landed", slot.landed, slot.len_bytes);
    Err(Violation::new(Rule::Content, detail))
}

fn memory_of_unreliable(sent: &Sent) -> Result<(), Violation> {
    if sent.operation.expects_response() || sent.flaw == Flaw::LocalKey {
        return Err(Violation::new(Rule::Outcome, format!("an unreliable queue pair completed {sent:?}")));
    }
    Ok(())
}
