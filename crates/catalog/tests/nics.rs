//! NICs in fabric files.

use crate::common;

use crate::common::{catalog, error_of, parse};
use softband_catalog::PartKind;
use softband_types::{EthernetRate, LinkLayer};

const PAIR: &str = r#"[hosts.a]
part = "se7520jr23d"
[hosts.a.nics.eth1]
part = "bcm5708"
slot = "pci-x-133"
[hosts.b]
part = "se7520jr23d"
[hosts.b.nics.eth1]
part = "intel-82546gb"
slot = "pci-x-133"
[switches.sw]
part = "gigabit-switch"
[[cables]]
part = "twisted-pair"
length = "2 m"
from = "a/eth1/1"
to = "sw/1"
[[cables]]
part = "twisted-pair"
length = "2 m"
from = "b/eth1/1"
to = "sw/2"
"#;

#[test]
fn hosts_with_network_cards_train_to_their_rate() {
    let spec = parse(PAIR).unwrap_or_else(|error| panic!("{}", error.to_text())).spec;
    assert!(spec.cables.iter().all(|cable| cable.rate == EthernetRate::G1.link_rate()));
    let card = &spec.hosts[0].hcas[0];
    assert_eq!((card.device.as_str(), card.link_layer, card.part.max_qp), ("eth1", LinkLayer::Ethernet, 0));
    let nic = card.nic.as_ref().unwrap();
    assert_eq!((nic.name.as_str(), nic.transmit_ring_frames, nic.offloads.checksums), ("bcm5708", 255, true));
}

#[test]
fn a_resolved_fabric_has_the_same_cards() {
    let loaded = parse(PAIR).unwrap_or_else(|error| panic!("{}", error.to_text()));
    let again = parse(&loaded.resolved_toml()).unwrap_or_else(|error| panic!("{}", error.to_text()));
    assert_eq!(again.spec, loaded.spec);
}

/// Returns the interfaces of host a as text: names, addresses and MTU.
fn interfaces(text: &str) -> Vec<String> {
    let spec = parse(text).unwrap_or_else(|error| panic!("{}", error.to_text())).spec;
    let host = &spec.hosts[0];
    host.interfaces.iter().map(|own| format!("{} {} {}", own.name, own.addresses[0].address, own.mtu_bytes)).collect()
}

#[test]
fn a_card_with_a_cable_is_an_interface() {
    let management = "eth0 198.18.0.1 1500";
    assert_eq!(interfaces(PAIR), [management, "eth1 10.1.0.1 1500"]);
    assert_eq!(interfaces(&format!("{PAIR}[ethernet]\nmtu = 9000\n")), [management, "eth1 10.1.0.1 9000"]);
    let lan = format!("{PAIR}[interfaces.lan]\nkind = \"ethernet\"\nnic = \"eth1\"\nmtu = 1400\nsubnet = \"10.7.0.0/24\"\n");
    assert_eq!(interfaces(&lan), [management, "lan 10.7.0.1 1400"]);
    assert_eq!(interfaces(&format!("{PAIR}[hosts.a.interfaces]\neth1 = false\n")), [management]);
    // A card that has the name of the management network takes its place.
    assert_eq!(interfaces(&PAIR.replace("eth1", "eth0")), ["eth0 10.1.0.1 1500"]);
    // A card without a cable is none.
    let idle = PAIR.replacen("[hosts.b]", "[hosts.a.nics.eth2]\npart = \"bcm5708\"\nslot = \"pci-x-133\"\n[hosts.b]", 1);
    assert_eq!(interfaces(&idle), [management, "eth1 10.1.0.1 1500"]);
}

#[test]
fn a_resolved_fabric_has_the_interfaces_of_cards() {
    for lines in ["[interfaces]\neth1 = false\n", "[hosts.a.interfaces.lan]\nkind = \"ethernet\"\n", "[interfaces]\neth0 = false\n"] {
        let loaded = parse(&format!("{PAIR}{lines}")).unwrap_or_else(|error| panic!("{}", error.to_text()));
        let again = parse(&loaded.resolved_toml()).unwrap_or_else(|error| panic!("{}", error.to_text()));
        assert_eq!(again.spec, loaded.spec);
    }
}

#[test]
fn mistakes_in_the_interfaces_of_cards_are_refused() {
    let with = |lines: &str| error_of(&format!("{PAIR}[hosts.a.interfaces.lan]\nkind = \"ethernet\"\n{lines}\n"));
    let cases = [
        ("nic = \"eth7\"", "host `a` has no NIC `eth7`"),
        ("hca = \"eth1\"", "host `a` has no HCA `eth1`"),
        ("nic = \"eth1\"\nhca = \"mthca0\"", "`lan` is on two cards"),
        ("port = 2", "`a/eth1` has no port 2\n  help: write 1 to 1"),
        ("mtu = 1501", "`mtu` of `lan` cannot be 1501\n  help: write 68 to 1500: `[ethernet] mtu` is 1500"),
        ("pkey = 0xffff", "interface `lan` has no key `pkey`"),
        ("[hosts.a.interfaces.eth1]\nkind = \"ethernet\"", "`lan` and `eth1` of host `a` are on one link"),
        ("[hosts.b.interfaces.eth1]\nkind = \"ethernet\"\nport = 2", "no cable ends on `b/eth1/2`, so `eth1` has no link"),
        (
            "addresses = [\"10.1.0.2/16\"]\n[hosts.b.interfaces.eth1]\nkind = \"ethernet\"\naddresses = [\"10.1.0.2/16\"]",
            "10.1.0.2 is the address of",
        ),
    ];
    for (lines, message) in cases {
        let error = with(lines);
        assert!(error.contains(message), "{lines}\n{error}");
    }
    let stated = error_of(&format!("{PAIR}[hosts.a.interfaces.eth1]\nkind = \"ethernet\"\naddresses = [\"10.4.0.1/16\"]\n"));
    assert!(stated.contains("`eth1` of host `b` has no address, and another host's has one"), "{stated}");
}

#[test]
fn the_shipped_fabric_is_what_it_says() {
    let text = std::fs::read_to_string(common::root().join("fabrics/gigabit.toml")).unwrap();
    let loaded = parse(&text).unwrap_or_else(|error| panic!("{}", error.to_text()));
    assert_eq!(loaded.warnings.len(), 0);
    assert_eq!(interfaces(&text), ["eth0 198.18.0.1 1500", "eth1 10.1.0.1 1500"]);
    let drawn = softband_catalog::draw_text(&loaded.spec);
    assert!(drawn.contains("\n  eth1  (Ethernet, eth1/1, MTU 1500) 10.1.0.2/16\n"), "{drawn}");
}

#[test]
fn cards_that_do_not_fit_are_refused() {
    let with = |from: &str, to: &str| error_of(&PAIR.replacen(from, to, 1));
    assert!(with("bcm5708", "bcm5709").contains("no nic part `bcm5709`"));
    assert!(with("nics.eth1", "nics.an-interface-of-17").contains("cannot name an interface"));
    assert!(with("slot = \"pci-x-133\"\n", "").contains("PCI-X card"), "{}", with("slot = \"pci-x-133\"\n", ""));
    let mtu = error_of(&format!("{PAIR}[ethernet]\nmtu = 9200\n"));
    assert!(mtu.contains("`a/eth1/1` cannot have the MTU of its network, 9200 B: part `bcm5708` carries 9000 B"), "{mtu}");
    let ring = "[switches.s2]\npart = \"gigabit-switch\"\n".to_owned()
        + &["3", "4"]
            .map(|port| format!("[[cables]]\npart = \"twisted-pair\"\nlength = \"2 m\"\nfrom = \"sw/{port}\"\nto = \"s2/{port}\"\n"))
            .concat();
    let circle = error_of(&format!("{PAIR}{ring}"));
    assert!(circle.contains("a frame to all could come back to switch `s"), "{circle}");
}

#[test]
fn each_card_of_the_catalogue_has_a_driver_and_rings() {
    let catalog = catalog();
    let names = catalog.parts(PartKind::Nic);
    assert_eq!(names, ["bcm5704", "bcm5708", "intel-82546gb", "intel-e810", "intel-pro-10gbe", "neterion-xframe"]);
    assert!(names.iter().all(|name| catalog.nic(name).is_some_and(|part| part.receive_ring_frames >= 200)));
}
