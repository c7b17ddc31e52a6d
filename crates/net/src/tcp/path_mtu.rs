//! Path MTU discovery of a connection (RFC 1191, 6.4).

use super::{Connection, Context, State};
use crate::packet::TIMESTAMPS_BYTES;

impl Connection {
    /// Notes that a router on the path takes smaller packets only. Segments that it may have lost leave
    /// again.
    pub(crate) fn path_shrank(&mut self, cx: &mut Context<'_>) {
        let taken = if self.has_timestamps { TIMESTAMPS_BYTES } else { 0 };
        let mss = cx.path.mss.saturating_sub(taken).max(1);
        if mss >= self.tx.mss || matches!(self.state, State::SynSent | State::SynReceived | State::Closed) {
            return;
        }
        self.tx.mss = mss;
        self.board.set_packet_bytes(mss);
        if !self.board.is_empty() {
            let (recovery, mut flow) = self.flow(cx);
            recovery.timed_out(&mut flow);
            // The path works, so later timeouts keep their length.
            recovery.reset_backoff();
            self.set_retransmission_timer(cx);
            self.output(cx);
        }
    }
}
