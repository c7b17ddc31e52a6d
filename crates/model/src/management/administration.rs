//! Subnet administration of the built-in manager: path records (IBTA 15.2.5.16).
//!
//! It answers all other requests with the status that the attribute is not supported.

use super::ManagementPacket;
use softband_types::{Gid, Lid, LinkRate, LinkSpeed, LinkWidth, Mtu, PKey, Qpn, ServiceLevel};
use softband_wire::mad::{
    AttributeId, ClassPortInfo, ComponentMask, Header, Layout, ManagementClass, Method, PathRecord, RateCode, RmppFlags, RmppHeader, RmppStatus,
    RmppType, SA_DATA_BYTES, SaMad, Selector, Status, View, room_of_record,
};

/// Version of the class.
const CLASS_VERSION: u8 = 2;
/// Time to answer: 4.096 us * 2^18 is a second.
const RESPONSE_TIME: u8 = 18;
/// RRespTime of a segment that names no time.
const NO_TIME: u8 = 31;
/// Bytes of the header of subnet administration, which each segment repeats.
const SA_HEADER_BYTES: u32 = 20;
/// Life of a packet in the subnet: 4.096 us * 2^18, OpenSM's default.
const PACKET_LIFE_TIME: u8 = 18;

/// An end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathEnd {
    /// LID of the port.
    pub lid: Lid,
    /// GID of the port.
    pub gid: Gid,
}

/// Properties of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Least MTU of the path's links.
    pub mtu: Mtu,
    /// Rate of the slower of both ends' links.
    pub rate: LinkRate,
    /// Service level that packets must have.
    pub service_level: ServiceLevel,
}

/// Knows the ends and paths of a subnet.
pub trait Paths {
    /// Returns the end with a GID.
    fn with_gid(&self, gid: Gid) -> Option<PathEnd>;
    /// Returns the end with a LID.
    fn with_lid(&self, lid: Lid) -> Option<PathEnd>;
    /// Returns the path between two ends; `None` without a route.
    fn path(&self, from: PathEnd, to: PathEnd) -> Option<Path>;
}

/// Checks whether a packet is a request to subnet administration.
pub fn is_request(packet: &ManagementPacket) -> bool {
    let header = Header::view(&packet.mad[..]);
    packet.destination == Qpn(1) && header.mgmt_class() == ManagementClass::SUBNET_ADMINISTRATION && !header.method().is_response()
}

/// Turns a request into its response. Returns false if the request has none.
pub fn answer(packet: &mut ManagementPacket, paths: &dyn Paths) -> bool {
    let requester = packet.slid;
    let mad = &mut packet.mad[..];
    let header = Header::view(mad);
    let Some(method) = header.method().response() else { return false };
    let (status, data) = if header.base_version() != Header::BASE_VERSION || header.class_version() != CLASS_VERSION {
        (Status::BAD_VERSION, None)
    } else {
        match record(&header, mad, requester, paths) {
            Ok(data) => (Status::SUCCESS, Some(data)),
            Err(status) => (status, None),
        }
    };
    Header::view_mut(mad).method(method).status(status);
    let is_table = method == Method::GET_TABLE_RESP && data.is_some();
    let mut response = SaMad::view_mut(mad);
    response.rmpp(if is_table { table_of_one() } else { RmppHeader::default() });
    if let Some(data) = data {
        response.attribute_offset((room_of_record::<PathRecord>() / 8) as u16).data(data);
    }
    (packet.dlid, packet.slid) = (packet.slid, packet.dlid);
    std::mem::swap(&mut packet.source, &mut packet.destination);
    true
}

/// Returns the RMPP header of a table that a single segment carries (IBTA 13.6.2).
fn table_of_one() -> RmppHeader {
    RmppHeader {
        version: 1,
        rmpp_type: RmppType::DATA,
        resp_time: NO_TIME,
        flags: RmppFlags::ACTIVE | RmppFlags::FIRST | RmppFlags::LAST,
        status: RmppStatus::NORMAL,
        segment_number: 1,
        payload_length: SA_HEADER_BYTES + room_of_record::<PathRecord>() as u32,
    }
}

fn record(header: &View<'_, Header>, mad: &[u8], requester: Lid, paths: &dyn Paths) -> Result<[u8; SA_DATA_BYTES], Status> {
    let mut data = [0; SA_DATA_BYTES];
    match (header.method(), header.attribute_id()) {
        (Method::GET, AttributeId::CLASS_PORT_INFO) => {
            let info = ClassPortInfo { base_version: 1, class_version: CLASS_VERSION, resp_time_value: RESPONSE_TIME, ..ClassPortInfo::default() };
            info.emit(&mut data);
        }
        (Method::GET | Method::GET_TABLE, AttributeId::PATH_RECORD) => {
            let request = SaMad::view(mad);
            let wanted = PathRecord::parse(&request.data()).map_err(|_| Status::SA_REQUEST_INVALID)?;
            path_record(&wanted, request.component_mask(), requester, paths)?.emit(&mut data);
        }
        _ => return Err(Status::METHOD_ATTRIBUTE_NOT_SUPPORTED),
    }
    Ok(data)
}

fn path_record(wanted: &PathRecord, mask: ComponentMask, requester: Lid, paths: &dyn Paths) -> Result<PathRecord, Status> {
    let end = |(gid_bit, gid): (ComponentMask, Gid), (lid_bit, lid): (ComponentMask, Lid)| {
        if mask.contains(gid_bit) {
            return paths.with_gid(gid).filter(|end| !mask.contains(lid_bit) || end.lid == lid);
        }
        if mask.contains(lid_bit) { paths.with_lid(lid) } else { None }
    };
    let names_source = mask.contains(ComponentMask::PATH_SGID) || mask.contains(ComponentMask::PATH_SLID);
    let from =
        if names_source { end((ComponentMask::PATH_SGID, wanted.sgid), (ComponentMask::PATH_SLID, wanted.slid)) } else { paths.with_lid(requester) };
    if !mask.contains(ComponentMask::PATH_DGID) && !mask.contains(ComponentMask::PATH_DLID) {
        return Err(Status::SA_INSUFFICIENT_COMPONENTS);
    }
    let to = end((ComponentMask::PATH_DGID, wanted.dgid), (ComponentMask::PATH_DLID, wanted.dlid));
    let (from, to) = from.zip(to).ok_or(Status::SA_NO_RECORDS)?;
    let path = paths.path(from, to).ok_or(Status::SA_NO_RECORDS)?;
    Ok(PathRecord {
        dgid: to.gid,
        sgid: from.gid,
        dlid: to.lid,
        slid: from.lid,
        reversible: true,
        numb_path: 1,
        p_key: PKey::DEFAULT_FULL,
        sl: path.service_level,
        mtu_selector: Selector::EXACTLY,
        mtu: path.mtu.into(),
        rate_selector: Selector::EXACTLY,
        rate: rate_code(path.rate),
        packet_life_time_selector: Selector::EXACTLY,
        packet_life_time: PACKET_LIFE_TIME,
        ..PathRecord::default()
    })
}

/// Returns the code of a rate (IBTA 15.2.5.16, table of rates).
fn rate_code(rate: LinkRate) -> RateCode {
    // Codes by speed, for 1, 2, 4, 8 and 12 lanes.
    let codes: [u8; 5] = match rate.speed {
        LinkSpeed::Sdr => [2, 5, 3, 6, 4],
        LinkSpeed::Ddr => [5, 3, 6, 7, 8],
        LinkSpeed::Qdr | LinkSpeed::Fdr10 => [3, 6, 7, 9, 10],
        LinkSpeed::Fdr => [11, 19, 12, 13, 14],
        LinkSpeed::Edr => [15, 20, 16, 17, 18],
        LinkSpeed::Hdr => [20, 16, 17, 21, 22],
        LinkSpeed::Ndr => [16, 17, 21, 23, 24],
        // The largest code is that of 1,200 Gb/s.
        LinkSpeed::Xdr => [17, 21, 23, 24, 24],
    };
    let lanes = match rate.width {
        LinkWidth::X1 => 0,
        LinkWidth::X2 => 1,
        LinkWidth::X4 => 2,
        LinkWidth::X8 => 3,
        LinkWidth::X12 => 4,
    };
    RateCode(codes[lanes])
}
