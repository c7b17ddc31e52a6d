//! Path MTU discovery of a connection (RFC 1191, 6.4).

use super::{Connection, Context, State};
use crate::packet::TIMESTAMPS_BYTES;

impl Connection {
    /// Notes that a router on the path takes smaller packets only. Segments that it may have lost leave
    /// again.
    pub(crate) fn path_shrank(&mut self, cx: &mut Context<'_>) {
        if matches!(self.state, State::SynSent | State::SynReceived | State::Closed) || !self.fit_to_path(cx) {
            return;
        }
        if !self.board.is_empty() {
            let (recovery, mut flow) = self.flow(cx);
            recovery.timed_out(&mut flow);
            // The path works, so later timeouts keep their length.
            recovery.reset_backoff();
            self.set_retransmission_timer(cx);
            self.output(cx);
        }
    }

    /// Takes the size of segments from the path, if it has become smaller, as Linux does before it sends
    /// new data (`tcp_current_mss`). Returns whether it has.
    pub(super) fn fit_to_path(&mut self, cx: &Context<'_>) -> bool {
        let taken = if self.has_timestamps { TIMESTAMPS_BYTES } else { 0 };
        let mss = cx.path.mss.saturating_sub(taken).max(1);
        let is_smaller = mss < self.tx.mss;
        if is_smaller {
            self.tx.mss = mss;
            self.board.set_packet_bytes(mss);
        }
        is_smaller
    }
}
