//! Buses that several HCAs of a host share, and their effect on the cards.

use std::ops::Range;

use softband_model::parts::{BusPart, PciX, PciXClock, Slot};

use super::Context;
use super::nodes::{HcaDraft, check_name};
use crate::catalog::Catalog;
use crate::diagnostic::suggest;
use crate::document::{Entry, Fields, Value, wrong_kind};
use crate::parts::PartKind;

/// A bus from the table of a host.
pub(super) struct BusDraft {
    name: String,
    span: Range<usize>,
    /// `None` if its part is unknown; an error already reports this.
    part: Option<BusPart>,
}

/// Reads `[hosts.NAME.buses.*]`.
pub(super) fn buses(host: &str, entry: &Entry, context: &mut Context<'_>) -> Vec<BusDraft> {
    let Value::Table(entries) = &entry.node.value else {
        wrong_kind(entry, &format!("a table of tables, such as `[hosts.{host}.buses.riser]`"), &mut context.findings);
        return Vec::new();
    };
    entries.iter().filter_map(|entry| bus(host, entry, context)).collect()
}

fn bus(host: &str, entry: &Entry, context: &mut Context<'_>) -> Option<BusDraft> {
    check_name("bus", entry, &mut context.findings);
    let what = format!("bus `{}` of host `{host}`", entry.key);
    let mut fields = Fields::of(what, &entry.node, entry.key_span.clone(), &mut context.findings)?;
    let part = fields.required_text("part", "\"...\", a bus part", &mut context.findings);
    fields.finish(&mut context.findings);
    let part = part.and_then(|(name, span)| context.part(PartKind::Bus, name, span, |all: &Catalog, name| all.bus(name).cloned()));
    Some(BusDraft { name: entry.key.clone(), span: entry.key_span.clone(), part })
}

/// Returns the part of the bus that an HCA names.
pub(super) fn part_of(host: &str, named: &(String, Range<usize>), buses: &[BusDraft], context: &mut Context<'_>) -> Option<BusPart> {
    let (name, span) = named;
    if let Some(bus) = buses.iter().find(|bus| bus.name == *name) {
        return bus.part.clone();
    }
    let names: Vec<&str> = buses.iter().map(|bus| bus.name.as_str()).collect();
    let help = if names.is_empty() {
        format!("add it with its part:\n[hosts.{host}.buses.{name}]\npart = \"...\"")
    } else {
        suggest(name, &format!("buses of host `{host}`"), &names)
    };
    context.findings.error(format!("host `{host}` has no bus `{name}`"), vec![(span.clone(), "unknown bus".into())], Some(help));
    None
}

/// Checks how several cards on a bus affect each other and the bus.
pub(super) fn share(host: &str, buses: &[BusDraft], hcas: &mut [HcaDraft], context: &mut Context<'_>) {
    for bus in buses {
        let on_it = |hca: &&mut HcaDraft| hca.shared_bus.as_ref().is_some_and(|(name, _)| *name == bus.name);
        let mut cards: Vec<&mut HcaDraft> = hcas.iter_mut().filter(on_it).collect();
        if cards.is_empty() {
            let help = format!("write `bus = \"{}\"` in those that are, or remove the bus", bus.name);
            context.findings.warning(
                format!("no HCA of host `{host}` is on bus `{}`", bus.name),
                vec![(bus.span.clone(), "this bus".into())],
                Some(help),
            );
        }
        match bus.part.as_ref().map(|part| (part.slot, part.bridge)) {
            Some((Slot::PciX(_), _)) if cards.len() > 1 => clock_down(host, &mut cards, context),
            Some((Slot::PciExpress(_), None)) if cards.len() > 1 => refuse(host, bus, &cards, context),
            _ => {}
        }
    }
}

/// Slows all cards of a PCI-X bus to the clock of the slowest (PCI-X 1.0a).
fn clock_down(host: &str, cards: &mut [&mut HcaDraft], context: &mut Context<'_>) {
    let clock_of = |hca: &HcaDraft| match hca.bus.as_ref().map(|bus| bus.slot) {
        Some(Slot::PciX(slot)) => Some(slot.clock),
        _ => None,
    };
    let Some(least) = cards.iter().filter_map(|hca| clock_of(hca)).min() else { return };
    for hca in cards.iter_mut() {
        let span = hca.place_span();
        let Some(BusPart { slot: Slot::PciX(PciX { clock, .. }), .. }) = &mut hca.bus else { continue };
        if *clock > least {
            *clock = least;
            let message = format!("`{host}/{}` runs at {} MHz: another card on its bus can do no more", hca.device, least.mhz());
            context.findings.warning(message, vec![(span, "this bus".into())], None);
        }
    }
    if least == PciXClock::Mhz133 {
        let labels = cards.iter().map(|hca| (hca.place_span(), format!("`{}`", hca.device))).collect();
        let help = "boards run such a bus at 100 MHz, as the part `pci-x-100`";
        context.findings.warning("PCI-X at 133 MHz is meant for one card (PCI-X 1.0a)".into(), labels, Some(help.into()));
    }
}

fn refuse(host: &str, bus: &BusDraft, cards: &[&mut HcaDraft], context: &mut Context<'_>) {
    let part = bus.part.as_ref().map_or("", |part| part.name.as_str());
    let message = format!("{} HCAs of host `{host}` are on `{}`, and `{part}` is a PCI Express slot, which takes one card", cards.len(), bus.name);
    let labels = cards.iter().map(|hca| (hca.place_span(), format!("`{}`", hca.device))).collect();
    let help = "cards share PCI-X buses, and what is behind a bridge; leave `bus` out, and each has a slot of its own";
    context.findings.error(message, labels, Some(help.into()));
}
