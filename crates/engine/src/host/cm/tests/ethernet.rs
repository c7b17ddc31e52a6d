//! Hosts on Ethernet (RoCE v2), whose ports have addresses and no subnet manager.

use super::*;
use path::Path;
use softband_types::{Gid, Guid, PKey, ServiceLevel};

/// Address of the interface of host 0.
const INTERFACE: u32 = 0x0A4D_0001;

/// Two hosts with an Ethernet port each.
struct Ethernet;

impl Subnet for Ethernet {
    fn host_of(&self, ip: u32) -> Option<usize> {
        let host = if ip >= BASE { ip - BASE } else { ip.wrapping_sub(INTERFACE) };
        (host < 2).then_some(host as usize)
    }
    fn address_of(&self, host: usize) -> u32 {
        BASE + host as u32
    }
    fn ports(&self, host: usize) -> Vec<LocalPort> {
        self.local_port((HcaId(host as u32), PortNumber(1))).into_iter().collect()
    }
    fn port_with_gid(&self, _: Gid) -> Option<LocalPort> {
        None
    }
    fn pkeys(&self, _: &LocalPort) -> &[PKey] {
        &[PKey(0xFFFF)]
    }
    fn local_port(&self, (hca, port): Port) -> Option<LocalPort> {
        let interface = INTERFACE + hca.0;
        Some(LocalPort {
            host: hca.0 as usize,
            hca,
            port,
            lid: Lid(1 + hca.0 as u16),
            gid: Gid::of_ipv4(interface.to_be_bytes()),
            gid_index: 1,
            interface: Some(interface),
            node_guid: Guid(0x10 + u64::from(hca.0)),
            pkey: PKey(0xFFFF),
            pkey_index: 0,
            sm_lid: Lid::NONE,
        })
    }
    fn may_listen(&self, _: usize) -> bool {
        false
    }
    fn path(&self, from: &LocalPort, to: &LocalPort) -> Option<Path> {
        let (service_level, mtu, rate) = (ServiceLevel(0), MtuCode::B2048, RateCode::G100);
        Some(Path { source: *from, dlid: to.lid, dgid: to.gid, service_level, mtu, rate, packet_life_time: 16, traffic_class: 0 })
    }
}

/// Carries out a command, and delivers the packets that follow from it. Returns them.
fn act(table: &mut CmTable, channel: u32, command: &Command) -> Result<(Vec<u8>, Vec<ManagementPacket>), i32> {
    let reply = table.command(channel, command, 512, &Ethernet, SimTime::ZERO)?;
    let mut sent = Vec::new();
    while table.has_outgoing() {
        for (_, packet) in table.take_outgoing() {
            let to = (HcaId(u32::from(packet.dlid.0) - 1), PortNumber(1));
            table.arrive(to, &packet, &Ethernet, SimTime::ZERO);
            sent.push(*packet);
        }
    }
    Ok((reply, sent))
}

fn table() -> CmTable {
    let mut table = CmTable::default();
    table.open(SERVER, 0, SimDuration::ZERO);
    table.open(CLIENT, 1, SimDuration::ZERO);
    table
}

fn create(table: &mut CmTable, channel: u32, space: u16) -> u32 {
    Fields(&act(table, channel, &Command::Create { uid: 5, space, qp_type: RC }).unwrap().0).u32(0)
}

fn kind(table: &mut CmTable, channel: u32) -> u32 {
    Fields(&act(table, channel, &Command::GetEvent).unwrap().0).u32(12)
}

#[test]
fn a_connection_is_between_addresses() {
    let mut table = table();
    let listener = create(&mut table, SERVER, TCP);
    act(&mut table, SERVER, &Command::Bind { id: listener, to: Address::v4(INTERFACE, 7471) }).unwrap();
    act(&mut table, SERVER, &Command::Listen { id: listener, backlog: 2 }).unwrap();
    let id = create(&mut table, CLIENT, TCP);
    act(&mut table, CLIENT, &Command::SetOption { id, level: 0, name: 0, value: vec![0x68] }).unwrap();
    let destination = Address::v4(INTERFACE, 7471);
    act(&mut table, CLIENT, &Command::ResolveAddress { id, source: None, destination, millis: 1 }).unwrap();
    act(&mut table, CLIENT, &Command::ResolveRoute { id }).unwrap();
    assert_eq!([kind(&mut table, CLIENT), kind(&mut table, CLIENT)], [0, 2]);
    let (_, sent) = act(&mut table, CLIENT, &Command::Connect { id, parameters: parameters(0x405, b"hello") }).unwrap();

    let request = Req::parse(&CmMad::parse(&sent[0].mad[..]).unwrap().data).unwrap();
    let path = request.primary_path;
    assert_eq!((path.local_gid.ipv4(), path.remote_gid.ipv4()), (Some([10, 77, 0, 2]), Some([10, 77, 0, 1])));
    assert_eq!((path.local_lid, path.remote_lid, path.hop_limit, path.subnet_local, path.traffic_class), (Lid(0xFFFF), Lid(0xFFFF), 64, false, 0x68));
    // The header has the addresses of the interfaces, too.
    assert_eq!(request.private_data[16..20], [10, 77, 0, 2]);

    let event = act(&mut table, SERVER, &Command::GetEvent).unwrap().0;
    let accepted = Fields(&event).u32(8);
    act(&mut table, SERVER, &Command::Accept { id: accepted, uid: 6, parameters: Some(parameters(0x404, b"")) }).unwrap();
    for (channel, id, peer) in [(CLIENT, id, 1u8), (SERVER, accepted, 2)] {
        let attributes = act(&mut table, channel, &Command::InitQpAttributes { id, state: 2 }).unwrap().0;
        let vector = &attributes[40..72];
        assert_eq!((&vector[12..16], vector[20], vector[21], vector[22], vector[29]), (&[10, 77, 0, peer][..], 1, 64, 0x68, 1));
        assert_eq!(Fields(vector).u16(24), 0, "no LID");
    }
}

#[test]
fn the_address_of_a_host_leads_to_its_port() {
    let mut table = table();
    let id = create(&mut table, CLIENT, TCP);
    act(&mut table, CLIENT, &Command::ResolveAddress { id, source: None, destination: Address::v4(BASE, 1), millis: 1 }).unwrap();
    let addresses = act(&mut table, CLIENT, &Command::Query { id, option: 0 }).unwrap().0;
    assert_eq!(addresses[20..24], [198, 18, 0, 2]);
    let gids = act(&mut table, CLIENT, &Command::Query { id, option: 2 }).unwrap().0;
    assert_eq!((&gids[36..40], &gids[164..168]), (&[10, 77, 0, 2][..], &[10, 77, 0, 1][..]));
}

#[test]
fn a_group_needs_nobody_s_consent() {
    let mut table = table();
    let id = create(&mut table, CLIENT, UDP);
    let group = Address::v4(0xEF00_0001, 0);
    act(&mut table, CLIENT, &Command::ResolveAddress { id, source: None, destination: group, millis: 1 }).unwrap();
    let (_, sent) = act(&mut table, CLIENT, &Command::Join { id, uid: 9, to: group, send_only: false }).unwrap();
    assert!(sent.is_empty());
    assert_eq!(kind(&mut table, CLIENT), 0);
    let event = act(&mut table, CLIENT, &Command::GetEvent).unwrap().0;
    assert_eq!((Fields(&event).u32(12), Fields(&event).u32(20)), (12, 0xFF_FFFF));
    let vector = &event[28..60];
    assert_eq!((&vector[10..16], vector[20], vector[21], vector[29]), (&[0xFF, 0xFF, 0xEF, 0, 0, 1][..], 1, 64, 1));
    let v6 = std::array::from_fn(|index| if index == 0 { 0xFF } else { index as u8 });
    let of_v6 = Command::Join { id, uid: 9, to: Address::v6(v6, 0), send_only: false };
    assert_eq!(act(&mut table, CLIENT, &of_v6).err(), Some(libc::EOPNOTSUPP));
    act(&mut table, CLIENT, &Command::Leave { multicast: 0 }).unwrap();
}
