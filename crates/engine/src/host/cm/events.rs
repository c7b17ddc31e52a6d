//! Events of channels, and their structure (`struct rdma_ucm_event_resp`).

use super::fields::Structure;
use super::path::{LocalPort, Path};
use softband_sim::SimTime;
use softband_wire::mad::McMemberRecord;

/// Bytes of an event with all its fields.
pub(super) const EVENT_BYTES: usize = 336;
const PARAMETERS_AT: usize = 20;
const DATA_BYTES: usize = 256;

/// `enum rdma_cm_event_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    AddressResolved = 0,
    AddressError = 1,
    RouteResolved = 2,
    RouteError = 3,
    ConnectRequest = 4,
    ConnectResponse = 5,
    Unreachable = 7,
    Rejected = 8,
    Established = 9,
    Disconnected = 10,
    MulticastJoin = 12,
    MulticastError = 13,
    TimewaitExit = 15,
}

/// Parameters of an event: of a connection, or of a datagram service.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameters {
    pub(super) qpn: u32,
    pub(super) qkey: u32,
    pub(super) private_data: Vec<u8>,
    pub(super) srq: bool,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) flow_control: bool,
    pub(super) retry_count: u8,
    pub(super) rnr_retry_count: u8,
    /// Path to a datagram service.
    pub(super) path: Option<Path>,
    /// A multicast group, with the port that has joined it.
    pub(super) group: Option<(LocalPort, McMemberRecord)>,
}

/// An event that waits in a channel.
#[derive(Debug)]
pub(super) struct Event {
    /// Time from which the program sees it.
    pub(super) at: SimTime,
    /// Identifier that counts the event.
    pub(super) counted_by: u32,
    /// Multicast group that counts the event, too.
    pub(super) multicast: Option<u32>,
    pub(super) uid: u64,
    pub(super) id: u32,
    pub(super) kind: Kind,
    pub(super) status: i32,
    pub(super) is_datagram: bool,
    pub(super) parameters: Parameters,
}

impl Event {
    /// Returns the structure that a program gets.
    pub(super) fn bytes(&self) -> Structure {
        let mut structure = Structure::of(EVENT_BYTES);
        structure.u64(0, self.uid).u32(8, self.id).u32(12, self.kind as u32).put(16, &self.status.to_ne_bytes());
        let given = &self.parameters;
        let data = &given.private_data[..given.private_data.len().min(DATA_BYTES - 1)];
        structure.u32(PARAMETERS_AT, given.qpn).u32(PARAMETERS_AT + 4, given.qkey);
        if self.is_datagram {
            if let Some(path) = &given.path {
                address_vector(&mut structure, PARAMETERS_AT + 8, path);
            }
            if let Some((port, group)) = &given.group {
                vector_of_group(&mut structure, PARAMETERS_AT + 8, port, group);
            }
            structure.put(PARAMETERS_AT + 40, data).u8(PARAMETERS_AT + 40 + DATA_BYTES, data.len() as u8);
            return structure;
        }
        structure.put(PARAMETERS_AT + 8, data);
        let numbers = [
            data.len() as u8,
            given.srq.into(),
            given.responder_resources,
            given.initiator_depth,
            given.flow_control.into(),
            given.retry_count,
            given.rnr_retry_count,
        ];
        structure.put(PARAMETERS_AT + 8 + DATA_BYTES, &numbers);
        structure
    }
}

/// Writes `struct ib_uverbs_ah_attr` of a path within the subnet, or between addresses on Ethernet.
pub(super) fn address_vector(structure: &mut Structure, at: usize, path: &Path) {
    let [_, dlid] = path.lids();
    if path.source.is_ethernet() {
        structure.put(at, &path.dgid.0).u8(at + 20, path.source.gid_index).u8(at + 21, path.hop_limit());
        structure.u8(at + 22, path.traffic_class).u8(at + 29, 1);
    }
    structure.u16(at + 24, dlid.0).u8(at + 26, path.service_level.0).u8(at + 28, path.rate.0).u8(at + 30, path.source.port.0);
}

/// Writes `struct ib_uverbs_ah_attr` of a multicast group (`ib_init_ah_from_mcmember` of the kernel).
fn vector_of_group(structure: &mut Structure, at: usize, port: &LocalPort, group: &McMemberRecord) {
    structure
        .put(at, &group.mgid.0)
        .u32(at + 16, group.flow_label)
        .u8(at + 20, port.gid_index)
        .u8(at + 21, group.hop_limit)
        .u8(at + 22, group.tclass);
    structure.u16(at + 24, group.mlid.0).u8(at + 26, group.sl.0).u8(at + 28, group.rate.0).u8(at + 29, 1).u8(at + 30, port.port.0);
}
