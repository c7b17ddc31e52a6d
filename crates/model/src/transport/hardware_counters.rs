//! Counters of the requests, repeats and errors of all queue pairs of an HCA's port. They have the
//! names of mlx5 (`hw_counters` in Linux).

use softband_types::{WcOpcode, WcStatus};

/// An event of a queue pair that its port counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remark {
    /// A message found no receive request.
    OutOfBuffer,
    /// A request packet came before its predecessor.
    OutOfSequence,
    /// A request packet came again.
    Duplicate,
    /// A request had no right to the memory here.
    AccessRefused,
    /// The peer refused a packet, because its predecessor is missing (NAK).
    SequenceNak,
    /// The peer has no receive request (RNR NAK).
    RnrNak,
    /// No response came in time.
    Timeout,
    /// A later response came, so one before it is lost (IBTA 9.7.5.1.1).
    ImpliedNak,
}

macro_rules! counters {
    ($($(#[$meta:meta])* $name:ident,)*) => {
        /// Counters of a port since the fabric began.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct HardwareCounters {
            $($(#[$meta])* pub $name: u64,)*
        }

        impl HardwareCounters {
            /// Names of all counters.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// Returns a counter; `None` for an unknown name.
            pub fn by_name(&self, name: &str) -> Option<u64> {
                match name {
                    $(stringify!($name) => Some(self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

counters! {
    /// Repeated request packets that came.
    duplicate_request,
    /// Responses that came before an expected one.
    implied_nak_seq_err,
    /// Waits for a response that were too long.
    local_ack_timeout_err,
    /// Messages lost or put off for lack of a receive request.
    out_of_buffer,
    /// Request packets that came before their predecessors.
    out_of_sequence,
    /// NAKs that came for a missing packet.
    packet_seq_err,
    /// Completions of send queues with an error.
    req_cqe_error,
    /// Those of them that were flushed.
    req_cqe_flush_error,
    /// Send requests that the peer's memory refused.
    req_remote_access_errors,
    /// Send requests that made no sense to the peer.
    req_remote_invalid_request,
    /// Completions of receive queues with an error.
    resp_cqe_error,
    /// Those of them that were flushed.
    resp_cqe_flush_error,
    /// Messages longer than their receive requests.
    resp_local_length_error,
    /// Requests without a right to the memory here.
    resp_remote_access_errors,
    /// RNR NAKs that came.
    rnr_nak_retry_err,
    /// Atomics that came.
    rx_atomic_requests,
    /// RDMA reads that came.
    rx_read_requests,
    /// RDMA writes that came.
    rx_write_requests,
}

impl HardwareCounters {
    /// Counts an event of a queue pair.
    pub fn note(&mut self, remark: Remark) {
        let counter = match remark {
            Remark::OutOfBuffer => &mut self.out_of_buffer,
            Remark::OutOfSequence => &mut self.out_of_sequence,
            Remark::Duplicate => &mut self.duplicate_request,
            Remark::AccessRefused => &mut self.resp_remote_access_errors,
            Remark::SequenceNak => &mut self.packet_seq_err,
            Remark::RnrNak => &mut self.rnr_nak_retry_err,
            Remark::Timeout => &mut self.local_ack_timeout_err,
            Remark::ImpliedNak => &mut self.implied_nak_seq_err,
        };
        *counter = counter.saturating_add(1); // a liar's sums may be at their end
    }

    /// Counts requests of a peer that a queue pair has accepted.
    pub fn note_requests(&mut self, operation: WcOpcode, count: u64) {
        let counter = match operation {
            WcOpcode::RdmaWrite => &mut self.rx_write_requests,
            WcOpcode::RdmaRead => &mut self.rx_read_requests,
            WcOpcode::CompareSwap | WcOpcode::FetchAdd => &mut self.rx_atomic_requests,
            _ => return,
        };
        *counter = counter.saturating_add(count);
    }

    /// Counts a completion of a send queue.
    pub fn note_sent(&mut self, status: WcStatus) {
        self.req_cqe_error += u64::from(status != WcStatus::Success);
        self.req_cqe_flush_error += u64::from(status == WcStatus::FlushError);
        self.req_remote_access_errors += u64::from(status == WcStatus::RemoteAccessError);
        self.req_remote_invalid_request += u64::from(status == WcStatus::RemoteInvalidRequestError);
    }

    /// Counts a completion of a receive queue.
    pub fn note_received(&mut self, status: WcStatus) {
        self.resp_cqe_error += u64::from(status != WcStatus::Success);
        self.resp_cqe_flush_error += u64::from(status == WcStatus::FlushError);
        self.resp_local_length_error += u64::from(status == WcStatus::LocalLengthError);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_its_counter() {
        let mut counters = HardwareCounters::default();
        counters.note(Remark::OutOfBuffer);
        counters.note_requests(WcOpcode::RdmaRead, 2);
        counters.note_requests(WcOpcode::Send, 9);
        counters.note_sent(WcStatus::FlushError);
        counters.note_received(WcStatus::LocalLengthError);
        let of = |name| counters.by_name(name);
        assert_eq!((of("out_of_buffer"), of("rx_read_requests"), of("rx_write_requests")), (Some(1), Some(2), Some(0)));
        assert_eq!((of("req_cqe_error"), of("req_cqe_flush_error"), of("resp_cqe_error")), (Some(1), Some(1), Some(1)));
        assert_eq!(of("port_xmit_data"), None);
        assert!(HardwareCounters::NAMES.iter().all(|name| of(name).is_some()));
    }
}
