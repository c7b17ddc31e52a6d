//! Datagrams of subnet administration (IBTA 15.2.1) with the header of RMPP (IBTA 13.6.2).

use super::components::ComponentMask;
use crate::mad::codes::{code, flags};
use crate::mad::header::Header;
use crate::mad::layout::{Layout, layout};

layout! {
    /// A datagram of subnet administration (IBTA 15.2.1.1). A long response takes several.
    pub struct SaMad: 256 bytes {
        /// The header, with the class
        /// [`ManagementClass::SUBNET_ADMINISTRATION`](crate::mad::ManagementClass::SUBNET_ADMINISTRATION)
        /// and class version 2.
        header: Header @ 0, 192;
        /// Place of the datagram in a long message.
        rmpp: RmppHeader @ 192, 96;
        /// Key that proves the requester's authority.
        sm_key: u64 @ 288, 64;
        /// Distance between two records in units of 8 bytes. It is 0 if at most one record follows.
        attribute_offset: u16 @ 352, 16;
        /// Components of the attribute that the SA compares.
        component_mask: ComponentMask @ 384, 64;
        /// Records, or a part of them.
        data: [u8; 200] @ 448, 1600;
    }
}

layout! {
    /// Place of a datagram in a long message (IBTA 13.6.2). All fields are 0 in a datagram that is
    /// a whole message.
    pub struct RmppHeader: 12 bytes {
        /// Version of RMPP: 1.
        version: u8 @ 0, 8;
        /// Kind of the datagram.
        rmpp_type: RmppType @ 8, 8;
        /// Longest time before a response: code n is 4.096 us x 2^n, and 31 is unknown.
        resp_time: u8 @ 16, 5;
        /// Flags.
        flags: RmppFlags @ 21, 3;
        /// Reason of a stop or abort.
        status: RmppStatus @ 24, 8;
        /// Segment number from 1, of [`RmppType::DATA`] and [`RmppType::ACK`].
        segment_number: u32 @ 32, 32;
        /// Of [`RmppType::DATA`], in the first segment and the last: payload length in bytes, with
        /// the SA's header. Of [`RmppType::ACK`]: last segment of the new window.
        payload_length: u32 @ 64, 32;
    }
}

code! {
    /// Kind of a datagram of RMPP.
    pub struct RmppType(u8) {
        /// The datagram is no part of RMPP.
        NONE = 0;
        /// A segment.
        DATA = 1;
        /// An acknowledgement.
        ACK = 2;
        /// The receiver or sender is out of resources.
        STOP = 3;
        /// The receiver or sender gives up.
        ABORT = 4;
    }
}

flags! {
    /// Flags of RMPP.
    pub struct RmppFlags(u8) {
        /// The datagram is a part of RMPP.
        ACTIVE = 1;
        /// The segment is the first.
        FIRST = 2;
        /// The segment is the last.
        LAST = 4;
    }
}

code! {
    /// Reason of a stop or abort (IBTA 13.6.2.2).
    pub struct RmppStatus(u8) {
        /// No error.
        NORMAL = 0;
        /// Stop: out of resources.
        RESOURCES_EXHAUSTED = 1;
        /// Abort: the message takes too long.
        TOTAL_TIME_TOO_LONG = 118;
        /// Abort: the last segment contradicts the payload length.
        INCONSISTENT_LAST_AND_PAYLOAD_LENGTH = 119;
        /// Abort: the first flag contradicts the segment number.
        INCONSISTENT_FIRST_AND_SEGMENT_NUMBER = 120;
        /// Abort: the type is unknown.
        BAD_RMPP_TYPE = 121;
        /// Abort: the new window ends before the old.
        NEW_WINDOW_LAST_TOO_SMALL = 122;
        /// Abort: the segment is not in the window.
        SEGMENT_NUMBER_TOO_BIG = 123;
        /// Abort: the status is unknown.
        ILLEGAL_STATUS = 124;
        /// Abort: the version is unknown.
        UNSUPPORTED_VERSION = 125;
        /// Abort: too many retries.
        TOO_MANY_RETRIES = 126;
        /// Abort: another reason.
        UNSPECIFIED = 127;
    }
}

/// Returns the distance between two records of a response in bytes: their length, rounded up to a
/// multiple of 8 (IBTA 15.2.1.1).
pub const fn room_of_record<R: Layout>() -> usize {
    R::BYTES.next_multiple_of(8)
}

/// Parses the records in the joined data of a response's datagrams. A record without all its bytes
/// ends the sequence, and so does an `attribute_offset` of 0 after the first record.
pub fn records<R: Layout>(data: &[u8], attribute_offset: u16) -> impl Iterator<Item = R> {
    let distance = 8 * usize::from(attribute_offset);
    let starts = if distance == 0 { 0..1 } else { 0..data.len().div_ceil(distance) };
    starts.map_while(move |index| R::parse(&data[index * distance..]).ok())
}

#[cfg(test)]
mod tests {
    use super::{RmppFlags, RmppStatus, RmppType, SaMad, records, room_of_record};
    use crate::mad::{ComponentMask, Layout, LinkRecord, NodeRecord, PathRecord, PortInfoRecord};
    use softband_types::Lid;

    #[test]
    fn a_segment_is_read_as_in_the_specification() {
        let mut bytes = [0; 256];
        bytes[24..36].copy_from_slice(&[1, 1, 0xFB, 0, 0, 0, 0, 1, 0, 0, 1, 0x04]);
        bytes[45] = 8;
        bytes[55] = 0b1_0100;
        bytes[56] = 0xDA;
        let mad = SaMad::parse(&bytes).unwrap();
        assert_eq!((mad.rmpp.version, mad.rmpp.rmpp_type, mad.rmpp.resp_time), (1, RmppType::DATA, 31));
        assert_eq!((mad.rmpp.flags, mad.rmpp.status), (RmppFlags::ACTIVE | RmppFlags::FIRST, RmppStatus::NORMAL));
        assert_eq!((mad.rmpp.segment_number, mad.rmpp.payload_length), (1, 0x104));
        assert_eq!((mad.attribute_offset, mad.data[0]), (8, 0xDA));
        assert_eq!(mad.component_mask, ComponentMask::PATH_DGID | ComponentMask::PATH_DLID);
        assert_eq!(mad.to_bytes(), bytes);
    }

    #[test]
    fn records_take_a_multiple_of_eight_bytes() {
        assert_eq!([room_of_record::<LinkRecord>(), room_of_record::<NodeRecord>()], [8, 112]);
        assert_eq!([room_of_record::<PortInfoRecord>(), room_of_record::<PathRecord>()], [72, 64]);
    }

    #[test]
    fn records_end_with_their_bytes() {
        let data = [0, 1, 2, 3, 0, 4, 0, 0, 0, 5, 6, 7, 0, 8, 0, 0, 0, 9];
        let found: Vec<LinkRecord> = records(&data, 1).collect();
        assert_eq!(found.iter().map(|link| (link.from_lid, link.to_lid)).collect::<Vec<_>>(), [(Lid(1), Lid(4)), (Lid(5), Lid(8))]);
        assert_eq!(records::<LinkRecord>(&data, 0).count(), 1);
        assert_eq!(records::<LinkRecord>(&[], 1).count(), 0);
        assert_eq!(records::<LinkRecord>(&data, u16::MAX).count(), 1);
    }
}
