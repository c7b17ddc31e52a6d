//! Fabrics in code: the links that they get, and the defects that `build` names.

use softband_model::link::{ArbitrationTables, Sl2Vl};
use softband_model::management::Routing;
use softband_model::parts::{CablePart, CardInterface, EthernetCable, EthernetPorts, HcaPart, HostPart, PciXClock, Slot, SwitchPart};
use softband_sim::{SimDuration, SimTime};
use softband_spec::faults::{FaultKind, FaultSpec, PacketClass};
use softband_spec::{BuildError, FabricBuilder, Node, PortClasses, QualityOfService, SubnetSpec, hosts_apart, settings_of};
use softband_types::{EthernetRate, LinkLayer, LinkSpeed, LinkWidth, Mtu, OperationalVls};

const METRE: u64 = 1_000;

fn host(fabric: &mut FabricBuilder, name: &str, part: HcaPart) -> Node {
    let host = fabric.host(name, HostPart::ideal());
    fabric.hca(host, part)
}

/// Returns a fabric with two hosts on a cable.
fn pair(a: HcaPart, b: HcaPart, cable: CablePart) -> FabricBuilder {
    let mut fabric = FabricBuilder::new("pair");
    let ends = [host(&mut fabric, "a", a), host(&mut fabric, "b", b)];
    fabric.cable(ends[0], ends[1], cable);
    fabric
}

fn defect(fabric: FabricBuilder) -> String {
    fabric.build().expect_err("this fabric cannot exist").to_string()
}

#[test]
fn a_link_trains_to_the_best_rate_of_both_ends_and_the_cable() {
    let slow = HcaPart { widths: vec![LinkWidth::X1, LinkWidth::X4], speeds: vec![LinkSpeed::Sdr, LinkSpeed::Qdr], ..HcaPart::ideal() };
    let rate = |cable: CablePart| pair(slow.clone(), HcaPart::ideal(), cable).build().unwrap().cables[0].rate.to_string();
    assert_eq!(rate(CablePart::ideal(METRE)), "4X QDR");
    assert_eq!(rate(CablePart { speed_max: LinkSpeed::Ddr, width_max: LinkWidth::X2, ..CablePart::ideal(METRE) }), "1X SDR");
}

#[test]
fn cables_take_the_first_free_ports_in_their_order() {
    let mut fabric = FabricBuilder::new("star");
    let switch = fabric.switch("sw", SwitchPart::ideal(3));
    for name in ["a", "b"] {
        let hca = host(&mut fabric, name, HcaPart { ports: 2, ..HcaPart::ideal() });
        fabric.cable_at(hca.port(2), if name == "a" { switch.port(2) } else { switch.port(1) }, CablePart::ideal(METRE));
    }
    let third = host(&mut fabric, "c", HcaPart::ideal());
    fabric.cable(third, switch, CablePart::ideal(METRE));
    let spec = fabric.build().unwrap();
    let ends: Vec<String> = spec.cables.iter().flat_map(|cable| cable.ends).map(|end| spec.port_name(end)).collect();
    assert_eq!(ends, ["a/ideal0/2", "sw/2", "b/ideal0/2", "sw/1", "c/ideal0/1", "sw/3"]);
    let guids: Vec<String> = spec.hosts.iter().map(|host| host.hcas[0].node_guid.to_string()).collect();
    assert_eq!(guids, ["0002:c902:0000:0004", "0002:c902:0000:0008", "0002:c902:0000:000c"]);
    assert_eq!(hosts_apart(&spec), None);
}

#[test]
fn settings_change_the_links() {
    let mut fabric = pair(HcaPart::ideal(), HcaPart::ideal(), CablePart::ideal(METRE));
    let settings = |fabric: &FabricBuilder| {
        let spec = fabric.clone().build().unwrap();
        let settings = settings_of(&spec, &spec.cables[0]);
        (settings.vls.data_lanes(), settings.mtu)
    };
    assert_eq!(settings(&fabric), (15, Mtu::B4096));
    fabric.subnet(SubnetSpec { max_op_vls: OperationalVls::VL0, mtu_max: Mtu::B1024, ..SubnetSpec::default() });
    assert_eq!(settings(&fabric), (1, Mtu::B1024));
}

#[test]
fn ethernet_ports_need_an_ethernet_cable() {
    let ports =
        EthernetPorts { rates: vec![EthernetRate::G25, EthernetRate::G100], buffer_bytes: 1 << 20, pause_response: SimDuration::from_nanos(100) };
    let part = HcaPart { ethernet: Some(ports), ..HcaPart::ideal() };
    let build = |cable: CablePart| {
        let mut fabric = FabricBuilder::new("pair");
        let ends = ["a", "b"].map(|name| {
            let host = fabric.host(name, HostPart::ideal());
            fabric.ethernet_hca(host, part.clone())
        });
        fabric.cable(ends[0], ends[1], cable);
        fabric.build()
    };
    let fibre = CablePart { ethernet: Some(EthernetCable { rate_max: EthernetRate::G40, fec_latency: vec![] }), ..CablePart::ideal(METRE) };
    let spec = build(fibre).unwrap();
    assert_eq!((spec.cables[0].rate_name(), spec.link_layer(spec.cables[0].ends[0])), ("25GbE".into(), LinkLayer::Ethernet));
    assert_eq!(build(CablePart::ideal(METRE)), Err(BuildError::Rate("a/ideal0/1".into(), "b/ideal0/1".into())));
}

#[test]
fn a_slot_and_its_card_train_to_the_lesser() {
    let card = HcaPart { interface: CardInterface::PciExpress { generation: 3, lanes: 8 }, max_payload_bytes: Some(256), ..HcaPart::ideal() };
    let spec = pair(card, HcaPart::ideal(), CablePart::ideal(METRE)).build().unwrap();
    let Slot::PciExpress(slot) = spec.hosts[0].hcas[0].bus.slot else { panic!("the slot is PCI Express") };
    assert_eq!((slot.generation, slot.lanes, slot.max_payload_bytes, slot.completion_bytes), (3, 8, 256, 256));
    let old = HcaPart { interface: CardInterface::PciX { clock: PciXClock::Mhz133 }, ..HcaPart::ideal() };
    let text = defect(pair(old, HcaPart::ideal(), CablePart::ideal(METRE)));
    assert_eq!(text, "host `a` has a slot for PCI Express, and its HCA is a card for PCI-X: use another host part");
}

#[test]
fn faults_need_a_place_of_the_fabric() {
    let with = |kind: FaultKind| {
        let mut fabric = pair(HcaPart::ideal(), HcaPart::ideal(), CablePart::ideal(METRE));
        fabric.fault(FaultSpec { at: SimTime::ZERO, kind });
        fabric.build()
    };
    let port = |host, number| Node::Hca { host, hca: 0 }.port(number);
    let drop = |port, number| FaultKind::Drop { port, packet: PacketClass::Any, number };
    for kind in [FaultKind::LinkDown { cable: 0 }, FaultKind::HostDies { host: 1 }, drop(port(1, 1), 1)] {
        assert!(with(kind.clone()).is_ok(), "{kind:?}");
    }
    let missing = [FaultKind::LinkUp { cable: 1 }, FaultKind::HostDies { host: 2 }, FaultKind::SwitchDies { switch: 0 }];
    for kind in missing.into_iter().chain([drop(port(2, 1), 1), drop(port(0, 9), 1), drop(port(0, 1), 0)]) {
        assert_eq!(with(kind.clone()), Err(BuildError::Fault(0, kind.name())));
    }
}

#[test]
fn qos_settings_need_a_subnet_that_keeps_them() {
    let classes = |sl2vl| PortClasses { tables: ArbitrationTables { high: Vec::new(), low: Vec::new(), high_limit: 0 }, sl2vl };
    let qos = |sl2vl| Some(QualityOfService { hca: classes(sl2vl), switch: classes(Sl2Vl::IDENTITY) });
    let built = |routing, sl2vl| {
        let mut fabric = FabricBuilder::new("torus");
        let switches: Vec<Node> = (0..3).map(|number| fabric.switch(format!("s{number}"), SwitchPart::ideal(3))).collect();
        for number in 0..3 {
            // Ports 1 and 2 lead to the next switch of the ring and to the previous one.
            fabric.cable_at(switches[number].port(1), switches[(number + 1) % 3].port(2), CablePart::ideal(METRE));
            let hca = host(&mut fabric, &format!("h{number}"), HcaPart::ideal());
            fabric.cable_at(hca.port(1), switches[number].port(3), CablePart::ideal(METRE));
        }
        fabric.subnet(SubnetSpec { routing, qos: qos(sl2vl), ..SubnetSpec::default() });
        fabric.build().map(|_| ())
    };
    let other = Sl2Vl::new([1; 16]).expect("VL 1 exists");
    assert_eq!(built(Routing::UpDown, other), Ok(()));
    assert_eq!(built(Routing::Torus, Sl2Vl::IDENTITY), Ok(()));
    assert!(matches!(built(Routing::Torus, other), Err(BuildError::Qos(_))));
}

#[test]
fn the_first_defect_is_named() {
    let mut fabric = pair(HcaPart::ideal(), HcaPart::ideal(), CablePart::ideal(METRE));
    fabric.switch("a", SwitchPart::ideal(2));
    assert_eq!(fabric.build(), Err(BuildError::Name("a".into())));

    let mut fabric = FabricBuilder::new("full");
    let [a, b] = ["a", "b"].map(|name| host(&mut fabric, name, HcaPart::ideal()));
    fabric.cable(a, b, CablePart::ideal(METRE));
    fabric.cable(a, b, CablePart::ideal(METRE));
    assert_eq!(fabric.build(), Err(BuildError::Port("a/ideal0/2".into())));

    let narrow = HcaPart { widths: vec![LinkWidth::X1], ..HcaPart::ideal() };
    let wide = HcaPart { widths: vec![LinkWidth::X12], ..HcaPart::ideal() };
    assert!(defect(pair(narrow, wide, CablePart::ideal(METRE))).starts_with("`a/ideal0/1` and `b/ideal0/1` have no rate in common"));

    let mut fabric = FabricBuilder::new("no levels");
    let [x, y, z] = ["x", "y", "z"].map(|name| fabric.switch(name, SwitchPart::ideal(4)));
    for (from, to) in [(x, y), (y, z), (z, x)] {
        fabric.cable(from, to, CablePart::ideal(METRE));
    }
    fabric.subnet(SubnetSpec { routing: Routing::FatTree, ..SubnetSpec::default() });
    assert!(defect(fabric).starts_with("routing `fat-tree` cannot work here: switch `"));
}

#[test]
fn a_fabric_takes_no_more_lids_than_there_are() {
    let pairs = |pairs: usize| {
        let mut fabric = FabricBuilder::new("pairs of hosts");
        for pair in 0..pairs {
            let [a, b] = ["a", "b"].map(|side| {
                let host = fabric.host(format!("{side}{pair}"), HostPart::ideal());
                fabric.hca(host, HcaPart::ideal())
            });
            fabric.cable(a, b, CablePart::ideal(1_000));
        }
        fabric.subnet(SubnetSpec { lmc: softband_types::Lmc::new(7).unwrap(), ..SubnetSpec::default() });
        fabric.build()
    };
    // The first LIDs are 128 to 255, and so the 383rd port has the last 128 LIDs up to 49,151.
    assert!(pairs(191).is_ok());
    let error = pairs(192).unwrap_err();
    assert_eq!(error.to_string(), "the fabric needs 49279 LIDs, and there are 49151: use fewer ports, or a smaller `lmc`");
}
