//! Completions of receive requests: each message once, whole, and in its place.

use super::{Oracle, Outgoing, Posted, Rule, Violation};
use crate::memory::Memory;
use crate::plan::End;
use softband_model::verbs::api::Completion;
use softband_types::{QpType, WcOpcode, WcStatus};

/// Room for a global route header before a datagram's payload.
pub(crate) const ROUTE_BYTES: u32 = 40;

impl Oracle {
    pub(super) fn on_received(&mut self, end: End, completion: &Completion, memory: &mut Memory) -> Result<(), Violation> {
        let posted = self.take_posted(end, completion)?;
        let success = completion.status == WcStatus::Success;
        self.count("receive", completion.status);
        let record = self.ends.get_mut(&end).expect("the caller found it");
        if record.receive_failed && success {
            return Err(Violation::new(Rule::Completions, format!("a receive succeeded after one that failed: {completion:?} of {end:?}")));
        }
        record.receive_failed |= !success;
        let result = if success { self.judge_message(end, posted, completion, memory) } else { Ok(()) };
        memory.close(posted.slot);
        result
    }

    /// Finds the request of a completion.
    fn take_posted(&mut self, end: End, completion: &Completion) -> Result<Posted, Violation> {
        let wrong = |why: &str| Violation::new(Rule::Completions, format!("{why}: {completion:?} of {end:?}"));
        let record = self.ends.get_mut(&end).expect("the caller found it");
        if completion.srq.is_some() {
            let shared = &mut self.processes[record.process].shared;
            let slot = shared.remove(&completion.wr_id).ok_or_else(|| wrong("a completion without an outstanding shared receive request"))?;
            return Ok(Posted { wr_id: completion.wr_id, slot });
        }
        let Some(place) = record.receives.iter().position(|posted| posted.wr_id == completion.wr_id) else {
            return Err(wrong("a completion without an outstanding receive request"));
        };
        if place > 0 {
            return Err(wrong("a completion before those of earlier receive requests"));
        }
        Ok(record.receives.remove(place).expect("its place was found"))
    }

    /// Finds the message of a completion, and checks its bytes.
    fn judge_message(&mut self, end: End, posted: Posted, completion: &Completion, memory: &mut Memory) -> Result<(), Violation> {
        let wrong = |rule: Rule, why: &str| Violation::new(rule, format!("{why}: {completion:?} of {end:?}"));
        let transport = self.ends[&end].transport;
        let sender = self.ends.get_mut(&end.peer()).expect("both ends exist from the start");
        if completion.source_qpn != sender.qpn {
            return Err(wrong(Rule::Completions, "the completion names another source"));
        }
        let fits = |message: &Outgoing, memory: &Memory| message_fits(message, posted, completion, transport, memory);
        let message = match transport {
            reliable if reliable.is_reliable() => {
                let Some(message) = sender.outgoing.get(sender.delivered).copied() else {
                    return Err(wrong(Rule::Completions, "a receive completed, but every message was delivered before"));
                };
                sender.delivered += 1;
                message
            }
            _ => {
                let Some(place) = sender.undelivered.iter().position(|index| fits(&sender.outgoing[*index], memory)) else {
                    return Err(wrong(Rule::Content, "no undelivered message has these bytes"));
                };
                // A connection keeps the order, so the messages before are lost.
                let index = sender.undelivered[place];
                let lost = if transport == QpType::Uc { 0 } else { place };
                sender.undelivered.drain(lost..=place);
                sender.outgoing[index]
            }
        };
        if !fits(&message, memory) {
            return Err(wrong(Rule::Content, &format!("the receive does not hold the message {message:?}")));
        }
        if let Some(window) = message.window {
            // The completion names the key, and no byte lands through the window any more.
            memory.windows[window].is_open = false;
        }
        let order = sender.order;
        if let Some(queue) = order.filter(|_| transport.is_reliable()) {
            let complete = memory.complete_targets(queue);
            if complete < message.writes {
                let why = format!("a receive completed before {} earlier writes had landed", message.writes - complete);
                return Err(wrong(Rule::Order, &why));
            }
        }
        Ok(())
    }
}

fn message_fits(message: &Outgoing, posted: Posted, completion: &Completion, transport: QpType, memory: &Memory) -> bool {
    let skipped = if transport == QpType::Ud { ROUTE_BYTES } else { 0 };
    let opcode = if message.is_write { WcOpcode::ReceiveRdmaWithImmediate } else { WcOpcode::Receive };
    let labels = completion.opcode == opcode
        && completion.byte_len == message.len_bytes + skipped
        && completion.immediate == message.immediate
        && completion.solicited == message.solicited
        && completion.invalidated == message.window.map(|window| memory.windows[window].key);
    // A write leaves the receive's own buffer as it was.
    let landed = if message.is_write { 0 } else { message.len_bytes };
    labels && memory.holds(posted.slot, skipped, message.tag, landed)
}
