//! Draws the fabric: its form, parts and settings.

use super::Features;
use crate::dice::Dice;
use crate::plan::{EthernetPlan, FabricPlan, PartNames, Shape, Tweaks};
use softband_catalog::{Catalog, PartKind};
use softband_spec::FabricSpec;
use softband_types::{LinkLayer, Mtu};

/// Draws until the parts fit each other. The probability of a fit is above a third.
const DRAWS_MAX: u32 = 1_000;

pub(super) fn draw(dice: &mut Dice, features: &Features, catalog: &Catalog) -> (FabricPlan, FabricSpec) {
    for _ in 0..DRAWS_MAX {
        let Some(parts) = draw_parts(dice, features, catalog) else { continue };
        let plan = draw_settings(dice, features, parts);
        if let Ok(spec) = plan.build(catalog)
            && softband_spec::unroutable(&spec).is_none()
        {
            return (plan, spec);
        }
    }
    panic!("the catalogue has no parts that fit each other");
}

fn draw_parts(dice: &mut Dice, features: &Features, catalog: &Catalog) -> Option<PartNames> {
    let host = *dice.pick(&catalog.parts(PartKind::Host));
    let slot = catalog.host(host)?.bus.slot;
    let layer = if features.ethernet { LinkLayer::Ethernet } else { LinkLayer::Infiniband };
    let fits = |name: &&str| catalog.hca(name).is_some_and(|hca| hca.interface.is_kind_of(slot) && (!features.ethernet || hca.ethernet.is_some()));
    let hcas: Vec<&str> = catalog.parts(PartKind::Hca).into_iter().filter(fits).collect();
    let switches = catalog.parts(PartKind::Switch);
    let switches: Vec<&str> = switches.into_iter().filter(|name| catalog.switch(name).is_some_and(|part| part.link_layer() == layer)).collect();
    let sheet_says = |name: &str, key: &str, value: Option<&str>| {
        let sheet = catalog.sheet(PartKind::Cable, name);
        sheet
            .is_some_and(|sheet| sheet.parameters.iter().any(|parameter| parameter.name == key && value.is_none_or(|value| parameter.value == value)))
    };
    let cables = catalog.parts(PartKind::Cable);
    let cables: Vec<&str> = cables.into_iter().filter(|name| sheet_says(name, "link_layer", Some("ethernet")) == features.ethernet).collect();
    if hcas.is_empty() || switches.is_empty() || cables.is_empty() {
        return None;
    }
    let (hca, switch, cable) = (*dice.pick(&hcas), *dice.pick(&switches), *dice.pick(&cables));
    let metres = *dice.pick(&[1, 2, 5, 20, 100]);
    Some(PartNames {
        host: host.to_owned(),
        hca: hca.to_owned(),
        switch: switch.to_owned(),
        cable: cable.to_owned(),
        cable_metres: (!sheet_says(cable, "length", None)).then_some(metres),
    })
}

fn draw_shape(dice: &mut Dice, features: &Features) -> Shape {
    // Generated forms have InfiniBand ports.
    match dice.below(if features.ethernet { 7 } else { 12 }) {
        0 | 1 => Shape::Pair { hcas: dice.within(1, 2) as usize },
        2..=4 => Shape::Star { hosts: dice.within(2, 6) as usize },
        5 | 6 => Shape::Ring { switches: dice.within(3, 5) as usize },
        7 | 8 => Shape::FatTree { hosts: dice.within(3, 8) as usize, ports: 4 },
        9 | 10 => Shape::Torus { columns: dice.within(2, 4) as usize, rows: dice.within(2, 3) as usize },
        _ => Shape::Hypercube { dimension: dice.within(2, 3) as usize },
    }
}

fn draw_settings(dice: &mut Dice, features: &Features, parts: PartNames) -> FabricPlan {
    let shape = draw_shape(dice, features);
    let mtu_bytes = dice.pick(&[Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096, Mtu::B4096]).bytes();
    // Packets of a flood on a single lane of small buffers may come to wait for each other.
    let max_op_vls = if features.flood && dice.chance(50) { 1 } else { dice.within(1, 5) as u8 };
    let written = matches!(shape, Shape::Pair { .. } | Shape::Star { .. } | Shape::Ring { .. });
    let weighs = written && !features.ethernet && max_op_vls > 1 && dice.chance(30);
    let lanes = [1, 2, 4, 8, 15][usize::from(max_op_vls) - 1];
    let weights = if weighs { (0..lanes).map(|_| dice.within(1, 255) as u8).collect() } else { Vec::new() };
    let ethernet = features.ethernet.then(|| EthernetPlan {
        mtu_bytes: *dice.pick(&[1_500, 2_200, 4_200, 9_000]),
        pauses: dice.chance(70),
        priorities: *dice.pick(&[1, 2, 4, 8]),
        tagged: dice.chance(30),
    });
    let mut maybe = |percent, most| (features.tight && dice.chance(percent)).then(|| dice.spread(most) as u32);
    let tweaks =
        Tweaks { staging_packets: maybe(50, 8), engines: maybe(30, 4), lane_packets: maybe(50, 4), stores_and_forwards: maybe(20, 1).is_some() };
    // Up and down routes have no credit loops on any fabric.
    let routing = (written && dice.chance(50)).then_some("up-down");
    let lifetime = dice.chance(20).then(|| dice.within(10, 20) as u8);
    let congestion_control = !features.ethernet && dice.chance(20);
    FabricPlan { shape, parts, ethernet, max_op_vls, mtu_bytes, routing, lifetime, congestion_control, weights, tweaks }
}
