//! An audit of a requester between two events.

use super::Requester;

impl Requester {
    /// Checks that the queue, its places and its PSNs agree: settled requests come before the
    /// cursor, and started requests have adjacent PSNs.
    ///
    /// # Errors
    /// A description of the first disagreement.
    pub fn audit(&self) -> Result<(), String> {
        let len = self.queue.len();
        if self.settled > self.cursor || self.cursor > len {
            return Err(format!("{} requests are settled and {} sent, of {len}", self.settled, self.cursor));
        }
        let mut started = self.queue.iter().filter(|wqe| wqe.started && !wqe.is_local()).peekable();
        let mut psn = started.peek().map_or(self.next_psn, |wqe| wqe.first_psn);
        for wqe in started {
            if wqe.first_psn != psn {
                return Err(format!("a request begins with PSN {} instead of {}", wqe.first_psn.value(), psn.value()));
            }
            psn = psn.plus(wqe.packets);
        }
        if psn != self.next_psn {
            return Err(format!("the next PSN is {} instead of {}", self.next_psn.value(), psn.value()));
        }
        let (sent, numbered) = (self.sent_psn.since(self.unacked_psn), self.next_psn.since(self.unacked_psn));
        if sent > numbered {
            return Err(format!("{sent} packets wait for an acknowledgement, but only {numbered} have numbers"));
        }
        let requested = self.queue.iter().filter(|wqe| wqe.requested).count() as u32;
        if requested != self.reads_outstanding {
            return Err(format!("{requested} reads and atomics are requested, {} counted", self.reads_outstanding));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_disagree_are_found() {
        assert_eq!(Requester::default().audit(), Ok(()));
        assert!(Requester { cursor: 1, ..Requester::default() }.audit().is_err());
        assert!(Requester { settled: 1, ..Requester::default() }.audit().is_err());
        assert!(Requester { reads_outstanding: 1, ..Requester::default() }.audit().is_err());
        let sent_psn = softband_types::Psn::new(1);
        assert!(Requester { sent_psn, ..Requester::default() }.audit().is_err());
    }
}
