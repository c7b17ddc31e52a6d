//! Path MTUs from the description alone, beside those of the World's forwarding tables.

#![allow(clippy::disallowed_methods)]

mod common;

use common::{catalog, fabric_paths};
use softband_catalog::{LoadOptions, load_fabric};
use softband_fabric::World;
use softband_spec::{FabricSpec, PortRef, path_mtu, path_mtu_limit};
use softband_types::{Lmc, Mtu};

/// Returns the cabled ports of HCAs, at most `count` of them, spread over the fabric.
fn ports_of(spec: &FabricSpec, count: usize) -> Vec<PortRef> {
    let ends = spec.cables.iter().flat_map(|cable| cable.ends);
    let ports: Vec<PortRef> = ends.filter(|end| matches!(end, PortRef::Hca { .. })).collect();
    ports.iter().copied().step_by(ports.len().div_ceil(count).max(1)).collect()
}

fn assert_paths_agree(name: &str, spec: &FabricSpec) -> usize {
    let world = World::new(spec, 1);
    let ports = ports_of(spec, 12);
    let id = |port: PortRef| match port {
        PortRef::Hca { host, hca, port } => (world.hca_id(host, hca), port),
        PortRef::Switch { .. } => unreachable!("only ports of HCAs are looked at"),
    };
    let mut routed = 0;
    for from in &ports {
        for to in &ports {
            let expected = world.path_mtu(id(*from), id(*to));
            assert_eq!(path_mtu(spec, *from, *to), expected, "{name}: {} to {}", spec.port_name(*from), spec.port_name(*to));
            routed += usize::from(expected.is_some());
        }
    }
    routed
}

#[test]
fn the_description_and_the_forwarding_tables_give_the_same_path_mtus() {
    let mut limited = 0;
    for path in fabric_paths() {
        let name = path.display().to_string();
        let loaded = load_fabric(&path, &catalog(), &LoadOptions { allow_out_of_spec: true });
        let spec = loaded.unwrap_or_else(|error| panic!("{}", error.to_text())).spec;
        assert!(assert_paths_agree(&name, &spec) > 0, "{name}");
        for switch in 0..spec.switches.len() {
            let mut narrow = spec.clone();
            narrow.switches[switch].part.mtu_max = Mtu::B512;
            assert_paths_agree(&name, &narrow);
            limited += usize::from(path_mtu_limit(&narrow).is_some_and(|limit| limit.of_path == Mtu::B512));
        }
    }
    assert!(limited > 3, "only {limited} fabrics had a path with a smaller MTU than its ports");
}

#[test]
fn a_narrow_path_of_any_lid_of_a_port_counts() {
    let text = "[generate]\nkind = \"fat-tree\"\nhosts = 4\nports = 4\nlevels = 2\nhost = \"qdr-host\"\nhca = \"connectx2-qdr\"\nhost_cable = \"copper-4x\"\nhost_cable_length = \"1 m\"\n\
                switch = \"infiniscale-iv\"\n[subnet]\nrouting = \"fat-tree\"\n";
    let folder = std::env::temp_dir().join(format!("softband-path-mtu-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("tree.toml");
    std::fs::write(&path, text).unwrap();
    let spec = load_fabric(&path, &catalog(), &LoadOptions::default()).unwrap_or_else(|error| panic!("{}", error.to_text())).spec;
    std::fs::remove_dir_all(&folder).unwrap();
    let has_limit = |lmc, narrow: usize| {
        let mut spec = spec.clone();
        (spec.subnet.lmc, spec.switches[narrow].part.mtu_max) = (Lmc::new(lmc).unwrap(), Mtu::B512);
        path_mtu_limit(&spec).is_some()
    };
    let leaves: std::collections::BTreeSet<usize> = spec
        .cables
        .iter()
        .filter(|cable| cable.ends.iter().any(|end| matches!(end, PortRef::Hca { .. })))
        .flat_map(|cable| cable.ends)
        .filter_map(|end| if let PortRef::Switch { switch, .. } = end { Some(switch) } else { None })
        .collect();
    let tops: Vec<usize> = (0..spec.switches.len()).filter(|switch| !leaves.contains(switch)).collect();
    assert!(tops.len() > 1, "{} switches above", tops.len());
    assert!(tops.iter().all(|top| has_limit(1, *top)), "with two LIDs each way leads over each switch of the top");
}
