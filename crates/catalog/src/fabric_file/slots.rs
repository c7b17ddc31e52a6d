//! Training of cards and slots.

use softband_model::parts::{BusPart, CardInterface, HostPart, PciExpress, Slot};

use super::Context;
use super::buses::{self, BusDraft};
use super::nodes::HcaDraft;
use crate::catalog::Catalog;
use crate::parts::{PartKind, least_read_request};

/// Puts an HCA onto the bus or into the slot from the file. Otherwise uses the slot of its host part.
pub(super) fn train(host: &str, part: &HostPart, buses: &[BusDraft], hca: &mut HcaDraft, context: &mut Context<'_>) {
    let slot = match (&hca.shared_bus, &hca.slot) {
        (Some(named), _) => buses::part_of(host, named, buses, context),
        (None, Some((name, span))) => context.part(PartKind::Bus, name, span.clone(), |all: &Catalog, name| all.bus(name).cloned()),
        (None, None) => Some(part.bus.clone()),
    };
    let (Some(bus), Some(card)) = (slot, hca.part.as_ref().map(|part| part.interface)) else { return };
    context.use_sheet(PartKind::Bus, &bus.name);
    match bus.slot.train(card) {
        Some(slot) => {
            check_reads(host, part, hca, slot, context);
            let slot = as_its_generation_has_it(slot, bus.slot, context);
            let slot = as_the_card_takes_it(slot, hca.part.as_ref().and_then(|part| part.max_payload_bytes));
            hca.bus = Some(BusPart { slot, ..bus.clone() });
            warn_of_lesser(host, hca, card, &bus, context);
        }
        None => refuse(host, hca, card, &bus, context),
    }
}

/// Adapts a slot that trained to an earlier generation than its own. It takes the link-layer share
/// of a slot of that generation, and packets no larger.
/// Prefers a slot of the same width, or else the first. Changes nothing if the catalogue has no
/// slot of that generation.
fn as_its_generation_has_it(trained: Slot, own: Slot, context: &mut Context<'_>) -> Slot {
    let (Slot::PciExpress(trained_slot), Slot::PciExpress(own)) = (trained, own) else { return trained };
    if trained_slot.generation == own.generation {
        return trained;
    }
    let catalog = context.catalog;
    let of_generation = |name| match catalog.bus(name) {
        Some(BusPart { slot: Slot::PciExpress(slot), bridge: None, .. }) if slot.generation == trained_slot.generation => Some((name, *slot)),
        _ => None,
    };
    let found = catalog.parts(PartKind::Bus).into_iter().filter_map(of_generation).min_by_key(|(_, slot)| slot.lanes != trained_slot.lanes);
    let Some((name, like)) = found else { return trained };
    context.use_sheet(PartKind::Bus, name);
    Slot::PciExpress(PciExpress {
        max_payload_bytes: trained_slot.max_payload_bytes.min(like.max_payload_bytes),
        completion_bytes: trained_slot.completion_bytes.min(like.completion_bytes),
        link_layer_ppm: like.link_layer_ppm,
        ..trained_slot
    })
}

/// Limits packets and read completions to the size that both ends support (PCI Express Base,
/// Max_Payload_Size).
fn as_the_card_takes_it(slot: Slot, max_payload_bytes: Option<u32>) -> Slot {
    let (Slot::PciExpress(slot), Some(most)) = (slot, max_payload_bytes) else { return slot };
    Slot::PciExpress(PciExpress { max_payload_bytes: slot.max_payload_bytes.min(most), completion_bytes: slot.completion_bytes.min(most), ..slot })
}

/// Checks the read request size of the host part against another slot than its own. That slot may
/// not support reads this small.
fn check_reads(host: &str, part: &HostPart, hca: &HcaDraft, slot: Slot, context: &mut Context<'_>) {
    let least = least_read_request(slot.interface());
    let (Some((name, span)), true) = (hca.shared_bus.as_ref().or(hca.slot.as_ref()), part.read_request_bytes < least) else { return };
    let message = format!("host `{host}` reads {} B at a time, and slot `{name}` has {least} B at least", part.read_request_bytes);
    let help = format!("give `{host}` a part with `read_request` of {least} B or more, or the HCA another slot");
    context.findings.error(message, vec![(span.clone(), "this slot".into())], Some(help));
}

/// Warns of a card that its slot slows down. The fabric is valid, but the card cannot reach its rate.
fn warn_of_lesser(host: &str, hca: &HcaDraft, card: CardInterface, bus: &BusPart, context: &mut Context<'_>) {
    let Some(trained) = bus.slot.train(card).map(|slot| slot.interface()).filter(|trained| *trained != card) else { return };
    let message = format!("`{host}/{}` trains to {trained}: the card is {card}, slot `{}` is {}", hca.device, bus.name, bus.slot.interface());
    context.findings.warning(message, vec![(hca.place_span(), "this slot".into())], None);
}

fn refuse(host: &str, hca: &HcaDraft, card: CardInterface, bus: &BusPart, context: &mut Context<'_>) {
    let part = hca.part.as_ref().map_or("", |part| part.name.as_str());
    let slot = bus.slot.interface().kind();
    let message = format!("`{part}` is a {} card, and `{}` is a {slot} slot", card.kind(), bus.name);
    let catalog = context.catalog;
    let fits = |name: &&str| catalog.bus(name).is_some_and(|bus| card.is_kind_of(bus.slot));
    let mut names: Vec<&str> = catalog.parts(PartKind::Bus).into_iter().filter(fits).collect();
    // Slots that match the card come first, bridges last.
    names.sort_by_key(|name| catalog.bus(name).map(|bus| (bus.bridge.is_some(), bus.slot.interface() != card)));
    let mut help = format!("give the HCA another slot, such as `slot = \"{}\"`", names.first().unwrap_or(&"..."));
    if names.len() > 1 {
        help = format!("{help}; {} slots and bridges to one are: {}", card.kind(), names.join(", "));
    }
    let mut labels = vec![(hca.place_span(), format!("{slot} slot"))];
    if hca.slot.is_some() || hca.shared_bus.is_some() {
        labels.push((hca.part_span.clone(), format!("{} card", card.kind())));
    } else {
        help = format!("{help}. Host `{host}` has this slot by its part; an HCA part for {slot} would fit as well");
    }
    context.findings.error(message, labels, Some(help));
}
