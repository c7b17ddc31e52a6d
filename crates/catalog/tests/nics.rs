//! NICs in fabric files.

mod common;

use common::{catalog, error_of, parse};
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
    assert_eq!(names, ["bcm5708", "intel-82546gb", "intel-e810", "neterion-xframe"]);
    assert!(names.iter().all(|name| catalog.nic(name).is_some_and(|part| part.receive_ring_frames >= 255)));
}
