//! Links that train to another width and speed after a manager's request.

use crate::common::*;
use crate::desk::*;
use softband_model::verbs::api::{AddressVector, DatagramDestination, SendOperation};
use softband_sim::{SimDuration, SimTime};
use softband_spec::FabricSpec;
use softband_spec::faults::{FaultKind, FaultSpec};
use softband_types::*;
use softband_wire::mad::*;

/// Returns three hosts on a switch. All ports train to 1X and 4X, up to QDR.
fn fabric(to_second: LinkRate) -> FabricSpec {
    let mut spec = through_switch(LinkSpeed::Qdr, &[1, 1, 1], 4, host_part(600, 300));
    let (widths, speeds) = (vec![LinkWidth::X1, LinkWidth::X4], vec![LinkSpeed::Sdr, LinkSpeed::Ddr, LinkSpeed::Qdr]);
    for part in spec.hosts.iter_mut().map(|host| &mut host.hcas[0].part) {
        (part.widths, part.speeds) = (widths.clone(), speeds.clone());
    }
    (spec.switches[0].part.widths, spec.switches[0].part.speeds) = (widths, speeds);
    spec.cables[1].rate = to_second;
    spec
}

/// Requests a change of PortInfo of the switch's port 2. Returns the status and the response.
fn ask_for(desk: &mut Desk, change: impl Fn(&mut PortInfo)) -> (Status, PortInfo) {
    let mut info: PortInfo = desk.get(&[1], AttributeId::PORT_INFO, 2);
    (info.port_state, info.port_physical_state) = (PortState::NO_CHANGE, PhysicalState::NO_CHANGE);
    (info.link_width_enabled, info.link_speed_enabled, info.link_speed_ext_enabled) = (LinkWidthCode(0), LinkSpeedCode(0), LinkSpeedExtCode(0));
    change(&mut info);
    let (_, mad) = desk.ask(&[1], Method::SET, AttributeId::PORT_INFO, 2, info.to_bytes()).expect("an answer");
    (Status(DirectedSmp::view(&mad).status()), PortInfo::parse(&mad[SMP_DATA_OFFSET..]).unwrap())
}

fn enable(desk: &mut Desk, width: LinkWidthCode, speed: LinkSpeedCode) {
    let (status, info) = ask_for(desk, |info| (info.link_width_enabled, info.link_speed_enabled) = (width, speed));
    assert_eq!((status, info.link_width_enabled, info.link_speed_enabled), (Status::SUCCESS, width, speed));
}

/// Resets the switch's port 2 and waits until its link has trained.
fn reset(desk: &mut Desk) {
    assert_eq!(ask_for(desk, |info| (info.port_state, info.port_physical_state) = (PortState::DOWN, PhysicalState::POLLING)).0, Status::SUCCESS);
    pass(desk);
}

fn pass(desk: &mut Desk) {
    let until = desk.world.now() + nanos(1_100_000);
    while desk.world.now() < until {
        desk.get::<NodeInfo>(&[1], AttributeId::NODE_INFO, 0);
    }
}

/// Returns the rate that both ends of the second host's link state; `None` while it is down.
fn active(desk: &mut Desk) -> Option<(LinkWidthCode, LinkSpeedCode)> {
    let info: PortInfo = desk.get(&[1], AttributeId::PORT_INFO, 2);
    let host = desk.world.port(desk.world.hca_id(1, 0), PORT_1).unwrap();
    assert_eq!(host.state.is_some(), info.port_physical_state == PhysicalState::LINK_UP);
    host.state?;
    let own: PortInfo = desk.get(&[1, 2], AttributeId::PORT_INFO, 1);
    let rate = (info.link_width_active, info.link_speed_active);
    assert_eq!((own.link_width_active, own.link_speed_active), rate);
    assert_eq!((host.rate.width.code(), host.rate.speed.code()), (rate.0.0, u16::from(rate.1.0)));
    Some(rate)
}

/// Returns the time in which the first host writes to the second.
fn time_of_writes(world: softband_fabric::World) -> (SimDuration, u64) {
    let mut lab = Lab::over(world);
    let (a, _) = lab.connect(0, 1, QpType::Rc);
    let begin = lab.world.now();
    for number in 0..20 {
        let request = lab.request(0, number, lab.write_to(1, 0), 0, 16_384);
        lab.send(0, a, request);
    }
    lab.run();
    assert!(lab.completions(0).iter().all(|completion| completion.status == WcStatus::Success));
    lab.world.audit().unwrap();
    let busy = lab.world.counters().iter().find(|port| port.node == "switch" && port.port == PortNumber(2)).unwrap().xmit_busy_picos;
    (lab.timed_completions(0).last().unwrap().0 - begin, busy)
}

#[test]
fn a_link_runs_at_the_rate_to_which_it_has_trained() {
    for (width, speed) in [(LinkWidth::X1, LinkSpeed::Qdr), (LinkWidth::X4, LinkSpeed::Sdr), (LinkWidth::X1, LinkSpeed::Ddr)] {
        let trained = LinkRate { width, speed };
        let mut desk = Desk::new(&fabric(rate(LinkSpeed::Qdr)));
        let codes = (LinkWidthCode(width.code()), LinkSpeedCode(speed.code() as u8));
        enable(&mut desk, codes.0, codes.1);
        assert_eq!(active(&mut desk), Some((LinkWidthCode::X4, LinkSpeedCode::QDR)), "a link keeps its rate until it trains again");
        reset(&mut desk);
        assert_eq!(active(&mut desk), Some(codes));
        let before = desk.world.counters().iter().find(|port| port.node == "switch" && port.port == PortNumber(2)).unwrap().xmit_busy_picos;
        let (time, busy) = time_of_writes(desk.world);
        let (of_built, busy_of_built) = time_of_writes(softband_fabric::World::new(&fabric(trained), 1));
        assert_eq!(time, of_built, "{trained}");
        assert!(busy - before <= busy_of_built && busy - before + 10 >= busy_of_built);
    }
}

#[test]
fn a_link_takes_its_first_rate_again() {
    let mut desk = Desk::new(&fabric(rate(LinkSpeed::Ddr)));
    enable(&mut desk, LinkWidthCode::X1, LinkSpeedCode::SDR);
    reset(&mut desk);
    assert_eq!(active(&mut desk), Some((LinkWidthCode::X1, LinkSpeedCode::SDR)));
    let all = |info: &mut PortInfo| (info.link_width_enabled, info.link_speed_enabled) = (LinkWidthCode::ALL_SUPPORTED, LinkSpeedCode::ALL_SUPPORTED);
    let (status, info) = ask_for(&mut desk, all);
    assert_eq!((status, info.link_width_enabled, info.link_speed_enabled.0), (Status::SUCCESS, LinkWidthCode::X1 | LinkWidthCode::X4, 7));
    reset(&mut desk);
    // The file's `rate` limits the cable to DDR.
    assert_eq!(active(&mut desk), Some((LinkWidthCode::X4, LinkSpeedCode::DDR)));
    assert_eq!(time_of_writes(desk.world).0, time_of_writes(softband_fabric::World::new(&fabric(rate(LinkSpeed::Ddr)), 1)).0);
}

#[test]
fn each_way_to_train_again_takes_the_new_rate() {
    let mut desk = Desk::new(&fabric(rate(LinkSpeed::Qdr)));
    enable(&mut desk, LinkWidthCode::X4, LinkSpeedCode::DDR);
    // PortState Down begins anew in Polling.
    assert_eq!(ask_for(&mut desk, |info| info.port_state = PortState::DOWN).0, Status::SUCCESS);
    pass(&mut desk);
    assert_eq!(active(&mut desk), Some((LinkWidthCode::X4, LinkSpeedCode::DDR)));
    enable(&mut desk, LinkWidthCode::X1, LinkSpeedCode::DDR);
    let now = desk.world.now();
    let kinds = [(0, FaultKind::LinkDown { cable: 1 }), (100_000, FaultKind::LinkUp { cable: 1 })];
    desk.world.add_faults(&kinds.map(|(after, kind)| FaultSpec { at: now + nanos(after), kind }));
    pass(&mut desk);
    assert_eq!(active(&mut desk), Some((LinkWidthCode::X1, LinkSpeedCode::DDR)));
}

#[test]
fn a_link_without_a_common_rate_stays_down() {
    let mut desk = Desk::new(&fabric(rate(LinkSpeed::Qdr)));
    let own: PortInfo = desk.get(&[1, 2], AttributeId::PORT_INFO, 1);
    let slow = PortInfo { port_state: PortState::NO_CHANGE, link_speed_enabled: LinkSpeedCode::SDR, ..own };
    desk.ask(&[1, 2], Method::SET, AttributeId::PORT_INFO, 1, slow.to_bytes()).unwrap();
    enable(&mut desk, LinkWidthCode::X4, LinkSpeedCode::QDR);
    reset(&mut desk);
    assert_eq!(active(&mut desk), None);
    // A cable that comes up again changes nothing.
    let now = desk.world.now();
    let kinds = [(0, FaultKind::LinkDown { cable: 1 }), (100_000, FaultKind::LinkUp { cable: 1 })];
    desk.world.add_faults(&kinds.map(|(after, kind)| FaultSpec { at: now + nanos(after), kind }));
    pass(&mut desk);
    assert_eq!(active(&mut desk), None);
    enable(&mut desk, LinkWidthCode::X4, LinkSpeedCode::SDR | LinkSpeedCode::QDR);
    reset(&mut desk);
    assert_eq!(active(&mut desk), Some((LinkWidthCode::X4, LinkSpeedCode::SDR)));
}

#[test]
fn a_fault_that_ends_finds_no_common_rate() {
    let mut desk = Desk::new(&fabric(rate(LinkSpeed::Qdr)));
    let own: PortInfo = desk.get(&[1, 2], AttributeId::PORT_INFO, 1);
    let slow = PortInfo { port_state: PortState::NO_CHANGE, link_speed_enabled: LinkSpeedCode::SDR, ..own };
    desk.ask(&[1, 2], Method::SET, AttributeId::PORT_INFO, 1, slow.to_bytes()).unwrap();
    enable(&mut desk, LinkWidthCode::X4, LinkSpeedCode::QDR);
    let now: SimTime = desk.world.now();
    let kinds = [(0, FaultKind::LinkDown { cable: 1 }), (100_000, FaultKind::LinkUp { cable: 1 })];
    desk.world.add_faults(&kinds.map(|(after, kind)| FaultSpec { at: now + nanos(after), kind }));
    pass(&mut desk);
    assert_eq!(active(&mut desk), None);
    enable(&mut desk, LinkWidthCode::X4, LinkSpeedCode::SDR);
    reset(&mut desk);
    assert_eq!(active(&mut desk), Some((LinkWidthCode::X4, LinkSpeedCode::SDR)));
}

#[test]
fn values_that_a_port_does_not_support_are_refused() {
    let mut desk = Desk::new(&fabric(rate(LinkSpeed::Qdr)));
    let before: PortInfo = desk.get(&[1], AttributeId::PORT_INFO, 2);
    let requests: [fn(&mut PortInfo); 5] = [
        |info| info.link_width_enabled = LinkWidthCode::X12,
        |info| info.link_width_enabled = LinkWidthCode(32),
        |info| info.link_speed_enabled = LinkSpeedCode(8),
        |info| info.link_speed_ext_enabled = LinkSpeedExtCode::FDR,
        |info| (info.link_speed_enabled, info.link_width_enabled) = (LinkSpeedCode::SDR, LinkWidthCode::X2),
    ];
    for change in requests {
        // IBTA 13.4.7: code 7, an invalid field.
        assert_eq!(ask_for(&mut desk, change).0, Status::INVALID_FIELD);
        assert_eq!(desk.get::<PortInfo>(&[1], AttributeId::PORT_INFO, 2), before);
    }
    let ext = |info: &mut PortInfo| info.link_speed_ext_enabled = LinkSpeedExtCode::DISABLED;
    assert_eq!(ask_for(&mut desk, ext).0, Status::SUCCESS);
    reset(&mut desk);
    assert_eq!(active(&mut desk), Some((LinkWidthCode::X4, LinkSpeedCode::QDR)));
}

/// Returns the time from a datagram's post to its arrival, with another post shortly before the link
/// to the second host is up.
fn time_of_datagram(mut lab: Lab, at: SimTime) -> SimDuration {
    let (a, b) = (lab.create(0, QpType::Ud), lab.create(1, QpType::Ud));
    lab.bring_up(0, a, QpType::Ud, (1, b), |_| ());
    lab.bring_up(1, b, QpType::Ud, (0, a), |_| ());
    lab.receive(1, b, 1, 0, 2_048);
    while lab.world.next_event_time().is_some_and(|next| next < at) {
        lab.step();
    }
    let vector = AddressVector { dlid: lab.programs[1].lid, port: PORT_1, ..AddressVector::default() };
    let mut request = lab.request(0, 1, SendOperation::Send { immediate: None }, 0, 2_000);
    let program = lab.programs[0];
    let ah = lab.world.create_ah(program.process, program.pd, vector).unwrap();
    request.datagram = Some(DatagramDestination { ah, remote_qpn: b, remote_qkey: QKey(0x1111) });
    lab.world.post_send(at, program.process, program.hca, a, request);
    lab.run();
    lab.timed_completions(1).last().expect("the datagram arrives").0 - at
}

#[test]
fn a_packet_that_waits_for_the_training_leaves_at_the_new_rate() {
    // The switch takes longer for a packet than the packet has to wait for the link.
    let slow_switch = |to_second| {
        let mut spec = fabric(to_second);
        spec.switches[0].part.forward_latency = vec![(LinkSpeed::Sdr, nanos(50_000)), (LinkSpeed::Qdr, nanos(50_000))];
        spec
    };
    let trained = LinkRate { width: LinkWidth::X1, speed: LinkSpeed::Sdr };
    let mut desk = Desk::new(&slow_switch(rate(LinkSpeed::Qdr)));
    enable(&mut desk, LinkWidthCode::X1, LinkSpeedCode::SDR);
    let begin = desk.world.now();
    let (status, _) = ask_for(&mut desk, |info| (info.port_state, info.port_physical_state) = (PortState::DOWN, PhysicalState::POLLING));
    assert_eq!(status, Status::SUCCESS);
    let mut probe = Lab::over(desk.world);
    // The link comes up between the end of the request and 1.2 ms after its begin.
    let is_up = |lab: &Lab| lab.world.port(lab.world.hca_id(1, 0), PORT_1).is_some_and(|port| port.state.is_some());
    while is_up(&probe) && probe.world.now() < begin + nanos(200_000) && probe.step() {}
    let other = SimTime::ZERO + nanos(1_000_000);
    let of_built = time_of_datagram(Lab::new(&slow_switch(trained)), other);
    let down_since = probe.world.now();
    assert!(!is_up(&probe), "the link is down");
    let of_waiting = time_of_datagram(probe, down_since + nanos(1_000_000 - 20_000));
    assert_eq!(of_waiting, of_built);
}
