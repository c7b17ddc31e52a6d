//! Warnings about credit loops, with remedies.

use softband_catalog::LoadedFabric;
use softband_spec::FabricSpec;
use softband_spec::LoopRemedy;
use softband_types::LinkLayer;
use std::path::Path;

/// Warns of each credit loop of the fabric, with the ports along it. Returns the number of loops.
pub(crate) fn warn(path: &Path, loaded: &LoadedFabric) -> usize {
    let loops = softband_spec::credit_loops(&loaded.spec);
    let mut said = None;
    for found in &loops {
        let layer = loaded.spec.link_layer(found.ports[0]);
        let (what, whom) = match layer {
            LinkLayer::Infiniband => ("credit loop", "each other's credits"),
            LinkLayer::Ethernet => ("loop of pauses", "the end of each other's pauses"),
        };
        eprintln!("{}: warning: {what}: {}: packets there can wait for {whom} for ever", path.display(), found.describe(&loaded.spec));
        if said.replace(layer) != Some(layer) {
            eprintln!("  help: {}", help(&loaded.spec, layer));
        }
    }
    loops.len()
}

fn help(spec: &FabricSpec, layer: LinkLayer) -> String {
    let name = spec.subnet.routing.name();
    let (lanes, key) = match layer {
        LinkLayer::Infiniband => ("virtual lanes", "max_op_vls"),
        LinkLayer::Ethernet => ("priorities", "priorities"),
    };
    let helps = match softband_spec::loop_remedy(spec) {
        LoopRemedy::Cables => {
            let routes = match layer {
                LinkLayer::Infiniband => "the built-in subnet manager routes by minimum hops",
                // Ethernet has no subnet manager, so its routes are fixed.
                LinkLayer::Ethernet => "frames take the shortest routes",
            };
            return format!("{routes}; cable the switches as a tree or fat tree, or leave a cable of the loop out");
        }
        LoopRemedy::Routing(other) => {
            let other = other.name();
            format!(
                "`{name}` leaves packets on one lane, where rings of switches close loops; `routing = \"{other}\"` changes lanes and has none here"
            )
        }
        LoopRemedy::Lanes(vls) => {
            let enough = if layer == LinkLayer::Infiniband { vls.code() } else { vls.data_lanes() };
            format!("`{name}` has too few {lanes} to change between; `{key} = {enough}` is enough")
        }
        LoopRemedy::LanesOfParts => format!("`{name}` has too few {lanes} to change between, and the parts of this fabric have no more"),
        LoopRemedy::Order => format!("`{name}` has none in meshes and hypercubes whose switches have their ports in the order of the dimensions"),
    };
    format!("{helps}; `routing = \"up-down\"` has no loops anywhere")
}
