//! The communication manager's side of an identifier: the state of a handshake (IBTA 12.9).

use super::path::{Path, Port};
use softband_model::management::ManagementPacket;
use softband_sim::SimDuration;
use softband_types::{Guid, Psn, Qpn};

/// State of the handshake (IBTA 12.9.5 and 12.9.6).
///
/// An identifier with a request or a reply that its program has not answered asks for more time when
/// the message comes again. So the states of IBTA before and after that MRA are one state here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Idle,
    ReqSent,
    ReqReceived,
    RepSent,
    RepReceived,
    Established,
    DreqSent,
    DreqReceived,
    TimeWait,
    SidrReqSent,
    SidrReqReceived,
}

/// A message that awaits its answer.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) port: Port,
    pub(super) packet: Box<ManagementPacket>,
    pub(super) timeout: SimDuration,
    pub(super) retries_left: u8,
}

/// A handshake with a peer.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) state: State,
    pub(super) local_comm_id: u32,
    pub(super) remote_comm_id: u32,
    pub(super) remote_guid: Guid,
    pub(super) path: Path,
    pub(super) remote_qpn: Qpn,
    /// PSN of the first packet that the peer sends, and that this side sends.
    pub(super) receive_psn: Psn,
    pub(super) send_psn: Psn,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) retry_count: u8,
    pub(super) rnr_retry_count: u8,
    /// Local ACK timeout of the queue pair: code n is 4.096 us x 2^n.
    pub(super) ack_timeout: u8,
    pub(super) response_timeout: SimDuration,
    pub(super) retries_max: u8,
    pub(super) pending: Option<Pending>,
    /// The service of a request for a datagram service.
    pub(super) service_id: u64,
    /// The last packet, which answers a message that comes again.
    pub(super) answer: Option<(Port, Box<ManagementPacket>)>,
}

impl Link {
    pub(super) fn new(local_comm_id: u32, path: Path, receive_psn: Psn) -> Self {
        Self {
            state: State::Idle,
            local_comm_id,
            remote_comm_id: 0,
            remote_guid: Guid(0),
            path,
            remote_qpn: Qpn(0),
            receive_psn,
            send_psn: Psn::new(0),
            responder_resources: 0,
            initiator_depth: 0,
            retry_count: 0,
            rnr_retry_count: 0,
            ack_timeout: path.packet_life_time + 1,
            response_timeout: millis_of_code(RESPONSE_TIMEOUT),
            retries_max: RETRIES,
            pending: None,
            service_id: 0,
            answer: None,
        }
    }

    /// Returns the number by which an observer of the wire pairs the messages of an exchange.
    pub(super) fn transaction(&self) -> u64 {
        u64::from(self.local_comm_id) << 32 | u64::from(self.remote_comm_id)
    }

    /// Returns how long the queue pair stays unused after the end (IBTA 12.9.8.4), as the kernel
    /// calculates it.
    pub(super) fn time_wait(&self) -> SimDuration {
        millis_of_code(self.ack_timeout.saturating_sub(1))
    }
}

/// Code of the longest time before the peer answers a message, as the kernel sets it
/// (`CMA_CM_RESPONSE_TIMEOUT`).
pub(super) const RESPONSE_TIMEOUT: u8 = 20;
/// Repetitions of a message (`CMA_MAX_CM_RETRIES`).
pub(super) const RETRIES: u8 = 15;
/// Code of the time for which an MRA asks (`CMA_CM_MRA_SETTING`).
pub(super) const SERVICE_TIMEOUT: u8 = 24;

/// Returns 4.096 us x 2^`code` in whole milliseconds, as the kernel does (`cm_convert_to_ms`).
pub(super) fn millis_of_code(code: u8) -> SimDuration {
    let millis = 1u64 << (code.clamp(8, 31) - 8);
    SimDuration::from_micros(millis * 1_000)
}

/// Returns the local ACK timeout for a path: twice the packets' time and the peer's delay, as a code
/// (`cm_ack_timeout` of the kernel).
pub(super) fn ack_timeout(delay: u8, packet_life_time: u8) -> u8 {
    let twice = packet_life_time + 1;
    let code = if twice >= delay { twice + u8::from(delay >= twice - 1) } else { delay + u8::from(twice + 1 >= delay) };
    code.min(31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_milliseconds() {
        assert_eq!(millis_of_code(20), SimDuration::from_micros(4_096_000));
        assert_eq!(millis_of_code(18), SimDuration::from_micros(1_024_000));
        assert_eq!(millis_of_code(0), SimDuration::from_micros(1_000));
    }

    #[test]
    fn the_larger_delay_rules_the_ack_timeout() {
        assert_eq!(ack_timeout(15, 18), 19);
        assert_eq!(ack_timeout(18, 18), 20);
        assert_eq!(ack_timeout(25, 18), 25);
        assert_eq!(ack_timeout(20, 18), 21);
        assert_eq!(ack_timeout(31, 31), 31);
    }
}
