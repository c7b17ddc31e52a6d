//! A manager that works by packets leaves the same subnet as the construction before time zero.

use crate::snapshot::{Snapshot, snapshot};
use crate::sweeper::{Sweeper, hca_ports};
use softband_catalog::{Catalog, LoadOptions, parse_fabric};
use softband_fabric::World;
use softband_model::management::agent::LinkState;
use softband_spec::{FabricSpec, PortRef, manager_configuration};
use softband_types::*;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn catalog() -> Catalog {
    Catalog::load(&root().join("catalog")).unwrap_or_else(|error| panic!("{}", error.to_text()))
}

fn parse(catalog: &Catalog, name: &str, text: &str) -> FabricSpec {
    parse_fabric(name, text, catalog, &LoadOptions::default()).unwrap_or_else(|error| panic!("{}", error.to_text())).spec
}

/// Reads a fabric. `[generate]` gets the parts that it needs.
pub(crate) fn generated(text: &str) -> FabricSpec {
    let parts = "[generate]\nhost = \"qdr-host\"\nhca = \"connectx2-qdr\"\nhost_cable = \"copper-4x\"\nhost_cable_length = \"1 m\"\n\
                 switch = \"infiniscale-iv\"";
    parse(&catalog(), "test.toml", &text.replace("[generate]", parts))
}

/// Returns the lines in which two snapshots differ.
fn differences(built: &Snapshot, swept: &Snapshot) -> Vec<String> {
    let places: std::collections::BTreeSet<&String> = built.keys().chain(swept.keys()).collect();
    let line = |place: &&String| format!("{place}:\n  {:02x?}\n  {:02x?}", built.get(*place), swept.get(*place));
    places.iter().filter(|place| built.get(**place) != swept.get(**place)).map(line).collect()
}

/// Checks that construction and manager leave the same state. Returns the number of attributes.
pub(crate) fn assert_equal(name: &str, spec: &FabricSpec) -> usize {
    let mut spec = spec.clone();
    spec.faults.clear();
    let mut built = World::new(&spec, 1);
    let mut sweeper = Sweeper::new(&spec);
    sweeper.sweep();
    assert_eq!(sweeper.manager.problems(), [], "{name}");
    for port in hca_ports(&spec) {
        let PortRef::Hca { host, hca, port: number } = port else { continue };
        let id = built.hca_id(host, hca);
        let state = |world: &World| {
            let port = world.port(id, number).unwrap();
            (port.state, port.active, port.lid, port.sm_lid, port.mtu_active, port.gids, port.rate)
        };
        assert_eq!(state(&built), state(&sweeper.world), "{name}: {}", spec.port_name(port));
        assert_eq!(built.pkeys(id), sweeper.world.pkeys(id), "{name}: {}", spec.port_name(port));
    }
    let first = snapshot(&spec, &mut built, 0);
    let second = snapshot(&spec, &mut sweeper.world, 0);
    let differences = differences(&first, &second);
    assert!(
        differences.is_empty(),
        "{name}: {} of {} differ\n{}",
        differences.len(),
        first.len(),
        differences[..differences.len().min(8)].join("\n")
    );
    first.len()
}

fn fabric_files() -> Vec<PathBuf> {
    let mut folders = vec![root().join("fabrics")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "toml") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

#[test]
fn the_fabrics_of_the_repository_are_equal() {
    let catalog = catalog();
    let mut checked = 0;
    for path in fabric_files() {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let spec = parse(&catalog, &name, &std::fs::read_to_string(&path).unwrap());
        if spec.has_ethernet() {
            continue;
        }
        assert_eq!(manager_configuration(&spec).order, [], "{name}: GUIDs ascend in the order of the file");
        assert_equal(&name, &spec);
        checked += 1;
    }
    assert!(checked > 50, "{checked} fabrics");
}

#[test]
fn generated_fabrics_are_equal_with_each_routing_engine() {
    let forms = [
        ("fat tree", "kind = \"fat-tree\"\nhosts = 24\nports = 8\nlevels = 3", &["fat-tree", "minimum-hop", "up-down"][..]),
        ("torus", "kind = \"torus\"\ndimensions = [3, 4, 2]", &["torus", "minimum-hop", "up-down"]),
        ("hypercube", "kind = \"hypercube\"\ndimension = 3\nhosts_per_switch = 2", &["dimension-order"]),
        ("dragonfly", "kind = \"dragonfly\"\nhosts_per_switch = 2\nglobal_links = 2\nswitches_per_group = 4\ngroups = 5", &["dragonfly"]),
        ("star", "kind = \"star\"\nhosts = 9", &["minimum-hop"]),
    ];
    for (name, form, engines) in forms {
        for engine in engines {
            let spec = generated(&format!("[subnet]\nrouting = \"{engine}\"\n[generate]\n{form}\n"));
            assert_equal(&format!("{name}, {engine}"), &spec);
        }
    }
}

/// Two hosts and a switch of eight lanes.
fn small(settings: &str, of_hca: &str) -> String {
    let host =
        |name: &str| format!("[hosts.{name}]\npart = \"qdr-host\"\n[[hosts.{name}.hcas]]\ndevice = \"mlx4_0\"\npart = \"connectx2-qdr\"\n{of_hca}");
    let cable =
        |name: &str, port: u8| format!("[[cables]]\npart = \"copper-4x\"\nlength = \"1 m\"\nfrom = \"{name}/mlx4_0/1\"\nto = \"sw/{port}\"\n");
    let hosts = host("b") + &host("a");
    format!("[subnet]\n{settings}\n{hosts}[switches.sw]\npart = \"infiniscale-iv\"\n{}{}", cable("a", 3), cable("b", 7))
}

#[test]
fn lanes_weights_and_partitions_are_equal() {
    let settings = [
        "qos = true",
        "qos = true\nmax_op_vls = 2\nqos_vlarb_low = \"0:64,1:192\"\nqos_vlarb_high = \"3:9,0:255\"\nqos_swe_high_limit = 9",
        "max_op_vls = 1",
        "max_op_vls = 3\nmtu = 1024",
    ];
    for settings in settings {
        for of_hca in ["", "pkeys = [0xffff, 0x8005]\n", "pkeys = [0x0007]\n"] {
            assert_equal(settings, &generated(&small(settings, of_hca)));
        }
    }
    let torus = "[subnet]\nqos = true\nrouting = \"torus\"\n[generate]\nkind = \"torus\"\ndimensions = [3, 3]\n";
    assert_equal("torus with weights", &generated(torus));
}

#[test]
fn rails_and_networks_of_their_own_are_equal() {
    let rails = |second: &str| {
        let host = |name: &str| {
            let hca = |device: &str| format!("[[hosts.{name}.hcas]]\ndevice = \"{device}\"\npart = \"connectx2-qdr\"\n");
            format!("[hosts.{name}]\npart = \"qdr-host\"\n{}{}", hca("mlx4_0"), hca("mlx4_1"))
        };
        let cable = |end: &str, to: &str| format!("[[cables]]\npart = \"copper-4x\"\nlength = \"1 m\"\nfrom = \"{end}\"\nto = \"{to}\"\n");
        let cables = ["a", "b", "c"].iter().enumerate().map(|(index, name)| {
            let port = index + 2;
            cable(&format!("{name}/mlx4_0/1"), &format!("one/{port}")) + &cable(&format!("{name}/mlx4_1/2"), &format!("{second}/3{port}"))
        });
        let switches = "[switches.one]\npart = \"infiniscale-iv\"\n[switches.two]\npart = \"infiniscale-iv\"\n";
        format!("{}{}{}{switches}{}", host("a"), host("b"), host("c"), cables.collect::<String>())
    };
    let second = generated(&rails("two"));
    assert_eq!(crate::sweeper::roots(&second).len(), 2, "the rails are apart");
    assert_equal("two networks", &second);
    assert_equal("two rails on a switch", &generated(&rails("one").replace("[switches.two]\npart = \"infiniscale-iv\"\n", "")));
}

#[test]
fn guids_of_the_file_in_any_order_are_equal() {
    let mut spec = generated("[generate]\nkind = \"fat-tree\"\nhosts = 12\nports = 8\n");
    let count = spec.hosts.len() as u64;
    for (index, host) in spec.hosts.iter_mut().enumerate() {
        host.hcas[0].node_guid = Guid(0x1000 + 0x10 * ((5 * index as u64 + 3) % count));
    }
    for (index, switch) in spec.switches.iter_mut().enumerate() {
        switch.node_guid = Guid(0x9000 - 0x10 * index as u64);
    }
    assert!(!manager_configuration(&spec).order.is_empty());
    assert_equal("any GUIDs", &spec);
}

#[test]
fn groups_have_the_same_trees() {
    let spec = generated("[generate]\nkind = \"fat-tree\"\nhosts = 12\nports = 8\n");
    let mut lab = crate::common::Lab::new(&spec);
    let mut sweeper = Sweeper::new(&spec);
    sweeper.sweep();
    for (mlid, hosts) in [(0xC000, &[0, 5, 11][..]), (0xC023, &[3, 4, 7, 8]), (0xC001, &[2])] {
        let mgid = Gid::new(0xFF12_0000_0000_0000, Guid(u64::from(mlid)));
        let mut members = Vec::new();
        for host in hosts {
            let qpn = lab.create(*host, QpType::Ud);
            let hca = lab.world.hca_id(*host, 0);
            lab.world.attach_multicast(ProcessId(*host as u32), hca, qpn, mgid, Lid(mlid)).unwrap();
            members.push((lab.world.node_guid(hca), PortNumber(1)));
        }
        sweeper.manager.set_members(Lid(mlid), members, sweeper.world.now());
        sweeper.run();
    }
    let off_tree = |snapshot: Snapshot| snapshot.into_iter().filter(|(place, _)| place.contains("MFT")).collect::<Snapshot>();
    let (built, swept) = (off_tree(snapshot(&spec, &mut lab.world, 64)), off_tree(snapshot(&spec, &mut sweeper.world, 64)));
    // Switches off the tree: construction leads packets of senders that are no members to the tree.
    let mut trees = 0;
    for (place, masks) in &swept {
        let pairs = masks.chunks(2).zip(built[place].chunks(2));
        for (by_packets, by_construction) in pairs.filter(|(by_packets, _)| **by_packets != [0, 0]) {
            assert_eq!(by_packets, by_construction, "{place}");
            trees += 1;
        }
    }
    assert!(trees > 5, "{trees}");
}

#[test]
fn the_state_before_a_sweep_is_that_of_the_hardware() {
    let spec = generated(&small("qos = true\nmax_op_vls = 2\nmtu = 1024", "pkeys = [0x0007]\n"));
    let mut sweeper = Sweeper::new(&spec);
    let port = |sweeper: &Sweeper| sweeper.world.port(sweeper.world.hca_id(0, 0), PortNumber(1)).unwrap();
    assert_eq!((port(&sweeper).state, port(&sweeper).lid), (Some(LinkState::Init), Lid::NONE));
    assert_eq!(sweeper.world.pkeys(sweeper.world.hca_id(0, 0)), [PKey::DEFAULT_FULL]);
    sweeper.sweep();
    assert_eq!((port(&sweeper).state, port(&sweeper).mtu_active), (Some(LinkState::Active), Mtu::B1024));
    assert_eq!(sweeper.world.pkeys(sweeper.world.hca_id(0, 0)), [PKey(7)]);
}
