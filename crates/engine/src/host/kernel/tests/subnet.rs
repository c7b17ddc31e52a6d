//! Interfaces of IPoIB under different subnet managers, in partitions, and with several LIDs a port.

use super::*;
use softband_spec::SubnetManager;
use softband_types::Lmc;

fn managed(manager: SubnetManager) -> FabricSpec {
    let mut spec = spec("three-hosts.toml", 2_044);
    spec.subnet.manager = manager;
    spec
}

fn run_until_seconds(lab: &mut Lab, seconds: f64) {
    lab.run_to(SimTime::ZERO + SimDuration::from_micros((seconds * 1e6) as u64));
}

/// Sends a datagram from a host to another. Returns whether it arrives within a second.
fn reaches(lab: &mut Lab, from: usize, to: usize) -> bool {
    let (a, b) = (lab.open(from, Protocol::Datagram), lab.open(to, Protocol::Datagram));
    let target = SocketAddr::new(ip(to as u8 + 1), PORT);
    lab.call(to, Bind { socket: b, address: target }).expect("a free port");
    lab.call(from, SendTo { socket: a, payload: Payload::counted(100), to: Some(target) }).expect("room");
    let end = lab.now + SimDuration::from_micros(1_000_000);
    lab.run_to(end);
    let has_arrived = lab.call(to, ReceiveFrom { socket: b, most: CALL_BYTES, peek: false }).is_ok();
    lab.call(from, Close { socket: a }).expect("an open socket");
    lab.call(to, Close { socket: b }).expect("an open socket");
    has_arrived
}

#[test]
fn a_manager_by_packets_admits_interfaces_and_names_their_paths() {
    let mut lab = Lab::new(&managed(SubnetManager::BuiltinByPackets));
    run_until_seconds(&mut lab, 1.0);
    for (from, to) in [(0, 1), (1, 0), (2, 1), (0, 2)] {
        assert!(reaches(&mut lab, from, to), "{from} to {to}");
    }
    let ends = lab.connect();
    let data = bytes(1 << 20);
    assert_eq!(lab.transfer(ends, &data).0, data.to_vec());
}

#[test]
fn interfaces_join_again_and_ask_for_paths_after_a_client_reregister() {
    const CLIENT_REREGISTER: u32 = 17;
    for manager in [SubnetManager::Builtin, SubnetManager::BuiltinByPackets] {
        let mut lab = Lab::new(&managed(manager));
        run_until_seconds(&mut lab, 1.0);
        assert!(reaches(&mut lab, 0, 1));
        for host in 0..3 {
            let port = (lab.world.hca_id(host, 0), PortNumber(1));
            lab.kernels.port_event(&mut lab.world, lab.now, port, CLIENT_REREGISTER);
        }
        run_until_seconds(&mut lab, 3.0);
        assert!(reaches(&mut lab, 0, 1) && reaches(&mut lab, 2, 0), "{manager:?}");
    }
}

#[test]
fn an_interface_reaches_those_of_its_partition_alone() {
    for manager in [SubnetManager::Builtin, SubnetManager::BuiltinByPackets] {
        let mut spec = managed(manager);
        for host in &mut spec.hosts {
            host.hcas[0].pkeys = vec![PKey::DEFAULT_FULL, PKey(0x8001)];
        }
        for host in [0, 1] {
            let InterfaceKind::Ipoib { pkey, .. } = &mut spec.hosts[host].interfaces[1].kind else { panic!("an interface of IPoIB") };
            *pkey = PKey(0x8001);
        }
        let mut lab = Lab::new(&spec);
        run_until_seconds(&mut lab, 1.0);
        assert!(reaches(&mut lab, 0, 1), "{manager:?}");
        assert!(!reaches(&mut lab, 0, 2) && !reaches(&mut lab, 2, 1), "{manager:?}");
        assert_eq!(failed_connect(&mut lab, ip(3)).0, NetError::HostUnreachable);
    }
}

#[test]
fn ports_with_several_lids_have_interfaces() {
    for manager in [SubnetManager::Builtin, SubnetManager::BuiltinByPackets] {
        let mut spec = managed(manager);
        spec.subnet.lmc = Lmc::new(2).expect("4 LIDs a port");
        let mut lab = Lab::new(&spec);
        run_until_seconds(&mut lab, 1.0);
        assert!(reaches(&mut lab, 0, 1) && reaches(&mut lab, 1, 2), "{manager:?}");
    }
}

#[test]
fn a_host_that_dies_between_two_packets_is_found_dead() {
    // The link address of the neighbour is known, so that three probes of it must fail first.
    let mut lab = Lab::new(&managed(SubnetManager::Builtin));
    assert!(reaches(&mut lab, 0, 1));
    lab.kernels.host_died(1);
    let begin = lab.now.as_secs_f64();
    let (error, seconds) = failed_connect(&mut lab, ip(2));
    // Linux: the entry is good for 30 s, and probes after the SYN of 31 s fail without a report. The SYN
    // of 63 s waits for the answers to three requests.
    assert_eq!(error, NetError::HostUnreachable);
    assert!((65.9..66.1).contains(&(seconds - begin)), "{} s", seconds - begin);
}
