//! Subnet administration of the built-in manager: path records (IBTA 15.2.5.16), multicast groups
//! (IBTA 15.2.5.17), services (IBTA 15.2.5.14), subscriptions (IBTA 15.2.5.12), and records of nodes,
//! ports and tables.
//!
//! It answers all other requests with the status that the attribute is not supported.

mod groups;
mod paths;
mod records;
mod services;
mod subscriptions;
mod tables;

pub use paths::{Path, PathEnd, Paths};
pub use records::{Inventory, Node};

use super::ManagementPacket;
use groups::Groups;
use paths::PathQuery;
use records::Query;
use services::Services;
use softband_sim::SimTime;
use softband_types::{Gid, Lid, QKey, Qpn};
use softband_wire::mad::{
    AttributeId, ClassPortInfo, GidDetails, GmpNotice, Header, Layout, ManagementClass, McMemberRecord, Method, Notice, NoticeType, RmppFlags,
    RmppHeader, RmppStatus, RmppType, SA_DATA_BYTES, SaMad, Status, TrapNumber, room_of_record,
};
use std::collections::BTreeSet;
use subscriptions::Subscriptions;
use tables::{Records, Tables};

/// Version of the class.
const CLASS_VERSION: u8 = 2;
/// UD multicast, MultiPathRecord, and requests for ports with some capabilities (IBTA 15.2.4).
const CAPABILITIES: u16 = 1 << 9 | 1 << 10 | 1 << 13;
/// Time to answer: 4.096 us * 2^18 is a second.
const RESPONSE_TIME: u8 = 18;
/// Q_Key of all packets between QPs 1 (IBTA 10.2.5).
const GSI_QKEY: QKey = QKey(0x8001_0000);
/// RRespTime of a segment that names no time.
const NO_TIME: u8 = 31;
/// Most records of a table in memory.
const RECORDS_MAX: usize = 1 << 16;
/// ProducerType of a notice that a subnet manager issues (IBTA 13.4.8.2).
const MANAGER_TYPE: u32 = 4;
/// Key of the built-in subnet manager, the default of OpenSM. Its owners see members of groups.
pub const MANAGER_KEY: u64 = 1;

/// Subnet administration, with the tables that it sends in several segments.
#[derive(Default)]
pub struct Administration {
    groups: Groups,
    services: Services,
    subscriptions: Subscriptions,
    tables: Tables,
}

/// Contents of a response.
enum Contents {
    Single(Box<[u8; SA_DATA_BYTES]>),
    Table(Records),
}

impl Contents {
    /// Returns a response of one record.
    fn of<R: Layout>(record: &R) -> Self {
        let mut data = Box::new([0; SA_DATA_BYTES]);
        record.emit(&mut data[..]);
        Self::Single(data)
    }

    /// Returns the response to a query: the only record, or a table of all.
    ///
    /// # Errors
    /// `SA_NO_RECORDS` without a record, and `SA_TOO_MANY_RECORDS` if there are several, both if there
    /// is room for one. A table may be empty.
    fn of_query<R: Layout>(records: &[R], is_table: bool) -> Result<Self, Status> {
        match records {
            [] if !is_table => Err(Status::SA_NO_RECORDS),
            [one] if !is_table => Ok(Self::of(one)),
            _ if !is_table => Err(Status::SA_TOO_MANY_RECORDS),
            _ => {
                let room = room_of_record::<R>();
                let mut data = vec![0; records.len() * room];
                records.iter().zip(data.chunks_exact_mut(room)).for_each(|(record, bytes)| record.emit(bytes));
                Ok(Self::Table(Records::Bytes(room, data)))
            }
        }
    }
}

impl Administration {
    /// Checks whether a packet is for subnet administration: a request, or an acknowledgement of its
    /// segments.
    pub fn wants(packet: &ManagementPacket) -> bool {
        let header = Header::view(&packet.mad[..]);
        let is_of_class = packet.destination == Qpn(1) && header.mgmt_class() == ManagementClass::SUBNET_ADMINISTRATION;
        let is_request = !header.method().is_response() && header.method() != Method::REPORT;
        is_of_class && (is_request || is_about_segments(packet))
    }

    /// Takes in a packet at `now`, and returns the packets that answer it or report its effects.
    pub fn answer(&mut self, packet: ManagementPacket, subnet: &mut dyn Inventory, now: SimTime) -> Vec<ManagementPacket> {
        if is_about_segments(&packet) {
            return self.tables.go_on(&packet, subnet);
        }
        let manager = subnet.with_lid(packet.dlid);
        // A request can be a message of a single segment (IBTA 13.6.2.3).
        let mut packets = match SaMad::view(&packet.mad[..]).rmpp().rmpp_type {
            RmppType::NONE => Vec::new(),
            _ => vec![acknowledgement(&packet)],
        };
        packets.extend(self.respond(packet, subnet, now));
        for (number, mgid) in self.groups.take_events() {
            packets.extend(manager.into_iter().flat_map(|manager| self.report_about(number, mgid, manager)));
        }
        packets
    }

    /// Returns the reports of a notice to its subscribers, from the LID of the manager.
    pub fn report(&mut self, notice: &GmpNotice, manager: Lid) -> Vec<ManagementPacket> {
        self.subscriptions.report(notice, manager)
    }

    /// Ends the subscriptions of a port that has gone.
    pub fn end_subscriptions_of(&mut self, port: Gid) {
        self.subscriptions.end_of(port);
    }

    /// Returns the reports of a port or group that has come or gone: traps 64 to 67, which the
    /// manager itself issues (IBTA 14.2.5.1).
    pub fn report_about(&mut self, number: TrapNumber, gid: Gid, manager: PathEnd) -> Vec<ManagementPacket> {
        let mut notice = Notice {
            is_generic: true,
            notice_type: NoticeType::SUBNET_MANAGEMENT,
            producer_type: MANAGER_TYPE,
            trap_number: number,
            issuer_lid: manager.lid,
            ..Notice::default()
        };
        GidDetails { gid }.emit(&mut notice.data_details);
        self.report(&GmpNotice { notice, issuer_gid: manager.gid }, manager.lid)
    }

    fn respond(&mut self, packet: ManagementPacket, subnet: &mut dyn Inventory, now: SimTime) -> Vec<ManagementPacket> {
        let header = Header::view(&packet.mad[..]);
        let Some(method) = header.method().response() else { return Vec::new() };
        let (status, contents) = if header.base_version() != Header::BASE_VERSION || header.class_version() != CLASS_VERSION {
            (Status::BAD_VERSION, None)
        } else {
            match self.contents(&packet, subnet, now) {
                Ok(contents) => (Status::SUCCESS, Some(contents)),
                Err(status) => (status, None),
            }
        };
        let mut response = packet;
        (response.dlid, response.slid) = (response.slid, response.dlid);
        std::mem::swap(&mut response.source, &mut response.destination);
        Header::view_mut(&mut response.mad[..]).method(method).status(status);
        let mut sa = SaMad::view_mut(&mut response.mad[..]);
        sa.rmpp(RmppHeader::default());
        match contents {
            None => {}
            Some(Contents::Single(data)) => {
                sa.data(*data);
            }
            Some(Contents::Table(records)) => return vec![self.tables.begin(response, records, subnet)],
        }
        vec![response]
    }

    fn contents(&mut self, packet: &ManagementPacket, subnet: &mut dyn Inventory, now: SimTime) -> Result<Contents, Status> {
        let (header, request) = (Header::view(&packet.mad[..]), SaMad::view(&packet.mad[..]));
        let is_table = header.method() == Method::GET_TABLE;
        let mask = request.component_mask();
        match (header.method(), header.attribute_id()) {
            (Method::GET, AttributeId::CLASS_PORT_INFO) => {
                let info = ClassPortInfo {
                    base_version: 1,
                    class_version: CLASS_VERSION,
                    capability_mask: CAPABILITIES,
                    resp_time_value: RESPONSE_TIME,
                    ..ClassPortInfo::default()
                };
                Ok(Contents::of(&info))
            }
            (Method::GET | Method::GET_TABLE, AttributeId::PATH_RECORD) => {
                let query = PathQuery { wanted: &parsed(&request.data())?, mask, is_table };
                match paths::matching(&query, packet.slid, subnet)? {
                    found if is_table => Ok(Contents::Table(Records::Paths(found))),
                    found => Contents::of_query(&paths::records(&found, subnet), false),
                }
            }
            (Method::GET | Method::GET_TABLE, AttributeId::MC_MEMBER_RECORD) => {
                let found = self.groups.matching(&parsed(&request.data())?, mask, request.sm_key() == MANAGER_KEY);
                Contents::of_query(&found, is_table)
            }
            (Method::SET, AttributeId::MC_MEMBER_RECORD) => {
                self.groups.join(&parsed::<McMemberRecord>(&request.data())?, mask, subnet).map(|record| Contents::of(&record))
            }
            (Method::DELETE, AttributeId::MC_MEMBER_RECORD) => {
                self.groups.leave(&parsed::<McMemberRecord>(&request.data())?, mask).map(|record| Contents::of(&record))
            }
            (Method::GET | Method::GET_TABLE, AttributeId::SERVICE_RECORD) => {
                let found = self.services.matching(&parsed(&request.data())?, mask, request.sm_key() == MANAGER_KEY, now);
                Contents::of_query(&found, is_table)
            }
            (Method::SET, AttributeId::SERVICE_RECORD) => self.services.set(&parsed(&request.data())?, mask, now).map(|record| Contents::of(&record)),
            (Method::DELETE, AttributeId::SERVICE_RECORD) => {
                self.services.delete(&parsed(&request.data())?, mask, now).map(|record| Contents::of(&record))
            }
            (Method::GET_MULTI, AttributeId::MULTI_PATH_RECORD) => {
                let found = paths::between(&parsed(&request.data())?, mask, subnet)?;
                Contents::of_query(&found, true)
            }
            (Method::SET, AttributeId::INFORM_INFO) => {
                let subscriber = subnet.with_lid(packet.slid).ok_or(Status::SA_REQUEST_INVALID)?;
                self.subscriptions.set(&parsed(&request.data())?, subscriber, packet.source).map(|info| Contents::of(&info))
            }
            (Method::GET | Method::GET_TABLE, AttributeId::INFORM_INFO_RECORD) => {
                let found = self.subscriptions.matching(&parsed(&request.data())?, mask);
                Contents::of_query(&found, is_table)
            }
            (Method::GET | Method::GET_TABLE, attribute) => {
                let (modifier, data) = (header.attribute_modifier(), request.data());
                records::query(&Query { attribute, modifier, data: &data, mask, is_table }, subnet)
            }
            _ => Err(Status::METHOD_ATTRIBUTE_NOT_SUPPORTED),
        }
    }

    /// Returns the ports that have joined the group with this LID, and receive its packets.
    pub fn receivers(&self, mlid: Lid) -> Vec<Gid> {
        self.groups.receivers(mlid)
    }

    /// Takes the LIDs of the groups whose members the last packets have changed.
    pub fn take_changed_groups(&mut self) -> BTreeSet<Lid> {
        self.groups.take_changed()
    }
}

/// Checks whether a packet is about segments sent before. Its method may have the response bit or
/// not: receivers turn the bit round (IBTA 13.6.2.3).
fn is_about_segments(packet: &ManagementPacket) -> bool {
    matches!(SaMad::view(&packet.mad[..]).rmpp().rmpp_type, RmppType::ACK | RmppType::STOP | RmppType::ABORT)
}

/// Returns the acknowledgement of a request that is a message of a single segment.
fn acknowledgement(request: &ManagementPacket) -> ManagementPacket {
    let mut packet = ManagementPacket { slid: request.dlid, dlid: request.slid, source: request.destination, ..request.clone() };
    packet.destination = request.source;
    let rmpp = RmppHeader {
        version: 1,
        rmpp_type: RmppType::ACK,
        resp_time: NO_TIME,
        flags: RmppFlags::ACTIVE,
        status: RmppStatus::NORMAL,
        segment_number: 1,
        payload_length: 1,
    };
    // The receiver of segments turns the response bit round (IBTA 13.6.2.3).
    let method = Header::view(&packet.mad[..]).method();
    Header::view_mut(&mut packet.mad[..]).method(Method(method.0 ^ Method::RESPONSE));
    SaMad::view_mut(&mut packet.mad[..]).rmpp(rmpp);
    packet
}

fn parsed<R: Layout>(data: &[u8]) -> Result<R, Status> {
    R::parse(data).map_err(|_| Status::SA_REQUEST_INVALID)
}
