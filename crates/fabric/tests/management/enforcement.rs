//! Partitions that switches enforce: the ports, the counters, and the trap of the switch.

use crate::common::*;
use crate::desk::*;
use crate::unmanaged::set_port;
use softband_model::verbs::api::QpModification;
use softband_types::*;
use softband_wire::mad::*;

const OWN: PKey = PKey(0x8005);
const LIMITED: PKey = PKey(0x0005);
const OTHER: PKey = PKey(0x8006);
const SWITCH: &[u8] = &[1];

/// Writes from host 0 to host 1, both with the key `key`, through a switch whose ports have these keys
/// and checks. Returns the outcome, and the counters of both ports of the switch.
fn write(key: PKey, ports: [(&[PKey], bool, bool); 2]) -> (WcStatus, [PortCounters; 2]) {
    let mut spec = through_switch(LinkSpeed::Sdr, &[1, 1], 4, host_part(600, 300));
    for host in &mut spec.hosts {
        host.hcas[0].pkeys = vec![PKey::DEFAULT_FULL, key];
    }
    let mut desk = Desk::new(&spec);
    for (port, (keys, inbound, outbound)) in (1..).zip(ports) {
        let mut table = PKeyTable::default();
        table.p_keys[..keys.len()].copy_from_slice(keys);
        let (_, answer) = desk.ask(SWITCH, Method::SET, AttributeId::P_KEY_TABLE, port << 16, table.to_bytes()).expect("an answer");
        assert_eq!(PKeyTable::parse(&answer[SMP_DATA_OFFSET..]), Ok(table));
        set_port(&mut desk, SWITCH, port, |info| {
            (info.partition_enforcement_inbound, info.partition_enforcement_outbound) = (inbound, outbound);
        });
        let info: PortInfo = desk.get(SWITCH, AttributeId::PORT_INFO, port);
        assert_eq!((info.partition_enforcement_inbound, info.partition_enforcement_outbound), (inbound, outbound));
    }
    let mut lab = Lab::over(desk.world);
    let qps = [0, 1].map(|who| lab.create(who, QpType::Rc));
    for who in 0..2 {
        let change = |m: &mut QpModification| m.pkey_index = Some(1);
        let few = |m: &mut QpModification| m.retry_count = m.retry_count.map(|_| 1);
        lab.bring_up_by(who, qps[who], QpType::Rc, (1 - who, qps[1 - who]), change, few);
    }
    let request = lab.request(0, 1, lab.write_to(1, 0), 0, 64);
    lab.send(0, qps[0], request);
    lab.run();
    let status = lab.statuses(0)[0].1;
    lab.world.assert_credits_are_back();
    let mut desk = Desk::over(lab.world);
    let lid = desk.get::<PortInfo>(SWITCH, AttributeId::PORT_INFO, 0).lid;
    let counters = [1, 2].map(|port| {
        let select = PortCounters { port_select: PortNumber(port), ..PortCounters::default() }.to_bytes();
        let mad = desk.performance(lid, Method::GET, AttributeId::PORT_COUNTERS, &select).expect("an answer");
        PortCounters::parse(&mad[PERFORMANCE_DATA_OFFSET..]).unwrap()
    });
    (status, counters)
}

#[test]
fn a_port_refuses_foreign_packets_where_a_manager_wants_it() {
    let all: &[PKey] = &[PKey::DEFAULT_FULL, OWN];
    let few: &[PKey] = &[PKey::DEFAULT_FULL, OTHER];
    // Keys and checks of both ports, and the refusals of the first and of the second.
    let cases = [
        ([(all, true, true), (all, true, true)], 0, 0),
        ([(few, false, false), (few, false, false)], 0, 0),
        ([(few, true, true), (all, true, true)], 1, 0),
        ([(all, true, true), (few, true, true)], 0, 1),
    ];
    for (ports, first, second) in cases {
        let (status, counters) = write(OWN, ports);
        assert_eq!(status == WcStatus::Success, first + second == 0, "{ports:?}");
        assert_eq!(counters[0].port_rcv_constraint_errors.min(1), first, "{ports:?}");
        assert_eq!(counters[1].port_xmit_constraint_errors.min(1), second, "{ports:?}");
        assert_eq!((counters[0].port_rcv_switch_relay_errors, counters[1].port_xmit_discards), (0, 0));
    }
}

#[test]
fn a_limited_member_may_not_send_as_a_full_one() {
    let limited: &[PKey] = &[PKey::DEFAULT_FULL, LIMITED];
    let full: &[PKey] = &[PKey::DEFAULT_FULL, OWN];
    let (status, counters) = write(OWN, [(limited, true, false), (full, true, true)]);
    assert_eq!((status, counters[0].port_rcv_constraint_errors > 0), (WcStatus::RetryExceeded, true));
    // Full members reach limited ones.
    assert_eq!(write(OWN, [(full, true, true), (limited, false, true)]).0, WcStatus::Success);
}

#[test]
fn the_switch_reports_foreign_packets() {
    let mut spec = through_switch(LinkSpeed::Sdr, &[1, 1, 1], 4, host_part(600, 300));
    spec.hosts[1].hcas[0].pkeys = vec![PKey::DEFAULT_FULL, OWN];
    let mut desk = Desk::new(&spec);
    let wanted = InformInfo {
        lid_range_begin: Lid::PERMISSIVE,
        is_generic: 1,
        subscribe: 1,
        notice_type: 0xFFFF,
        trap_number: TrapNumber::SWITCH_BAD_P_KEY,
        producer_type: 0xFF_FFFF,
        ..InformInfo::default()
    };
    assert_eq!(desk.administer(Method::SET, AttributeId::INFORM_INFO, ComponentMask(0), &wanted).0, Status::SUCCESS);
    set_port(&mut desk, SWITCH, 2, |info| info.partition_enforcement_inbound = true);
    let (switch, lids) = (desk.get::<PortInfo>(SWITCH, AttributeId::PORT_INFO, 0).lid, [desk.lid(1), desk.lid(2)]);
    let mut lab = Lab::over(desk.world);
    let qps = [1, 2].map(|who| lab.create(who, QpType::Uc));
    lab.bring_up_by(1, qps[0], QpType::Uc, (2, qps[1]), |m| m.pkey_index = Some(1), |_| ());
    let request = lab.request(1, 1, lab.write_to(2, 0), 0, 64);
    lab.send(1, qps[0], request);
    while lab.completions(1).is_empty() && lab.step() {}
    let mut desk = Desk::over(lab.world);
    let info: PortInfo = desk.get(SWITCH, AttributeId::PORT_INFO, 2);
    desk.exchange_all(subnet_packet(Lid::NONE, Box::new([0; 256])));
    assert_eq!(desk.get::<PortInfo>(SWITCH, AttributeId::PORT_INFO, 2).p_key_violations, 1, "{info:?}");
    let report = desk.traps.first().expect("a report of the manager");
    let report = GmpNotice::parse(&SaMad::view(&report.mad[..]).data()).unwrap();
    assert_eq!((report.notice.trap_number, report.notice.issuer_lid), (TrapNumber::SWITCH_BAD_P_KEY, switch));
    let details = SwitchPKeyViolationDetails::parse(&report.notice.data_details).unwrap();
    assert_eq!((details.lid1, details.lid2, details.p_key), (lids[0], lids[1], OWN));
    assert_eq!((details.switch_lid, details.port), (switch, PortNumber(2)));
}
