//! Generated fabrics are complete, have no credit loops, and equal their written-out form.

use crate::common;

use crate::common::{catalog, error_of};
use softband_catalog::{LoadOptions, LoadedFabric, UsualParts, expand, parse_fabric};
use softband_model::management::{Neighbour, Routes, Routing};
use softband_spec::FabricSpec;
use softband_spec::LoopRemedy;
use softband_types::OperationalVls;
use std::collections::BTreeSet;

const PARTS: &str = "host = \"qdr-host\"\nhca = \"connectx2-qdr\"\nhost_cable = \"copper-4x\"\nhost_cable_length = \"1 m\"\n";
const SWITCH: &str = "switch = \"infiniscale-iv\"\n";

fn text(keys: &str) -> String {
    format!("[generate]\n{keys}\n{PARTS}{}", if keys.contains("back-to-back") { "" } else { SWITCH })
}

fn load(text: &str) -> LoadedFabric {
    parse_fabric("test.toml", text, &catalog(), &LoadOptions::default()).unwrap_or_else(|error| panic!("{text}: {}", error.to_text()))
}

/// Calls `visit` with each pair of different hosts, as indices among all end ports, and the switch
/// ports on their route.
fn for_each_way(spec: &FabricSpec, mut visit: impl FnMut(usize, usize, &[(usize, u8)])) {
    let neighbours = softband_spec::neighbours(spec);
    let routes = Routes::new(spec.subnet.routing, &neighbours).unwrap();
    let is_end = |port: &&Neighbour| matches!(port, Neighbour::End(_));
    let leaves: Vec<usize> = neighbours.iter().enumerate().flat_map(|(switch, ports)| ports.iter().filter(is_end).map(move |_| switch)).collect();
    let mut destination = 0;
    routes.for_each_end(&neighbours, |home, _, output| {
        for (source, leaf) in leaves.iter().enumerate().filter(|(source, _)| *source != destination) {
            let (mut at, mut way) = (*leaf, Vec::new());
            while at != home {
                let output = output(at, 0).unwrap_or_else(|| panic!("no way from host {source} to {destination}"));
                way.push((at, output));
                assert!(way.len() <= neighbours.len(), "from host {source} to {destination} it goes round");
                let Neighbour::Switch(next) = neighbours[at][usize::from(output)] else { panic!("a way leads into nothing") };
                at = next;
            }
            visit(source, destination, &way);
        }
        destination += 1;
    });
    assert_eq!(destination, if spec.switches.is_empty() { 0 } else { spec.hosts.len() });
}

fn kinds() -> Vec<String> {
    let mut kinds: Vec<String> = vec!["kind = \"back-to-back\"".into(), "kind = \"star\"\nhosts = 5".into(), "kind = \"star\"".into()];
    for (ports, hosts) in [(2, 2), (4, 1), (4, 5), (4, 8), (6, 17), (8, 3), (8, 32), (12, 30), (36, 100)] {
        kinds.push(format!("kind = \"fat-tree\"\nports = {ports}\nhosts = {hosts}"));
    }
    for (ports, hosts) in [(4, 2), (4, 7), (4, 16), (6, 20), (6, 54), (8, 60), (8, 128)] {
        kinds.push(format!("kind = \"fat-tree\"\nlevels = 3\nports = {ports}\nhosts = {hosts}"));
    }
    for (ports, over) in [(6, 2), (8, 3), (9 * 4, 5)] {
        kinds.push(format!(
            "kind = \"fat-tree\"\nports = {ports}\noversubscription = {over}\nhosts = 40\nlevels = {}",
            if ports == 36 { 2 } else { 3 }
        ));
    }
    for (ports, over, levels) in
        [(3, "1", 3), (7, "1", 2), (7, "1", 3), (9, "1", 3), (15, "1.5", 2), (15, "2", 3), (8, "2", 2), (8, "2", 3), (9, "2.5", 3)]
    {
        kinds.push(format!("kind = \"fat-tree\"\nports = {ports}\noversubscription = {over}\nlevels = {levels}"));
    }
    for (over, levels, hosts) in [("1.5", 2, 100), ("1.5", 3, 200), ("35", 2, 80)] {
        kinds.push(format!("kind = \"fat-tree\"\noversubscription = {over}\nlevels = {levels}\nhosts = {hosts}"));
    }
    for sides in ["[2, 2]", "[3, 2]", "[3, 3]", "[4, 5]", "[5, 5]", "[2, 2, 2]", "[3, 4, 5]", "[4, 4, 4]", "[2, 6, 3]"] {
        kinds.push(format!("kind = \"torus\"\ndimensions = {sides}\nhosts_per_switch = 2"));
    }
    kinds.extend((1..=6).map(|dimension| format!("kind = \"hypercube\"\ndimension = {dimension}\nhosts_per_switch = 2")));
    for (hosts, more) in
        [(1, ""), (2, ""), (2, "groups = 4"), (3, "groups = 7"), (2, "groups = 2"), (1, "switches_per_group = 4\nglobal_links = 3\ngroups = 5")]
    {
        kinds.push(format!("kind = \"dragonfly\"\nhosts_per_switch = {hosts}\n{more}"));
    }
    kinds
}

#[test]
fn every_host_reaches_every_other_and_no_credits_are_waited_for_in_a_cycle() {
    for kind in kinds() {
        let spec = load(&text(&kind)).spec;
        let mut ways = 0;
        for_each_way(&spec, |_, _, _| ways += 1);
        let hosts = spec.hosts.len();
        assert_eq!(ways, if spec.switches.is_empty() { 0 } else { hosts * (hosts - 1) }, "{kind}");
        assert_eq!(softband_spec::credit_loops(&spec), [], "{kind}");
    }
}

#[test]
fn two_lanes_are_enough_for_tori_and_dragonflies() {
    for kind in ["kind = \"torus\"\ndimensions = [5, 6]", "kind = \"dragonfly\"\nhosts_per_switch = 2"] {
        let spec = load(&format!("{}[subnet]\nmax_op_vls = 2\n", text(kind))).spec;
        assert_eq!(softband_spec::credit_loops(&spec), [], "{kind}");
        let spec = load(&format!("{}[subnet]\nmax_op_vls = 1\n", text(kind))).spec;
        assert_ne!(softband_spec::credit_loops(&spec), [], "{kind}");
        let spec = load(&format!("{}[subnet]\nmax_op_vls = 1\nrouting = \"up-down\"\n", text(kind))).spec;
        assert_eq!((spec.subnet.routing, softband_spec::credit_loops(&spec)), (Routing::UpDown, vec![]), "{kind}");
    }
}

#[test]
fn what_is_said_to_help_against_loops_does() {
    let remedy = |of: &str, subnet: &str| {
        let spec = load(&format!("{of}[subnet]\n{subnet}")).spec;
        assert_ne!(softband_spec::credit_loops(&spec), [], "{of}{subnet}");
        softband_spec::loop_remedy(&spec)
    };
    let enough = |code| LoopRemedy::Lanes(OperationalVls::from_code(code).unwrap());
    let torus = text("kind = \"torus\"\ndimensions = [5, 6]");
    assert_eq!(remedy(&torus, "routing = \"dor\""), LoopRemedy::Routing(Routing::Torus));
    // With one lane, `torus` routing would have loops as well.
    assert_eq!(remedy(&torus, "routing = \"dor\"\nmax_op_vls = 1"), LoopRemedy::Order);
    assert_eq!(remedy(&torus, "max_op_vls = 1"), enough(2));
    let dragonfly = text("kind = \"dragonfly\"\nhosts_per_switch = 2");
    assert_eq!(remedy(&dragonfly, "max_op_vls = 1"), enough(2));
    assert_eq!(remedy(&dragonfly, "routing = \"dor\""), LoopRemedy::Order);
    assert_eq!(remedy(&torus, "routing = \"minhop\""), LoopRemedy::Cables);
}

#[test]
fn written_out_it_is_the_same_fabric() {
    for kind in kinds() {
        let short = text(&kind);
        let long = expand("test.toml", &short, &catalog()).unwrap();
        assert!(!long.contains("[generate]"), "{kind}");
        assert_eq!(load(&short).spec, load(&long).spec, "{kind}");
    }
}

#[test]
fn a_shift_of_all_hosts_puts_no_two_flows_on_one_link_of_a_full_fat_tree() {
    for keys in [
        "ports = 8\nhosts = 32",
        "ports = 8\nhosts = 16",
        "ports = 12\nhosts = 12",
        "ports = 8\nlevels = 3\nhosts = 128",
        "ports = 8\nlevels = 3\nhosts = 64",
    ] {
        let spec = load(&text(&format!("kind = \"fat-tree\"\n{keys}"))).spec;
        let hosts = spec.hosts.len();
        let mut taken: Vec<BTreeSet<(usize, u8)>> = vec![BTreeSet::new(); hosts];
        for_each_way(&spec, |source, destination, way| {
            let shift = (destination + hosts - source) % hosts;
            for port in way {
                assert!(taken[shift].insert(*port), "{keys}: by a shift of {shift} two flows leave switch {} by port {}", port.0, port.1 + 1);
            }
        });
    }
}

/// Returns the numbers of hosts and spines of a leaf in a fabric of two leaves.
fn leaf_of(ports: usize, over: &str) -> (usize, usize) {
    let spec = load(&text(&format!("kind = \"fat-tree\"\nports = {ports}\noversubscription = {over}\nlevels = 2"))).spec;
    let ends = |port: &&Neighbour| matches!(port, Neighbour::End(_));
    let leaf = &softband_spec::neighbours(&spec)[0];
    (leaf.iter().filter(ends).count(), leaf.iter().filter(|port| matches!(port, Neighbour::Switch(_))).count())
}

#[test]
fn a_leaf_has_as_many_hosts_as_the_oversubscription_allows_and_no_more_ways_up_than_they_need() {
    for (ports, over, wanted) in [
        (8, "1", (4, 4)),
        (36, "2", (24, 12)),
        (36, "2.0", (24, 12)),
        (36, "5", (30, 6)),
        (7, "1", (3, 3)),
        (3, "1", (1, 1)),
        (8, "2", (5, 3)),
        (36, "1.5", (21, 14)),
        (36, "4", (28, 7)),
        (21, "1.1", (11, 10)),
        (36, "35", (35, 1)),
        (36, "1e300", (35, 1)),
    ] {
        assert_eq!(leaf_of(ports, over), wanted, "{ports} ports at {over}");
    }
}

#[test]
fn parts_that_are_not_named_are_the_usual_ones() {
    let default = std::fs::read_to_string(common::root().join("fabrics/default.toml")).unwrap();
    let default = load(&default).spec;
    let bare = "[generate]\nkind = \"fat-tree\"\nports = 8\nlevels = 2\n";
    let error = error_of(bare);
    assert!(error.contains("`[generate]` needs `host`") && error.contains("needs `switch`"), "{error}");
    let mut catalog = catalog();
    catalog.set_usual_parts(UsualParts::of(&default));
    let read = |text: &str| parse_fabric("test.toml", text, &catalog, &LoadOptions::default());
    let spec = read(bare).unwrap_or_else(|error| panic!("{}", error.to_text())).spec;
    assert_eq!((spec.hosts.len(), &spec.hosts[31].part), (32, &default.hosts[0].part));
    let [hca, wanted] = [&spec.hosts[31], &default.hosts[0]].map(|host| &host.hcas[0]);
    assert_eq!((&hca.part, &hca.device), (&wanted.part, &wanted.device));
    assert_eq!((&spec.switches[0].part, &spec.cables[0].part), (&default.switches[0].part, &default.cables[0].part));
    let own = read(&format!("{bare}{PARTS}{SWITCH}")).unwrap_or_else(|error| panic!("{}", error.to_text())).spec;
    assert_eq!((own.hosts[0].part.name.as_str(), own.hosts[0].hcas[0].device.as_str()), ("qdr-host", "mlx4_0"));
    assert!(expand("test.toml", bare, &catalog).unwrap().contains("[hosts.h31]"));
    assert_eq!(read("[generate]\nkind = \"back-to-back\"").map(|loaded| loaded.spec.hosts.len()).ok(), Some(2));
}

#[test]
fn a_thousand_hosts_in_three_levels_are_320_switches() {
    let spec = load(&text("kind = \"fat-tree\"\nports = 16\nlevels = 3")).spec;
    assert_eq!((spec.hosts.len(), spec.switches.len(), spec.cables.len()), (1_024, 320, 3 * 1_024));
    let world = softband_fabric::World::new(&spec, 1);
    assert_eq!((world.hca_id(0, 0).0, world.hca_id(1_023, 0).0), (0, 1_023));
    assert_eq!((spec.hosts[1_023].name.as_str(), spec.hosts[0].hcas[0].device.as_str()), ("h1023", "mlx4_0"));
    assert_eq!(softband_spec::credit_loops(&spec), []);
}

#[test]
fn what_cannot_be_is_refused_with_what_would_be_right() {
    let of = |keys: &str| error_of(&text(keys));
    for (keys, message) in [
        ("kind = \"fattree\"", "2:8: error: no kind of fabric `fattree`\n  help: did you mean `fat-tree`?"),
        ("kind = \"star\"\nhosts = 37", "3:9: error: 37 hosts do not fit on a switch of 36 ports\n  help: write at most 36"),
        ("kind = \"fat-tree\"\nlevels = 2\nhosts = 649", "4:9: error: 649 hosts do not fit in a fat tree of 2 levels with 36 ports"),
        ("kind = \"fat-tree\"\nports = 1", "3:9: error: a fat tree cannot use 1 port of each switch\n  help: one port leads down and one up"),
        ("kind = \"fat-tree\"\nports = 40", "3:9: error: the switch has 36 ports, not 40"),
        ("kind = \"fat-tree\"\nports = 40\nhosts = 3\nlevels = 2\noversubscription = 2", "3:9: error: the switch has 36 ports, not 40"),
        ("kind = \"fat-tree\"\noversubscription = 0.5", "3:20: error: `oversubscription` cannot be 0.5\n  help: write how many"),
        ("kind = \"fat-tree\"\noversubscription = inf", "3:20: error: `oversubscription` cannot be inf"),
        ("kind = \"fat-tree\"\noversubscription = \"2\"", "3:20: error: `oversubscription` must be a number such as 2 or 1.5"),
        ("kind = \"fat-tree\"\nlevels = 4", "3:10: error: a fat tree cannot have 4 levels here"),
        ("kind = \"fat-tree\"\nhosts = 0", "3:9: error: `hosts` cannot be 0"),
        ("kind = \"torus\"\ndimensions = [4, 1]", "3:18: error: a dimension of a torus is at least 2 switches long"),
        ("kind = \"torus\"\ndimensions = [4]", "3:14: error: a torus cannot have 1 dimension here"),
        ("kind = \"torus\"", "1:2: error: `[generate]` needs `dimensions`\n  help: write `dimensions = [4, 4]`"),
        (
            "kind = \"torus\"\ndimensions = [4, 4]\nhosts_per_switch = 33",
            "4:20: error: 33 ports to hosts and 4 to switches do not fit on a switch of 36 ports",
        ),
        (
            "kind = \"torus\"\ndimensions = [40, 40, 40]",
            "3:14: error: 64000 hosts and their switches do not fit in a subnet\n  help: a subnet has 49151 LIDs",
        ),
        (
            "kind = \"torus\"\ndimensions = [4294967295, 4294967295, 4294967295]",
            "3:14: error: so many hosts and their switches do not fit in a subnet",
        ),
        ("kind = \"hypercube\"\ndimension = 15\nhosts_per_switch = 2", "3:13: error: 65536 hosts and their switches do not fit in a subnet"),
        ("kind = \"hypercube\"\ndimension = 16", "3:13: error: a hypercube of dimension 16 is too large"),
        ("kind = \"dragonfly\"\nhosts_per_switch = 2\ngroups = 10", "4:10: error: 10 groups need 9 links from each to the others, and a group has 8"),
        ("kind = \"star\"\nlevels = 2", "3:1: error: `[generate]` has no key `levels`"),
        ("kind = \"star\"\nhosts = \"four\"", "3:9: error: `hosts` must be a whole number"),
        ("kind = \"back-to-back\"\nhosts = 3", "3:9: error: 3 hosts are not back to back"),
        ("hosts = 3", "1:2: error: `[generate]` needs `kind`"),
    ] {
        let error = of(keys);
        assert!(error.starts_with(&format!("test.toml:{message}")), "{keys}: {error}");
        assert_eq!(error.matches("error:").count(), 1, "{error}");
    }
}

#[test]
fn a_wrong_part_is_told_once_however_many_hosts_there_are() {
    let error = error_of(&text("kind = \"star\"").replace("connectx2-qdr", "connectx-qdr"));
    assert!(error.starts_with("test.toml:4:7: error: no hca part `connectx-qdr`") && error.matches("error:").count() == 1, "{error}");
    let error = error_of(&text("kind = \"fat-tree\"").replace("1 m", "500 m"));
    assert!(error.starts_with("test.toml:6:21: error: copper at 4X QDR") && error.matches("error:").count() == 1, "{error}");
}

#[test]
fn hosts_beside_the_generated_ones_and_routing_for_another_form_are_refused() {
    let error = error_of(&format!("{}[hosts.a]\npart = \"qdr-host\"\n", text("kind = \"star\"")));
    assert!(error.contains("error: `hosts` stands beside `[generate]`, which makes all hosts, switches and cables"), "{error}");
    let error = error_of(&format!("{}[subnet]\nrouting = \"fat-tree\"\n", text("kind = \"torus\"\ndimensions = [4, 4]")));
    assert!(error.contains("error: routing `fat-tree` cannot work here: switch `s-0-0` has a cable to another switch of its own level"), "{error}");
    let error = error_of(&format!("{}[subnet]\nrouting = \"fattree\"\n", text("kind = \"star\"")));
    assert!(error.contains("error: no routing engine `fattree`\n  help: did you mean `fat-tree`?"), "{error}");
}
