//! Subscriptions to notices, and the reports to their subscribers (IBTA 13.4.8.3, 13.4.11).

use super::paths::PathEnd;
use super::{CLASS_VERSION, GSI_QKEY};
use crate::management::{MAD_BYTES, ManagementPacket};
use softband_types::{Gid, Lid, PKey, Qpn, ServiceLevel};
use softband_wire::mad::{
    AttributeId, ComponentMask, GidDetails, GmpNotice, Header, InformInfo, InformInfoRecord, Layout, ManagementClass, Method, SA_DATA_BYTES, SaMad,
    Status, TrapNumber,
};
use std::collections::BTreeSet;

/// Most subscriptions at a time, and most of a port.
const SUBSCRIPTIONS_MAX: usize = 4_096;
const SUBSCRIPTIONS_OF_PORT_MAX: usize = 64;
/// Values that select all notices.
const ANY_NOTICE: u16 = 0xFFFF;
const ANY_PRODUCER: u32 = 0xFF_FFFF;

/// A subscription, with the queue pair that receives its reports.
#[derive(Debug)]
struct Subscription {
    subscriber: PathEnd,
    number: u16,
    wanted: InformInfo,
}

/// The subscriptions of a subnet.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    all: Vec<Subscription>,
    /// Number of reports so far: each has it as its transaction.
    reports: u64,
}

impl Subscriptions {
    /// Begins or ends a subscription of a queue pair. Returns it.
    ///
    /// # Errors
    /// `SA_REQUEST_INVALID` if there is no subscription to end, `SA_NO_RESOURCES` if there are too
    /// many, in all or of this subscriber.
    pub(super) fn set(&mut self, request: &InformInfo, subscriber: PathEnd, source: Qpn) -> Result<InformInfo, Status> {
        let qpn = if request.subscribe == 0 && request.qpn != Qpn(0) { request.qpn } else { source };
        let wanted = InformInfo { qpn, subscribe: 1, ..*request };
        let is_same = |other: &Subscription| {
            let as_wanted = InformInfo { resp_time_value: wanted.resp_time_value, ..other.wanted };
            other.subscriber == subscriber && as_wanted == wanted
        };
        let known = self.all.iter().position(is_same);
        match (request.subscribe, known) {
            (0, Some(known)) => {
                self.all.remove(known);
            }
            (1, Some(known)) => self.all[known].wanted = wanted,
            (1, None) if self.all.len() < SUBSCRIPTIONS_MAX => {
                let number = self.free_number(subscriber).ok_or(Status::SA_NO_RESOURCES)?;
                self.all.push(Subscription { subscriber, number, wanted });
            }
            (1, None) => return Err(Status::SA_NO_RESOURCES),
            _ => return Err(Status::SA_REQUEST_INVALID),
        }
        Ok(InformInfo { qpn, ..*request })
    }

    /// Returns a number that no subscription of this port has; `None` if the port has too many.
    fn free_number(&self, subscriber: PathEnd) -> Option<u16> {
        let of_subscriber = self.all.iter().filter(|other| other.subscriber == subscriber);
        let taken: BTreeSet<u16> = of_subscriber.map(|other| other.number).collect();
        (0..SUBSCRIPTIONS_OF_PORT_MAX as u16).find(|number| !taken.contains(number))
    }

    /// Ends all subscriptions of a port.
    pub(super) fn end_of(&mut self, subscriber: Gid) {
        self.all.retain(|of| of.subscriber.gid != subscriber);
    }

    /// Returns the subscriptions that a request describes.
    pub(super) fn matching(&self, wanted: &InformInfoRecord, mask: ComponentMask) -> Vec<InformInfoRecord> {
        let is_wanted = |of: &&Subscription| {
            let is_subscriber = !mask.contains(ComponentMask::INFORM_SUBSCRIBER_GID) || of.subscriber.gid == wanted.subscriber_gid;
            is_subscriber && (!mask.contains(ComponentMask::INFORM_INFORM_INFO_ENUM) || of.number == wanted.inform_info_enum)
        };
        let record = |of: &Subscription| InformInfoRecord { subscriber_gid: of.subscriber.gid, inform_info_enum: of.number, inform_info: of.wanted };
        self.all.iter().filter(is_wanted).map(record).collect()
    }

    /// Returns the reports of a notice to its subscribers, from the LID of the manager.
    pub(super) fn report(&mut self, notice: &GmpNotice, manager: Lid) -> Vec<ManagementPacket> {
        let mut packets = Vec::new();
        for of in self.all.iter().filter(|of| selects(&of.wanted, notice)) {
            self.reports += 1;
            packets.push(report(notice, (manager, of.subscriber.lid, of.wanted.qpn), self.reports));
        }
        packets
    }
}

/// Checks whether a subscription selects a notice.
fn selects(wanted: &InformInfo, of: &GmpNotice) -> bool {
    let notice = &of.notice;
    // The manager reports about other ports: a GID selects the port.
    let subject = match notice.trap_number {
        TrapNumber::GID_IN_SERVICE | TrapNumber::GID_OUT_OF_SERVICE | TrapNumber::MULTICAST_GROUP_CREATED | TrapNumber::MULTICAST_GROUP_DELETED => {
            GidDetails::view(&notice.data_details).gid()
        }
        _ => of.issuer_gid,
    };
    let is_issuer = if wanted.gid != Gid::default() {
        wanted.gid == subject
    } else {
        let (first, last) = (wanted.lid_range_begin.0, wanted.lid_range_end.0);
        wanted.lid_range_begin == Lid::PERMISSIVE || (first..=last.max(first)).contains(&notice.issuer_lid.0)
    };
    is_issuer
        && (wanted.is_generic != 0) == notice.is_generic
        && (wanted.notice_type == ANY_NOTICE || wanted.notice_type == u16::from(notice.notice_type.0))
        && (wanted.trap_number.0 == ANY_NOTICE || wanted.trap_number == notice.trap_number)
        && (wanted.producer_type == ANY_PRODUCER || wanted.producer_type == notice.producer_type)
}

fn report(notice: &GmpNotice, (slid, dlid, destination): (Lid, Lid, Qpn), transaction_id: u64) -> ManagementPacket {
    let header = Header {
        base_version: Header::BASE_VERSION,
        mgmt_class: ManagementClass::SUBNET_ADMINISTRATION,
        class_version: CLASS_VERSION,
        method: Method::REPORT,
        transaction_id,
        attribute_id: AttributeId::NOTICE,
        ..Header::default()
    };
    let (mut mad, mut data) = (Box::new([0; MAD_BYTES]), [0; SA_DATA_BYTES]);
    notice.emit(&mut data);
    SaMad::view_mut(&mut mad[..]).header(header).data(data);
    let service_level = ServiceLevel(0);
    ManagementPacket { slid, dlid, service_level, source: Qpn(1), destination, qkey: GSI_QKEY, pkey: PKey::DEFAULT_FULL, mad }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_wire::mad::{NodeType, Notice, NoticeType};

    const ALL: InformInfo = InformInfo {
        gid: Gid([0; 16]),
        lid_range_begin: Lid::PERMISSIVE,
        lid_range_end: Lid::NONE,
        is_generic: 1,
        subscribe: 1,
        notice_type: ANY_NOTICE,
        trap_number: TrapNumber(ANY_NOTICE),
        qpn: Qpn(1),
        resp_time_value: 18,
        producer_type: ANY_PRODUCER,
    };

    fn end(lid: u16) -> PathEnd {
        PathEnd { lid: Lid(lid), gid: Gid([lid as u8; 16]) }
    }

    fn notice(trap_number: TrapNumber, issuer: u16) -> GmpNotice {
        let notice = Notice {
            is_generic: true,
            notice_type: NoticeType::INFORMATIONAL,
            producer_type: NodeType::CHANNEL_ADAPTER.0.into(),
            trap_number,
            issuer_lid: Lid(issuer),
            ..Notice::default()
        };
        GmpNotice { notice, issuer_gid: end(issuer).gid }
    }

    #[test]
    fn a_subscription_selects_by_each_of_its_fields() {
        let cases = [
            (ALL, true),
            (InformInfo { gid: end(9).gid, ..ALL }, true),
            (InformInfo { gid: end(8).gid, ..ALL }, false),
            (InformInfo { lid_range_begin: Lid(9), ..ALL }, true),
            (InformInfo { lid_range_begin: Lid(5), lid_range_end: Lid(20), ..ALL }, true),
            (InformInfo { lid_range_begin: Lid(10), lid_range_end: Lid(20), ..ALL }, false),
            (InformInfo { is_generic: 0, ..ALL }, false),
            (InformInfo { notice_type: 4, ..ALL }, true),
            (InformInfo { notice_type: 1, ..ALL }, false),
            (InformInfo { trap_number: TrapNumber::LOCAL_CHANGES, ..ALL }, true),
            (InformInfo { trap_number: TrapNumber::BAD_P_KEY, ..ALL }, false),
            (InformInfo { producer_type: 1, ..ALL }, true),
            (InformInfo { producer_type: 2, ..ALL }, false),
        ];
        for (wanted, is_selected) in cases {
            assert_eq!(selects(&wanted, &notice(TrapNumber::LOCAL_CHANGES, 9)), is_selected, "{wanted:?}");
        }
    }

    #[test]
    fn a_gid_selects_the_port_that_a_report_is_about() {
        let mut of = notice(TrapNumber::GID_IN_SERVICE, 1);
        GidDetails { gid: end(7).gid }.emit(&mut of.notice.data_details);
        assert!(selects(&InformInfo { gid: end(7).gid, ..ALL }, &of));
        assert!(!selects(&InformInfo { gid: end(1).gid, ..ALL }, &of));
    }

    #[test]
    fn subscribers_get_reports_until_they_end_their_subscriptions() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.set(&ALL, end(3), Qpn(1)).unwrap();
        subscriptions.set(&ALL, end(3), Qpn(1)).unwrap();
        subscriptions.set(&ALL, end(4), Qpn(1)).unwrap();
        subscriptions.set(&InformInfo { trap_number: TrapNumber::BAD_P_KEY, ..ALL }, end(4), Qpn(1)).unwrap();
        let all = subscriptions.matching(&InformInfoRecord::default(), ComponentMask(0));
        assert_eq!(
            all.iter().map(|record| (record.subscriber_gid, record.inform_info_enum)).collect::<Vec<_>>(),
            [(end(3).gid, 0), (end(4).gid, 0), (end(4).gid, 1)]
        );
        let reports = subscriptions.report(&notice(TrapNumber::LOCAL_CHANGES, 9), Lid(1));
        assert_eq!(reports.iter().map(|packet| (packet.slid, packet.dlid)).collect::<Vec<_>>(), [(Lid(1), Lid(3)), (Lid(1), Lid(4))]);
        let read = SaMad::view(&reports[1].mad[..]);
        assert_eq!((read.header().method, read.header().transaction_id), (Method::REPORT, 2));
        assert_eq!(GmpNotice::parse(&read.data()), Ok(notice(TrapNumber::LOCAL_CHANGES, 9)));
        let end_of = InformInfo { subscribe: 0, ..ALL };
        assert!(subscriptions.set(&end_of, end(3), Qpn(1)).is_ok());
        assert_eq!(subscriptions.set(&end_of, end(3), Qpn(1)), Err(Status::SA_REQUEST_INVALID));
        assert_eq!(subscriptions.report(&notice(TrapNumber::LOCAL_CHANGES, 9), Lid(1)).len(), 1);
        assert_eq!(subscriptions.set(&InformInfo { subscribe: 7, ..ALL }, end(3), Qpn(1)), Err(Status::SA_REQUEST_INVALID));
    }

    #[test]
    fn a_port_has_its_share_of_subscriptions_until_it_goes() {
        let mut subscriptions = Subscriptions::default();
        let of = |number: u16| InformInfo { trap_number: TrapNumber(number), ..ALL };
        let ended = |number: u16| InformInfo { subscribe: 0, ..of(number) };
        for number in 0..SUBSCRIPTIONS_OF_PORT_MAX as u16 {
            subscriptions.set(&of(number), end(3), Qpn(1)).unwrap();
        }
        assert_eq!(subscriptions.set(&of(64), end(3), Qpn(1)), Err(Status::SA_NO_RESOURCES));
        assert!(subscriptions.set(&of(64), end(4), Qpn(1)).is_ok(), "another port");
        subscriptions.set(&ended(7), end(3), Qpn(1)).unwrap();
        assert!(subscriptions.set(&of(64), end(3), Qpn(1)).is_ok());
        subscriptions.end_of(end(3).gid);
        let left = subscriptions.matching(&InformInfoRecord::default(), ComponentMask(0));
        assert_eq!(left.iter().map(|record| record.subscriber_gid).collect::<Vec<_>>(), [end(4).gid]);
    }
}
