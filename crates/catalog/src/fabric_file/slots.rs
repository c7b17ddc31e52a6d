//! Cards in slots: what both train to.

use softband_model::parts::{BusPart, CardInterface, HostPart};

use super::Context;
use super::nodes::HcaDraft;
use crate::catalog::Catalog;
use crate::parts::PartKind;

/// Puts an HCA into the slot that the file gives it, or else its host part's.
pub(super) fn train(host: &str, part: &HostPart, hca: &mut HcaDraft, context: &mut Context<'_>) {
    let slot = match &hca.slot {
        Some((name, span)) => context.part(PartKind::Bus, name, span.clone(), |all: &Catalog, name| all.bus(name).cloned()),
        None => Some(part.bus.clone()),
    };
    let (Some(bus), Some(card)) = (slot, hca.part.as_ref().map(|part| part.interface)) else { return };
    use_sheets(&bus.name, context);
    match bus.slot.train(card) {
        Some(slot) => {
            hca.bus = Some(BusPart { slot, ..bus.clone() });
            warn_of_lesser(host, hca, card, &bus, context);
        }
        None => refuse(host, hca, card, &bus, context),
    }
}

/// A bridge's sheet names the slot that it offers.
fn use_sheets(bus: &str, context: &mut Context<'_>) {
    context.use_sheet(PartKind::Bus, bus);
    let sheet = context.catalog.sheet(PartKind::Bus, bus);
    let slot = sheet.and_then(|sheet| sheet.parameters.iter().find(|parameter| parameter.name == "slot"));
    if let Some(slot) = slot {
        context.use_sheet(PartKind::Bus, &slot.value);
    }
}

/// A card that could do more than its slot lets it: nothing is wrong, but it is not what the card was bought for.
fn warn_of_lesser(host: &str, hca: &HcaDraft, card: CardInterface, bus: &BusPart, context: &mut Context<'_>) {
    let Some(trained) = bus.slot.train(card).map(|slot| slot.interface()).filter(|trained| *trained != card) else { return };
    let span = hca.slot.as_ref().map_or(&hca.part_span, |(_, span)| span);
    let message = format!("`{host}/{}` trains to {trained}: the card is {card}, slot `{}` is {}", hca.device, bus.name, bus.slot.interface());
    context.findings.warning(message, vec![(span.clone(), "this slot".into())], None);
}

fn refuse(host: &str, hca: &HcaDraft, card: CardInterface, bus: &BusPart, context: &mut Context<'_>) {
    let part = hca.part.as_ref().map_or("", |part| part.name.as_str());
    let slot = bus.slot.interface().kind();
    let message = format!("`{part}` is a {} card, and `{}` is a {slot} slot", card.kind(), bus.name);
    let catalog = context.catalog;
    let fits = |name: &&str| catalog.bus(name).is_some_and(|bus| card.is_kind_of(bus.slot));
    let names: Vec<&str> = catalog.parts(PartKind::Bus).into_iter().filter(fits).collect();
    let mut help = format!("give the HCA another slot, such as `slot = \"{}\"`", names.first().unwrap_or(&"..."));
    if names.len() > 1 {
        help = format!("{help}; {} slots and bridges to one are: {}", card.kind(), names.join(", "));
    }
    let mut labels = vec![(hca.slot.as_ref().map_or(&hca.part_span, |(_, span)| span).clone(), format!("{slot} slot"))];
    if hca.slot.is_some() {
        labels.push((hca.part_span.clone(), format!("{} card", card.kind())));
    } else {
        help = format!("{help}. Host `{host}` has this slot by its part; an HCA part for {slot} would fit as well");
    }
    context.findings.error(message, labels, Some(help));
}
