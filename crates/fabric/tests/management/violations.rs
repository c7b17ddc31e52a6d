//! Wrong keys: their counts, the lease of an M_Key, and the traps about them.

use crate::common::*;
use crate::desk::*;
use crate::unmanaged::{configure, set_port, unmanaged};
use softband_fabric::notice::Notice as Arrival;
use softband_model::management::ManagementPacket;
use softband_model::parts::{EthernetCable, EthernetPorts};
use softband_model::verbs::api::*;
use softband_sim::{SimDuration, SimTime};
use softband_spec::FabricSpec;
use softband_types::*;
use softband_wire::mad::*;

const KEY: u64 = 7;
/// The way to host 1, and the number of its port.
const OTHER: (&[u8], u32) = (&[1, 2], 1);
/// 4.096 us * 2^18, OpenSM's default of SubnetTimeOut.
const INTERVAL: SimDuration = SimDuration::from_picos(4_096_000 << 18);

/// A fabric whose host 1 has an M_Key. Host 0 has the subnet manager.
fn guarded(protection: MKeyProtection, lease_seconds: u16) -> Desk {
    let mut desk = Desk::new(&unmanaged());
    configure(&mut desk, OperationalVlsCode::VL0);
    set_port(&mut desk, OTHER.0, OTHER.1, |info| {
        (info.m_key, info.m_key_protect_bits, info.m_key_lease_period) = (KEY, protection, lease_seconds);
    });
    desk
}

fn request(desk: &mut Desk, method: Method, m_key: u64, data: [u8; 64]) -> ManagementPacket {
    let header = desk.header(ManagementClass::SUBNET_LID_ROUTED, method, AttributeId::PORT_INFO, OTHER.1);
    let mut mad = Box::new([0; 256]);
    Smp::view_mut(&mut mad[..]).header(header).m_key(m_key).data(data);
    ManagementPacket { slid: Lid(1), ..subnet_packet(Lid(2), mad) }
}

/// Sends a packet from host 0, and returns all that arrives there within a time.
fn within(desk: &mut Desk, packet: Option<ManagementPacket>, time: SimDuration) -> Vec<(SimTime, ManagementPacket)> {
    let (hca, sent) = (desk.world.hca_id(0, 0), desk.world.now() + nanos(1_000));
    if let Some(packet) = packet {
        desk.world.send_management(hca, PORT_1, Box::new(packet), sent);
    }
    desk.world.wake_at(hca, sent + time, 0);
    let (mut notices, mut arrived) = (Vec::new(), Vec::new());
    while desk.world.next_event_time().is_some_and(|next| next <= sent + time) {
        desk.world.step(&mut desk.memory, &mut notices);
        for notice in notices.drain(..) {
            if let Arrival::ManagementArrived { packet, .. } = notice {
                arrived.push((desk.world.now(), *packet));
            }
        }
    }
    arrived
}

fn method_of(packet: &ManagementPacket) -> Method {
    Header::view(&packet.mad[..]).method()
}

/// Reads PortInfo of host 1 with this key; `None` without an answer.
fn read(desk: &mut Desk, m_key: u64) -> Option<PortInfo> {
    let packet = request(desk, Method::GET, m_key, [0; 64]);
    let arrived = within(desk, Some(packet), SimDuration::from_micros(100));
    let answer = arrived.iter().find(|(_, packet)| method_of(packet) == Method::GET_RESP)?;
    Some(PortInfo::parse(&Smp::view(&answer.1.mad[..]).data()).unwrap())
}

/// Writes PortInfo of host 1 with a wrong key. Returns what arrives within a time.
fn wrong_set(desk: &mut Desk, time: SimDuration) -> Vec<(SimTime, ManagementPacket)> {
    let info = read(desk, KEY).expect("the right key");
    let packet = request(desk, Method::SET, KEY + 1, PortInfo { port_state: PortState::NO_CHANGE, ..info }.to_bytes());
    within(desk, Some(packet), time)
}

fn repress(trap: &ManagementPacket) -> ManagementPacket {
    let mut packet = ManagementPacket { slid: trap.dlid, dlid: trap.slid, ..trap.clone() };
    Header::view_mut(&mut packet.mad[..]).method(Method::TRAP_REPRESS);
    packet
}

#[test]
fn protection_decides_over_reads_and_the_key() {
    for (protection, shown) in [(0, Some(KEY)), (1, Some(0)), (2, None), (3, None)] {
        let mut desk = guarded(MKeyProtection(protection), 0);
        assert_eq!(read(&mut desk, KEY + 1).map(|info| info.m_key), shown, "protection {protection}");
        let violations = read(&mut desk, KEY).unwrap().m_key_violations;
        assert_eq!(violations, u16::from(shown.is_none()));
        assert!(wrong_set(&mut desk, nanos(100_000)).iter().all(|(_, packet)| method_of(packet) == Method::TRAP));
        assert_eq!(read(&mut desk, KEY).unwrap().m_key_violations, violations + 1);
    }
}

#[test]
fn the_answer_to_a_new_key_shows_it() {
    let mut desk = Desk::new(&unmanaged());
    configure(&mut desk, OperationalVlsCode::VL0);
    let mut info: PortInfo = desk.get(OTHER.0, AttributeId::PORT_INFO, OTHER.1);
    (info.m_key, info.m_key_protect_bits, info.port_state) = (KEY, MKeyProtection(2), PortState::NO_CHANGE);
    let (_, answer) = desk.ask(OTHER.0, Method::SET, AttributeId::PORT_INFO, OTHER.1, info.to_bytes()).expect("an answer");
    assert_eq!(PortInfo::view(&answer[SMP_DATA_OFFSET..]).m_key(), KEY, "managers take the key of later requests from it");
}

#[test]
fn protection_ends_with_the_lease_unless_the_key_comes() {
    let mut desk = guarded(MKeyProtection(2), 3);
    wrong_set(&mut desk, SimDuration::from_micros(2_000_000));
    assert_eq!(read(&mut desk, 0), None, "the lease has not ended");
    assert!(read(&mut desk, KEY).is_some(), "the right key stops the lease period");
    wrong_set(&mut desk, SimDuration::from_micros(2_000_000));
    assert_eq!(read(&mut desk, 0), None, "a new period has begun");
    within(&mut desk, None, SimDuration::from_micros(2_000_000));
    let info = read(&mut desk, 0).expect("the lease has ended");
    assert_eq!((info.m_key, info.m_key_protect_bits), (KEY, MKeyProtection(0)));
    let packet = request(&mut desk, Method::SET, 0, PortInfo { port_state: PortState::NO_CHANGE, ..info }.to_bytes());
    let answers = within(&mut desk, Some(packet), nanos(100_000));
    assert!(answers.iter().all(|(_, packet)| method_of(packet) == Method::TRAP), "the key still guards writes");
}

#[test]
fn a_manager_clears_the_counts() {
    let mut desk = guarded(MKeyProtection(1), 0);
    wrong_set(&mut desk, nanos(100_000));
    for (written, left) in [(1, 1), (9, 1), (0, 0)] {
        let info = PortInfo { port_state: PortState::NO_CHANGE, m_key_violations: written, ..read(&mut desk, KEY).unwrap() };
        let packet = request(&mut desk, Method::SET, KEY, info.to_bytes());
        within(&mut desk, Some(packet), nanos(100_000));
        assert_eq!(read(&mut desk, KEY).unwrap().m_key_violations, left);
    }
}

#[test]
fn a_trap_comes_again_until_its_answer() {
    let mut desk = guarded(MKeyProtection(1), 0);
    let traps = wrong_set(&mut desk, INTERVAL * 3 + nanos(500_000));
    assert_eq!(traps.len(), 4);
    let notice = Notice::parse(&Smp::view(&traps[0].1.mad[..]).data()).unwrap();
    assert_eq!((notice.trap_number, notice.notice_type), (TrapNumber::BAD_M_KEY, NoticeType::SECURITY));
    assert_eq!((notice.producer_type, notice.issuer_lid), (u32::from(NodeType::CHANNEL_ADAPTER.0), Lid(2)));
    let details = MKeyViolationDetails::parse(&notice.data_details).unwrap();
    assert_eq!((details.lid, details.method, details.attribute_id, details.m_key), (Lid(1), Method::SET, AttributeId::PORT_INFO, KEY + 1));
    for pair in traps.windows(2) {
        assert_eq!((pair[1].0 - pair[0].0, &pair[1].1), (INTERVAL, &pair[0].1));
    }
    let answer = repress(&traps[0].1);
    assert!(within(&mut desk, Some(answer), INTERVAL * 3).is_empty());
    // A new trap has a new transaction.
    let next = wrong_set(&mut desk, nanos(500_000));
    assert_ne!(Header::view(&next[0].1.mad[..]).transaction_id(), Header::view(&traps[0].1.mad[..]).transaction_id());
}

#[test]
fn only_the_manager_answers_a_trap_without_the_key() {
    let mut desk = guarded(MKeyProtection(1), 0);
    let traps = wrong_set(&mut desk, nanos(500_000));
    let answer = ManagementPacket { slid: Lid(3), ..repress(&traps[0].1) };
    assert!(!within(&mut desk, Some(answer), INTERVAL).is_empty());
}

#[test]
fn traps_of_a_kind_keep_their_distance() {
    let mut desk = guarded(MKeyProtection(1), 0);
    let first = wrong_set(&mut desk, nanos(200_000));
    // The same again before and after the answer: one more trap, and not before the interval.
    wrong_set(&mut desk, nanos(200_000));
    let answer = repress(&first[0].1);
    assert!(within(&mut desk, Some(answer), nanos(200_000)).is_empty());
    wrong_set(&mut desk, nanos(200_000));
    let later = within(&mut desk, None, INTERVAL);
    assert_eq!(later.len(), 1);
    assert_eq!(later[0].0 - first[0].0, INTERVAL);
}

#[test]
fn an_agent_gives_a_trap_up_in_the_end() {
    let mut desk = guarded(MKeyProtection(1), 0);
    assert_eq!(wrong_set(&mut desk, INTERVAL * 40).len(), 30);
    assert_eq!(desk.world.next_event_time(), None);
}

fn pair() -> FabricSpec {
    back_to_back(LinkSpeed::Sdr, 10, 5, host_part(600, 300))
}

fn pair_on_ethernet() -> FabricSpec {
    let (mut spec, rate) = (pair(), EthernetRate::G100);
    let ports = EthernetPorts { rates: vec![rate], buffer_bytes: 262_144, pause_response: nanos(600) };
    for hca in spec.hosts.iter_mut().flat_map(|host| &mut host.hcas) {
        (hca.link_layer, hca.part.ethernet) = (LinkLayer::Ethernet, Some(ports.clone()));
    }
    let cable = &mut spec.cables[0];
    (cable.rate, cable.part.ethernet) = (rate.link_rate(), Some(EthernetCable { rate_max: rate, fec_latency: Vec::new() }));
    spec.ethernet.mtu_bytes = 4_200;
    spec
}

/// Sends a datagram from host 0 to host 1 with these keys.
fn after_datagram(mut spec: FabricSpec, pkeys: [PKey; 2], qkey: QKey) -> Lab {
    for (host, key) in spec.hosts.iter_mut().zip(pkeys) {
        host.hcas[0].pkeys = vec![key];
    }
    let mut lab = Lab::new(&spec);
    let qps = [0, 1].map(|who| lab.create(who, QpType::Ud));
    for who in 0..2 {
        lab.bring_up_by(who, qps[who], QpType::Ud, (1 - who, qps[1 - who]), |m| m.pkey_index = Some(0), |_| ());
    }
    lab.receive(1, qps[1], 1, 0, 100);
    let (from, to) = (lab.programs[0], lab.programs[1]);
    let mut vector = AddressVector { dlid: to.lid, port: PortNumber(1), ..Default::default() };
    if spec.hosts[0].hcas[0].link_layer == LinkLayer::Ethernet {
        let [high, low] = to.lid.0.to_be_bytes();
        vector.grh = Some(GlobalRoute { dgid: Gid::of_ipv4([10, 77, high, low]), sgid_index: 1, hop_limit: 64, ..GlobalRoute::default() });
    }
    let ah = lab.world.create_ah(from.process, from.pd, vector).unwrap();
    let mut request = lab.request(0, 2, SendOperation::Send { immediate: None }, 0, 10);
    request.datagram = Some(DatagramDestination { ah, remote_qpn: qps[1], remote_qkey: qkey });
    lab.send(0, qps[0], request);
    lab.run();
    assert!(lab.world.now() < SimTime::ZERO + INTERVAL * 2, "the built-in manager answers the trap");
    lab
}

#[test]
fn wrong_keys_of_datagrams_are_counted_at_their_port() {
    let (own, foreign) = (PKey(0x8005), PKey(0x8006));
    for (pkeys, qkey, violations) in [([own, own], 0x1111, (0, 0)), ([foreign, own], 0x1111, (1, 0)), ([own, own], 0x2222, (0, 1))] {
        let lab = after_datagram(pair(), pkeys, QKey(qkey));
        let info: PortInfo = Desk::over(lab.world).get(&[1], AttributeId::PORT_INFO, 1);
        assert_eq!((info.p_key_violations, info.q_key_violations), violations);
    }
}

#[test]
fn no_trap_leaves_a_port_of_ethernet() {
    for (spec, traps) in [(pair(), 1), (pair_on_ethernet(), 0)] {
        let lab = after_datagram(spec, [PKey(0x8005); 2], QKey(0x2222));
        assert_eq!(lab.world.counters()[1].port_xmit_pkts, traps);
    }
}
