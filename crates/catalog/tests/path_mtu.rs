//! Path MTUs from the description alone, beside those of the World's forwarding tables.

#![allow(clippy::disallowed_methods)]

use crate::common::{catalog, fabric_paths};
use softband_catalog::{LoadOptions, load_fabric};
use softband_fabric::World;
use softband_model::parts::{CablePart, HcaPart, HostPart, SwitchPart};
use softband_spec::{FabricBuilder, FabricSpec, PortRef, path_mtu, path_mtu_limit};
use softband_types::{Lmc, Mtu, PortNumber};

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

/// Returns two hosts on a switch and a third on another. Two more switches connect both, and each
/// direction has another of them first.
fn diamond() -> (FabricSpec, [usize; 2]) {
    let mut fabric = FabricBuilder::new("diamond");
    let [near, far, one, other] = ["near", "far", "one", "other"].map(|name| fabric.switch(name, SwitchPart::ideal(8)));
    for (name, switch) in [("a", near), ("b", near), ("c", far)] {
        let host = fabric.host(name, HostPart::ideal());
        let hca = fabric.hca(host, HcaPart::ideal());
        fabric.cable(hca, switch, CablePart::ideal(1_000));
    }
    for (leaf, top) in [(near, one), (near, other), (far, other), (far, one)] {
        fabric.cable(leaf, top, CablePart::ideal(1_000));
    }
    (fabric.build().unwrap(), [2, 3])
}

fn has_limit(spec: &FabricSpec, lmc: u8, narrow: usize) -> bool {
    let mut spec = spec.clone();
    (spec.subnet.lmc, spec.switches[narrow].part.mtu_max) = (Lmc::new(lmc).unwrap(), Mtu::B512);
    path_mtu_limit(&spec).is_some()
}

#[test]
fn a_narrow_path_of_any_lid_of_a_port_counts() {
    let (spec, tops) = diamond();
    assert!(tops.iter().all(|top| has_limit(&spec, 1, *top)), "with two LIDs each way leads over both switches");
}

#[test]
fn a_narrow_path_of_one_direction_counts() {
    let (spec, tops) = diamond();
    let port = |host| PortRef::Hca { host, hca: 0, port: PortNumber(1) };
    let passed = |pairs: [(usize, usize); 2]| {
        let is_passed = |top: &&usize| {
            let mut narrow = spec.clone();
            narrow.switches[**top].part.mtu_max = Mtu::B512;
            pairs.iter().any(|(from, to)| path_mtu(&narrow, port(*from), port(*to)) == Some(Mtu::B512))
        };
        tops.iter().filter(is_passed).copied().collect::<Vec<_>>()
    };
    let (there, back) = (passed([(0, 2), (1, 2)]), passed([(2, 0), (2, 1)]));
    assert_eq!((there, back), (vec![tops[0]], vec![tops[1]]), "each direction has a way of its own");
    assert!(tops.iter().all(|top| has_limit(&spec, 0, *top)), "one of both directions leads over it");
}
