//! Port counters of messages that this process carries itself: the packets that they would have
//! been ([`softband_shm_transport::traffic`]).

use super::Sending;
use crate::qp::QpInner;
use softband_abi::verbs::*;
use softband_client::{process_id, traffic};
use softband_ipc::post::{HAS_ROUTE, ON_ETHERNET, PostRecord, split_path};
use softband_shm_transport::traffic::{self as counters, Exchange, Requests, RouteHeader, Service, Way};

/// The counters of a queue pair for one destination. Other queue pairs get them when it goes.
#[derive(Default)]
pub(super) struct Lane(counters::Lane);

impl Lane {
    #[inline(always)]
    fn count(&mut self, hca: u32, way: Way, exchange: Exchange) {
        self.0.count((traffic(), process_id()), (hca, way), exchange);
    }

    /// Counts a datagram to a LID. `of_sender` is the way of the queue pair's packets.
    #[inline]
    pub(super) fn count_datagram(&mut self, (qp, of_sender): (&QpInner, Way), record: &PostRecord, len_bytes: u64) {
        let way = way_to(of_sender, record);
        self.count(qp.hca, way, Exchange::of(Service::Datagram, record.opcode, len_bytes, way));
    }

    /// Counts the loss of a datagram, whose packet counts apart.
    #[cold]
    pub(super) fn count_loss(&mut self, (qp, of_sender): (&QpInner, Way), record: &PostRecord) {
        let requests = Requests { lost: 1, ..Requests::default() };
        self.count(qp.hca, way_to(of_sender, record), Exchange { requests, ..Exchange::default() });
    }
}

/// Returns the way of a datagram's packets.
#[inline]
fn way_to(of_sender: Way, record: &PostRecord) -> Way {
    let is_ipv4 = || record.route().dgid.starts_with(&IPV4_PREFIX);
    let header = match record.path {
        path if path & HAS_ROUTE == 0 => RouteHeader::None,
        path if path & ON_ETHERNET != 0 && is_ipv4() => RouteHeader::Ipv4,
        _ => RouteHeader::Global,
    };
    of_sender.to(split_path(record.path).0, header)
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.0.release(process_id());
    }
}

/// First bytes of GIDs that stand for addresses of IPv4 (IBTA A17.4.5.1).
const IPV4_PREFIX: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF];

impl Sending {
    /// Counts a message to the connected peer.
    #[inline(always)]
    pub(super) fn count_message(&mut self, qp: &QpInner, operation: u32, len_bytes: u64) {
        let Some(connection) = &self.connection else { return };
        let service = match qp.qp_type {
            IBV_QPT_RC => Service::Reliable,
            IBV_QPT_XRC_SEND => Service::Extended,
            _ => Service::Unreliable,
        };
        self.lane.count(qp.hca, connection.way, Exchange::of(service, operation, len_bytes, connection.way));
    }
}
