//! Topologies of `ibnetdiscover` and ibsim: round trips, dumps from the field, and mistakes.

use crate::common;

use std::collections::BTreeSet;
use std::sync::OnceLock;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use softband_catalog::{Catalog, LoadOptions, TopologyFormat, export_topology, import_topology, load_fabric, parse_fabric};
use softband_spec::FabricSpec;
use softband_types::{Lid, LinkLayer};

const FORMATS: [TopologyFormat; 2] = [TopologyFormat::Ibnetdiscover, TopologyFormat::Ibsim];
const DUMP: &str = include_str!("../../../fuzz/seeds/import/ibnetdiscover.txt");
const NET: &str = include_str!("../../../fuzz/seeds/import/ibsim.net");
const FIELD: &str = include_str!("../../../fuzz/seeds/import/field.txt");

fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(common::catalog)
}

/// Hosts, HCAs, switches and cables with everything that a topology holds.
fn graph(spec: &FabricSpec) -> BTreeSet<String> {
    let hcas = spec.hosts.iter().flat_map(|host| host.hcas.iter().map(move |hca| (host, hca)));
    let hcas = hcas.map(|(host, hca)| format!("{}/{} {} {}", host.name, hca.device, hca.part.ports, hca.node_guid));
    let switches = spec.switches.iter().map(|switch| format!("{} {} {}", switch.name, switch.part.ports, switch.node_guid));
    let cables = spec.cables.iter().map(|cable| {
        let mut ends = cable.ends.map(|end| spec.port_name(end));
        ends.sort();
        format!("{} {}", ends.join(" "), cable.rate)
    });
    hcas.chain(switches).chain(cables).collect()
}

fn import(text: &str) -> FabricSpec {
    let imported = import_topology("net.txt", text.as_bytes(), None, catalog()).unwrap_or_else(|error| panic!("{}\n{text}", error.to_text()));
    let loaded = parse_fabric("net.toml", &imported.text, catalog(), &LoadOptions::default());
    loaded.unwrap_or_else(|error| panic!("{}\n{}", error.to_text(), imported.text)).spec
}

fn notes(text: &str) -> String {
    let notes = import_topology("net.txt", text.as_bytes(), None, catalog()).unwrap().notes;
    notes.iter().map(|note| note.to_text()).collect::<Vec<_>>().join("\n")
}

fn error(text: &str) -> String {
    error_of(text.as_bytes())
}

fn error_of(bytes: &[u8]) -> String {
    let error = import_topology("net.txt", bytes, None, catalog()).map(|imported| imported.text).expect_err("the file is wrong");
    assert!(error.faults().len() == 1 && error.to_text().contains("\n  help: "), "{}", error.to_text());
    error.to_text()
}

fn assert_round_trip(name: &str, spec: &FabricSpec) {
    for format in FORMATS {
        let exported = export_topology(spec, format).unwrap();
        let again = import(&exported.text);
        assert_eq!(graph(&again), graph(spec), "{name}, {format}");
        assert_eq!(export_topology(&again, format).unwrap().text, exported.text, "{name}, {format}: LIDs and order are as before");
    }
}

#[test]
fn every_fabric_survives_an_export_and_an_import() {
    let mut count = 0;
    for path in common::fabric_paths() {
        let name = path.display().to_string();
        let options = LoadOptions { allow_out_of_spec: true };
        let spec = load_fabric(&path, catalog(), &options).unwrap_or_else(|error| panic!("{}", error.to_text())).spec;
        if spec.has_ethernet() {
            continue;
        }
        assert_round_trip(&name, &spec);
        count += 1;
    }
    assert!(count > 20, "{count} fabrics");
}

#[test]
fn generated_fabrics_survive_an_export_and_an_import() {
    let kinds = [
        "kind = \"back-to-back\"",
        "kind = \"star\"\nhosts = 36",
        "kind = \"fat-tree\"\nports = 8\nlevels = 3",
        "kind = \"torus\"\ndimensions = [3, 4, 2]",
        "kind = \"hypercube\"\ndimension = 4",
        "kind = \"dragonfly\"\nhosts_per_switch = 2\nglobal_links = 2\nswitches_per_group = 4\ngroups = 9",
    ];
    for kind in kinds {
        let switch = if kind.contains("back") { "" } else { "switch = \"quantum\"\n" };
        let text = format!(
            "[generate]\n{kind}\nhost = \"epyc-7003\"\nhca = \"connectx6\"\nhost_cable = \"copper-4x\"\nhost_cable_length = \"1 m\"\n{switch}"
        );
        let spec = parse_fabric("test.toml", &text, catalog(), &LoadOptions::default()).unwrap().spec;
        assert_round_trip(kind, &spec);
    }
}

#[test]
fn ethernet_is_no_subnet() {
    let spec = load_fabric(&common::root().join("fabrics/roce-100g.toml"), catalog(), &LoadOptions::default()).unwrap().spec;
    assert!(spec.hosts[0].hcas[0].link_layer == LinkLayer::Ethernet);
    assert!(export_topology(&spec, TopologyFormat::Ibsim).unwrap_err().contains("describes InfiniBand subnets\n  help: "));
}

#[test]
fn lids_are_those_of_the_built_in_subnet_manager() {
    let spec = load_fabric(&common::root().join("fabrics/fat-tree-16.toml"), catalog(), &LoadOptions::default()).unwrap().spec;
    let text = export_topology(&spec, TopologyFormat::Ibnetdiscover).unwrap().text;
    let world = softband_fabric::World::new(&spec, 1);
    let mut count = 0;
    for line in text.lines().filter(|line| line.starts_with("Switch")) {
        let name = line.split('"').nth(3).unwrap();
        let lid = line.split(" lid ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert_eq!(world.name_of_lid(Lid(lid)).unwrap().split('/').next(), Some(name));
        count += 1;
    }
    for line in text.lines().filter(|line| line.contains("\"H-") && line.starts_with('[')) {
        let name = line.split('"').nth(3).unwrap().replace(' ', "/");
        let lid = line.rsplit(' ').nth(1).unwrap().parse().unwrap();
        assert_eq!(world.name_of_lid(Lid(lid)), Some(format!("{name}/1")));
        count += 1;
    }
    assert_eq!(count, spec.switches.len() + spec.hosts.len());
}

#[test]
fn the_output_of_debians_ibnetdiscover_is_read() {
    let spec = import(DUMP);
    assert_eq!((spec.hosts.len(), spec.switches.len(), spec.cables.len()), (2, 2, 6));
    assert_eq!(spec.hosts[0].hcas[0].part.ports, 2);
    assert!(spec.switches.iter().all(|switch| switch.part.ports == 8));
    assert!(spec.cables.iter().all(|cable| cable.rate.to_string() == "4X SDR"));
    assert_eq!(graph(&import(NET)).len(), graph(&spec).len());
}

#[test]
fn a_dump_from_the_field_becomes_a_fabric_with_notes() {
    let spec = import(FIELD);
    let names: Vec<&str> = spec.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["node01", "node02", "MT4099-ConnectX3-Mellanox-Technologies", "MT4099-ConnectX3-Mellanox-Technologies-2", "storage"]);
    let devices = |host: usize| spec.hosts[host].hcas.iter().map(|hca| format!("{} {}", hca.device, hca.part.name)).collect::<Vec<_>>();
    assert_eq!(devices(0), ["mlx4_0 connectx3"]);
    assert_eq!(devices(1), ["mlx5_0 connectx5", "mlx5_1 connectx5"]);
    assert_eq!(devices(4), ["mlx4_0 connectx3-with-2-ports"]);
    let switches: Vec<String> = spec.switches.iter().map(|switch| format!("{} {} {}", switch.name, switch.part.name, switch.part.ports)).collect();
    assert_eq!(switches, ["MF0-core-MSX6036F-U1 switchx 36", "SwitchIB-Mellanox-Technologies switch-ib-with-37-ports 37"]);
    let rates: BTreeSet<String> = spec.cables.iter().map(|cable| cable.rate.to_string()).collect();
    assert_eq!(rates.into_iter().collect::<Vec<_>>(), ["1X EDR", "1X SDR", "4X EDR", "4X FDR", "4X FDR10", "4X QDR"]);
    let notes = notes(FIELD);
    for part in ["a router is left out", "aggregation node", "6 nodes have another name", "it is part `connectx3` (1 port,"] {
        assert!(notes.contains(part), "{part} in {notes}");
    }
}

#[test]
fn a_line_without_quotes_or_a_rate_is_read() {
    let text = "Switch 8 S-0000000000000001 # old switch base port 0 lid 7 lmc 0\n[1] H-0000000000000002[1] # my host lid 3\n\n\
                Ca 1 H-0000000000000002 # my host HCA-1\n[1](3) S-0000000000000001[1] # lid 3 lmc 0 old switch lid 7\n";
    let spec = import(text);
    assert_eq!((spec.hosts[0].name.as_str(), spec.switches[0].name.as_str()), ("my-host", "old-switch"));
    assert!(notes(text).contains("net.txt:5:1: note: links without a rate in the file are 4X SDR"), "{}", notes(text));
}

#[test]
fn options_of_ibsim_set_the_rate() {
    let net = |a: &str, b: &str| format!("width=8\nSwitch 4 \"s\"\n[1] \"h\" {a}\n\nhcaguids=0x10\nHca 1 \"h\"\n[1] \"s\"[1] {b}\n");
    let rate = |a: &str, b: &str| import(&net(a, b)).cables[0].rate.to_string();
    assert_eq!(rate("", ""), "12X SDR");
    assert_eq!(rate("w=3 s=7", "w=11 s=3 e=1"), "4X DDR");
    assert_eq!(rate("w=2 s=7 e=7", "w=2 s=0 e=3"), "4X EDR");
    assert_eq!(rate("# lid 1 4xFDR10", "# \"e=3\" lid 1 4xFDR"), "4X FDR10");
    assert!(error(&net("w=2", "")).starts_with("net.txt:7:1: error: both ends of a cable have no width or speed in common"));
    assert!(error(&net("w=32", "")).starts_with("net.txt:3:1: error: `w=32` is no set of link widths"));
    assert_eq!(import(&net("", "")).hosts[0].hcas[0].node_guid.0, 0x10);
}

#[test]
fn consecutive_guids_of_one_card_are_kept() {
    let spec = import(FIELD);
    let guids: Vec<u64> = spec.hosts[1].hcas.iter().map(|hca| hca.node_guid.0).collect();
    assert_eq!(guids, [0xb859_9f03_00c3_cd4a, 0xb859_9f03_00c3_cd4b]);
}

/// Returns the dump with a change in one line.
fn changed(from: &str, to: &str) -> String {
    assert!(DUMP.contains(from), "{from}");
    DUMP.replacen(from, to, 1)
}

#[test]
fn a_mistake_has_its_line_and_a_remedy() {
    let cases = [
        (changed("[2]\t\"H-0000000000100003\"[2]", "[1]\t\"H-0000000000100003\"[2]"), "12:1: error: port 1 of `Switch2` is cabled twice"),
        (
            changed("[5]\t\"S-0000000000200000\"[5]", "[5]\t\"S-0000000000200009\"[5]"),
            "14:1: error: a cable leads to `S-0000000000200009`, and the file has no such node",
        ),
        (
            changed("[5]\t\"S-0000000000200000\"[5]", "[5]\t\"S-0000000000200000\"[4]"),
            "14:1: error: a cable leads to port 4 of `Switch1`, whose record has no such line",
        ),
        (
            changed("[5]\t\"S-0000000000200000\"[5]", "[5]\t\"S-0000000000200000\"[9]"),
            "14:1: error: a cable leads to port 9 of `Switch1`, which it does not have",
        ),
        (changed("[5]\t\"S-0000000000200000\"[5]", "[5]\t\"S-0000000000200001\"[5]"), "14:1: error: a cable leads from a port to itself"),
        (
            changed("[5]\t\"S-0000000000200000\"[5]", "[5]\t\"S-0000000000200000\"[3]"),
            "14:1: error: both ends of a cable contradict each other: port 3 of `Switch1` leads elsewhere",
        ),
        (changed("[5]\t\"S-0000000000200000\"[5]", "[0]\t\"S-0000000000200000\"[5]"), "14:1: error: there is no port `0`"),
        (changed("[5]\t\"S-0000000000200000\"[5]", "[9]\t\"S-0000000000200000\"[5]"), "14:1: error: there is no port `9`"),
        (changed("[5]\t\"S-0000000000200000\"[5]", "[5]\t\"S-000000000020"), "14:1: error: this is not a port with its cable"),
        (changed("4xSDR", "4xDDR"), "error: both ends of a cable contradict each other: 4xSDR and 4xDDR"),
        (changed("4xSDR", "4x???"), "11:1: error: `4x???` is no width and speed of a link"),
        (changed("4xSDR", "5xSDR"), "11:1: error: `5xSDR` is no width and speed of a link"),
        (
            changed("switchguid=0x200001", "switchguid=0x200000"),
            "10:1: error: the node is called `S-0000000000200001`, and the line before gives it the GUID",
        ),
        (changed("switchguid=0x200001", "switchguid=zero"), "9:1: error: `switchguid` has no number"),
        (changed("Switch\t8", "Switch\t255"), "10:1: error: a node with 255 ports cannot be"),
        (changed("Switch\t8", "Switch\t99999999999"), "10:1: error: a node needs its number of ports and its name"),
        (changed("\n[1]\t", "\n\n[1]\t"), "12:1: error: a port stands outside of the record of a node"),
        (
            changed("Switch\t8 \"S-0000000000200001\"", "Switch\t8 \"S-0000000000200000\"").replace("switchguid=0x200001", "x=1"),
            "20:1: error: two nodes are called",
        ),
        ("Switch 8 \"a\"\n\nCa 1 \"a\"\n".into(), "3:1: error: two nodes are called `a`"),
        ("caguid=0x5\nCa 1 \"a\"\n\ncaguid=0x5\nCa 1 \"b\"\n".into(), "5:1: error: two nodes have the GUID 0x0000000000000005"),
        ("Switch 8 \"a\"\n".into(), "1:1: error: the topology has no HCA"),
        ("Switch 8 \"a\"\ninclude \"b\"\n".into(), "2:1: error: `include` of another file is not supported"),
        ("Hca 1 \"a\"\n@[1] \"b\"\n".into(), "2:1: error: an alias of a port (`@`) is not supported"),
        ("[hosts.a]\npart = \"x\"\n".into(), "1:1: error: neither the output of ibnetdiscover nor a net file of ibsim"),
        (String::new(), "1:1: error: neither the output"),
    ];
    for (text, expected) in cases {
        let error = error(&text);
        assert!(error.contains(expected), "{expected} in {error}");
    }
}

#[test]
fn what_is_no_text_is_refused_by_its_line() {
    let long = [DUMP.as_bytes(), &vec![b'x'; 1 << 20]].concat();
    let lines = DUMP.lines().count() + 1;
    assert!(error_of(&long).starts_with(&format!("net.txt:{lines}:1: error: a line has 1048576 bytes")), "{}", error_of(&long));
    let binary = [DUMP.as_bytes(), b"\x7fELF\0\x01"].concat();
    assert!(error_of(&binary).starts_with(&format!("net.txt:{lines}:1: error: the file is not text")), "{}", error_of(&binary));
    assert!(error_of(&[0x1f, 0x8b, 8]).contains("compressed"));
    // Descriptions can have any encoding.
    let latin = DUMP.replace("Switch2", "Switch@").into_bytes();
    let latin: Vec<u8> = latin.into_iter().map(|byte| if byte == b'@' { 0xfc } else { byte }).collect();
    assert!(import_topology("net.txt", &latin, None, catalog()).unwrap().text.contains("[switches.Switch]"));
}

#[test]
fn a_file_that_is_cut_off_is_refused_or_has_all_its_nodes() {
    let whole = graph(&import(DUMP));
    for end in (0..DUMP.len()).filter(|end| DUMP.is_char_boundary(*end)) {
        match import_topology("net.txt", &DUMP.as_bytes()[..end], None, catalog()) {
            Ok(imported) => {
                let spec = parse_fabric("net.toml", &imported.text, catalog(), &LoadOptions::default()).unwrap().spec;
                assert_eq!(graph(&spec), whole, "cut off after {end} bytes");
            }
            Err(error) => assert!(error.faults().len() == 1 && error.faults()[0].help_text().is_some(), "{}", error.to_text()),
        }
    }
}

#[test]
fn hcas_and_switches_without_a_similar_part_get_a_part_of_their_own() {
    let text = "Switch 200 \"s\"\n[1] \"h\"[7] # \"\" lid 1 8xXDR\n[2] \"g\" # \"\" lid 1 12xFDR10\n\n\
                Hca 9 \"h\"\n[7] \"s\"[1] # lid 1 lmc 0 \"\" lid 1 8xXDR\n\nHca 1 \"g\"\n[1] \"s\"[2] # lid 1 lmc 0 \"\" lid 1 12xFDR10\n";
    let spec = import(text);
    assert_eq!((spec.switches[0].part.ports, spec.hosts[0].hcas[0].part.ports), (200, 9));
    assert_eq!(spec.cables.iter().map(|cable| cable.rate.to_string()).collect::<Vec<_>>(), ["8X XDR", "12X FDR10"]);
}

#[test]
fn a_host_can_have_cards_for_two_kinds_of_slots() {
    for (first, second) in [("0x1017", "0x5a44"), ("0x5a44", "0x1017")] {
        let text = format!("devid={first}\nHca 1 \"a hca0\"\n[1] \"a hca1\"\n\ndevid={second}\nHca 2 \"a hca1\"\n[1] \"a hca0\"\n");
        let spec = import(&text);
        assert_eq!((spec.hosts.len(), spec.hosts[0].hcas.len(), spec.cables.len()), (1, 2, 1));
    }
}

#[test]
fn modules_of_ibsim_have_names_of_their_own() {
    let text = "module \"m1\"\nHca 1 \"h\"\n[1] \"s\"[1]\n\nSwitch 2 \"s\"\n[1] \"h\"\n[2] \"m2#s\"[2]\n\n\
                module \"m2\"\nHca 1 \"h\"\n[1] \"s\"[1]\n\nSwitch 2 \"s\"\n[1] \"h\"\n[2] \"m1#s\"[2]\n";
    let spec = import(text);
    assert_eq!((spec.hosts.len(), spec.switches.len(), spec.cables.len()), (2, 2, 3));
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_mutated_topology_loads_or_has_an_error(which in 0..3usize, at in any::<prop::sample::Index>(), len in 0..40usize, piece in "[ -~\n\t]{0,12}") {
        let text = [DUMP, NET, FIELD][which];
        let at = at.index(text.len());
        let mut bytes = text.as_bytes().to_vec();
        bytes.splice(at..(at + len).min(text.len()), piece.into_bytes());
        for format in [None, Some(FORMATS[0]), Some(FORMATS[1])] {
            match import_topology("net.txt", &bytes, format, catalog()) {
                Ok(imported) => prop_assert!(parse_fabric("net.toml", &imported.text, catalog(), &LoadOptions::default()).is_ok()),
                Err(error) => prop_assert!(!error.to_text().is_empty()),
            }
        }
    }
}
