//! Traffic that crossed the fabric outside the model counts at each port of its way, as if its
//! packets had passed there.

use crate::common::*;
use softband_fabric::CarriedElsewhere;
use softband_types::*;

const PORT: PortNumber = PortNumber(1);

/// Returns data and packets of each port: sent, then received.
fn counts(lab: &Lab) -> Vec<[u64; 4]> {
    let of = |port: &softband_fabric::PortCounters| [port.port_xmit_data, port.port_xmit_pkts, port.port_rcv_data, port.port_rcv_pkts];
    lab.world.counters().iter().map(of).collect()
}

fn three_hosts() -> Lab {
    Lab::new(&through_switch(LinkSpeed::Ddr, &[1, 1, 1], 4, host_part(600, 300)))
}

fn lid(lab: &Lab, host: usize) -> Lid {
    lab.world.port(lab.programs[host].hca, PORT).unwrap().lid
}

#[test]
fn a_message_counts_as_its_packets_do() {
    let mut modelled = three_hosts();
    let (qpn, _) = modelled.connect(0, 2, QpType::Rc);
    let request = modelled.request(0, 1, modelled.write_to(2, 0), 0, 5_001);
    modelled.send(0, qpn, request);
    modelled.run();
    let packets = modelled.world.counters()[0].port_xmit_pkts;
    let mut carried = three_hosts();
    let traffic = CarriedElsewhere {
        sent_packets: packets,
        // BTH and invariant CRC of each packet, RETH of the first, and padded payload.
        sent_bytes: packets * 16 + 16 + 5_004,
        returned_packets: 1,
        // BTH, AETH and invariant CRC of the acknowledgement.
        returned_bytes: 20,
        ..CarriedElsewhere::default()
    };
    let (hca, to) = (carried.programs[0].hca, lid(&carried, 2));
    carried.world.count_elsewhere((hca, PORT), to, &traffic);
    assert_eq!(counts(&carried), counts(&modelled));
    assert!(packets >= 2 && counts(&carried).iter().filter(|count| count[1] > 0).count() == 4);
    // Both add up in one World.
    let to = lid(&modelled, 2);
    modelled.world.count_elsewhere((hca, PORT), to, &traffic);
    let twice: Vec<_> = counts(&carried).iter().map(|count| count.map(|number| 2 * number)).collect();
    assert_eq!(counts(&modelled), twice);
}

#[test]
fn a_message_to_its_own_port_crosses_no_link() {
    for spec in [back_to_back(LinkSpeed::Ddr, 1, 4, host_part(600, 300)), through_switch(LinkSpeed::Ddr, &[1, 1, 1], 4, host_part(600, 300))] {
        let mut lab = Lab::new(&spec);
        let (a, _) = lab.connect(0, 0, QpType::Rc);
        let request = lab.request(0, 1, lab.write_to(0, 0), 0, 5_001);
        lab.send(0, a, request);
        lab.run();
        assert_eq!(lab.statuses(0), [(1, WcStatus::Success)]);
        let traffic =
            CarriedElsewhere { sent_packets: 3, sent_bytes: 5_068, returned_packets: 1, returned_bytes: 20, writes: 2, ..Default::default() };
        let hca = lab.programs[0].hca;
        lab.world.count_elsewhere((hca, PORT), lid(&lab, 0), &traffic);
        assert!(counts(&lab).iter().all(|count| *count == [0; 4]));
        lab.world.count_elsewhere((hca, PORT), lid(&lab, 1), &traffic);
        let [there, back] = [(5_068 + 3 * 8) / 4, (20 + 8) / 4];
        assert_eq!(counts(&lab)[..2], [[there, 3, back, 1], [back, 1, there, 3]]);
        // Requests count where they arrive: two of the traffic at each port, and the lab's to its own.
        let writes = |program: usize| lab.world.hardware_counters(lab.programs[program].hca, PORT).expect("a port").rx_write_requests;
        assert_eq!([writes(0), writes(1)], [3, 2]);
    }
}

#[test]
fn a_message_to_a_group_counts_once_for_its_sender_and_once_for_each_member() {
    let mut lab = three_hosts();
    let mlid = Lid(0xC005);
    let mut mgid = Gid::default();
    (mgid.0[0], mgid.0[1], mgid.0[15]) = (0xFF, 0x12, 7);
    for host in [1, 2] {
        let qpn = lab.create(host, QpType::Ud);
        let program = lab.programs[host];
        lab.world.attach_multicast(program.process, program.hca, qpn, mgid, mlid).unwrap();
    }
    let traffic = CarriedElsewhere { sent_packets: 3, sent_bytes: 300, destination: Some(mgid), ..Default::default() };
    let hca = lab.programs[0].hca;
    lab.world.count_elsewhere((hca, PORT), mlid, &traffic);
    // LRH and GRH add 48 bytes to each packet.
    let words = (300 + 3 * 48) / 4;
    let hosts = [[words, 3, 0, 0], [0, 0, words, 3], [0, 0, words, 3]];
    let switch = [[0, 0, words, 3], [words, 3, 0, 0], [words, 3, 0, 0]];
    assert_eq!(counts(&lab), [hosts, switch].concat());
    for port in lab.world.counters() {
        assert_eq!((port.multicast_xmit_pkts, port.multicast_rcv_pkts), (port.port_xmit_pkts, port.port_rcv_pkts));
        assert_eq!((port.unicast_xmit_pkts, port.unicast_rcv_pkts), (0, 0));
    }
}

#[test]
fn claims_of_a_liar_neither_overflow_nor_leave_the_fabric() {
    let mut lab = three_hosts();
    let claim = CarriedElsewhere {
        sent_packets: u64::MAX,
        sent_bytes: u64::MAX,
        returned_packets: u64::MAX,
        writes: u64::MAX,
        destination: Some(Gid::default()),
        ..Default::default()
    };
    let hca = lab.programs[0].hca;
    for to in [lid(&lab, 1), lid(&lab, 0), Lid(77), Lid(0), Lid(0xC001), Lid(0xFFFF)] {
        (0..3).for_each(|_| lab.world.count_elsewhere((hca, PORT), to, &claim));
    }
    lab.world.count_elsewhere((HcaId(99), PORT), lid(&lab, 1), &claim);
    lab.world.count_elsewhere((hca, PortNumber(9)), lid(&lab, 1), &claim);
    let largest = counts(&lab).into_iter().flatten().max().unwrap();
    assert!(largest <= 1 << 60, "{largest}");
    let statistics = lab.world.statistics();
    assert!(statistics.iter().any(|port| port.counters.port_xmit_data == u32::MAX), "narrow counters stop at their end");
}
