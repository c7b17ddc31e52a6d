//! Bus parts and the edge connectors of cards.

use std::collections::BTreeMap;

use softband_model::parts::{Bridge, BusPart, CardInterface, PciExpress, PciX, PciXClock, Slot};

use crate::diagnostic::suggest;
use crate::document::{Node, Value};
use crate::parts::{PartReader, PartSheet, RawPart};
use crate::units::{Dimension, Number};

#[derive(Clone, Copy)]
enum Kind {
    PciExpress,
    PciX,
    Bridge,
}

/// Splits a part with a list of lanes into one part for each number, named after it. A single
/// number describes the part that the file names.
pub(crate) fn variants(part: RawPart) -> Vec<RawPart> {
    let lanes = part.parameters.iter().position(|parameter| parameter.name == "lanes");
    let Some((at, Value::Array(items))) = lanes.map(|at| (at, part.parameters[at].value.value.clone())) else { return vec![part] };
    let variant = |item: &Node| {
        let mut variant = part.clone();
        if let Value::Number(Number::Integer(lanes)) = item.value {
            variant.name = format!("{}-x{lanes}", part.name);
            variant.summary = format!("{}, x{lanes}", part.summary);
        }
        variant.parameters[at].value = item.clone();
        variant
    };
    if items.is_empty() || lanes_twice(&items).is_some() { vec![part] } else { items.iter().map(variant).collect() }
}

/// Returns a number that the list repeats; it would give two parts with one name.
fn lanes_twice(items: &[Node]) -> Option<&Node> {
    items.iter().enumerate().find(|(index, item)| items[..*index].iter().any(|other| other.value.same_integer(&item.value))).map(|(_, item)| item)
}

/// Reads a bus part. `buses` contains the slots that a bridge may offer.
pub(crate) fn bus(mut read: PartReader<'_>, buses: &BTreeMap<String, (BusPart, PartSheet)>) -> Option<(BusPart, PartSheet)> {
    let kinds = [("pci-express", Kind::PciExpress), ("pci-x", Kind::PciX), ("bridge", Kind::Bridge)];
    let kind = read.choice("kind", Dimension::Name, &kinds);
    let name = read.name();
    let part = match kind {
        Kind::PciExpress => BusPart { name, slot: Slot::PciExpress(pci_express(&mut read)), bridge: None },
        Kind::PciX => BusPart { name, slot: Slot::PciX(pci_x(&mut read)), bridge: None },
        Kind::Bridge => {
            let slot = slot_of_bridge(&mut read, buses);
            let bridge = Bridge { delay: read.duration("delay"), bytes_per_second: read.optional_rate("rate") };
            BusPart { name, slot, bridge: Some(bridge) }
        }
    };
    read.finish().map(|sheet| (part, sheet))
}

fn pci_express(read: &mut PartReader<'_>) -> PciExpress {
    let (generation, lanes) = generation_and_lanes(read, "generation", "lanes");
    let part = PciExpress {
        generation,
        lanes,
        max_payload_bytes: read.bytes("max_payload"),
        write_header_bytes: read.bytes("write_header"),
        completion_bytes: read.bytes("completion"),
        completion_header_bytes: read.bytes("completion_header"),
        link_layer_ppm: read.share_ppm("link_layer_share"),
    };
    // Published slots lose 2 to 10 % to acknowledgements and flow control. No slot loses more than
    // it carries.
    const LINK_LAYER_PPM_MAX: u32 = 500_000;
    if part.link_layer_ppm > LINK_LAYER_PPM_MAX {
        let help = "write 50 % or less; acknowledgements and flow control of real slots take 2 to 10 %";
        read.refuse("link_layer_share", "less than half of the bus is left".into(), Some(help.into()));
    }
    check_size(read, "max_payload", part.max_payload_bytes, 128, "a payload size of PCI Express");
    check_size(read, "completion", part.completion_bytes, 64, "a size of completions");
    check_packets(read, &part);
    part
}

/// Checks packets against the specification. Headers have three or four words (PCI Express Base 2.2.1).
/// Completions carry no more data than writes (2.2.9 and 7.5.3).
fn check_packets(read: &mut PartReader<'_>, part: &PciExpress) {
    let (completion, payload) = (part.completion_bytes, part.max_payload_bytes);
    // Another error already covers an invalid payload size.
    if completion > payload && payload >= 128 {
        if read.writes("max_payload") && !read.writes("completion") {
            let help = format!("write {completion} B or more, or a `completion` of {payload} B beside it");
            read.refuse("max_payload", format!("completions of {completion} B have more data than {payload} B"), Some(help));
        } else {
            let message = format!("a completion of {completion} B has more data than `max_payload` allows, {payload} B");
            read.refuse("completion", message, Some(format!("write {payload} B or less")));
        }
    }
    let beside = "the bus counts framing and check sum by itself";
    if !matches!(part.write_header_bytes, 12 | 16) {
        let help = format!("write 16 B, or 12 B for addresses of 32 bits; {beside}");
        read.refuse("write_header", "a memory write's header is 12 or 16 B".into(), Some(help));
    }
    if part.completion_header_bytes != 12 {
        read.refuse("completion_header", "a completion's header is 12 B".into(), Some(format!("write 12 B; {beside}")));
    }
}

fn pci_x(read: &mut PartReader<'_>) -> PciX {
    let (clock, bits) = (clock(read, "clock"), read.bits("width"));
    if !matches!(bits, 32 | 64) {
        read.refuse("width", "PCI-X has two widths".into(), Some("write 32 or 64".into()));
    }
    let part = PciX {
        clock,
        width_bytes: bits / 8,
        request_clocks: read.count("request_clocks"),
        burst_clocks: read.count("burst_clocks"),
        write_burst_bytes: read.bytes("write_burst"),
    };
    for (name, clocks) in [("request_clocks", part.request_clocks), ("burst_clocks", part.burst_clocks)] {
        if !(1..=1_000).contains(&clocks) {
            let help = "address, attributes, response and turn-around are four at least; write 1 to 1000";
            read.refuse(name, format!("{clocks} clocks are not possible"), Some(help.into()));
        }
    }
    check_size(read, "write_burst", part.write_burst_bytes, 128, "a burst of whole 128 B blocks");
    // The placeholder of a refused part must not cause a division by zero.
    PciX { width_bytes: part.width_bytes.max(1), write_burst_bytes: part.write_burst_bytes.max(1), ..part }
}

fn slot_of_bridge(read: &mut PartReader<'_>, buses: &BTreeMap<String, (BusPart, PartSheet)>) -> Slot {
    let (name, _) = read.part("slot");
    let found = buses.get(&name).map(|(bus, _)| bus).filter(|bus| bus.bridge.is_none());
    if found.is_none() && !name.is_empty() {
        let names: Vec<&str> = buses.iter().filter(|(_, (bus, _))| bus.bridge.is_none()).map(|(name, _)| name.as_str()).collect();
        read.refuse("slot", format!("no usable bus part `{name}` that is no bridge"), Some(suggest(&name, "bus parts", &names)));
    }
    found.map_or(no_bus().slot, |bus| bus.slot)
}

/// Reads the interface of a card.
pub(crate) fn interface(read: &mut PartReader<'_>) -> CardInterface {
    let kind = read.choice("interface", Dimension::Name, &[("pci-express", Kind::PciExpress), ("pci-x", Kind::PciX)]);
    if let Kind::PciX = kind {
        return CardInterface::PciX { clock: clock(read, "interface_clock") };
    }
    let (generation, lanes) = generation_and_lanes(read, "interface_generation", "interface_lanes");
    CardInterface::PciExpress { generation, lanes }
}

/// Reads the largest payload of a card that supports less than its slot may offer, in bytes.
pub(crate) fn max_payload(read: &mut PartReader<'_>, interface: CardInterface) -> Option<u32> {
    const NAME: &str = "interface_max_payload";
    let CardInterface::PciExpress { .. } = interface else { return None };
    let bytes = read.optional_bytes(NAME)?;
    check_size(read, NAME, bytes, 128, "a payload size of PCI Express");
    Some(bytes)
}

fn generation_and_lanes(read: &mut PartReader<'_>, generation: &'static str, lanes: &'static str) -> (u8, u8) {
    let generation_number = read.count(generation);
    if read.items(lanes).is_some_and(|items| lanes_twice(items).is_some()) {
        read.refuse(lanes, "a number stands in the list twice".into(), Some("write each value once".into()));
        read.know(lanes);
        return (1, 1);
    }
    let lanes_number = read.count(lanes);
    let as_generation = u8::try_from(generation_number).ok().filter(|number| PciExpress::GENERATIONS.contains(number));
    if as_generation.is_none() {
        read.refuse(generation, format!("there is no generation {generation_number} of PCI Express"), Some("write 1 to 6".into()));
    }
    let as_lanes = u8::try_from(lanes_number).ok().filter(|number| PciExpress::LANES.contains(number));
    if as_lanes.is_none() {
        let help = "write 1, 2, 4, 8, 12 or 16";
        read.refuse(lanes, format!("PCI Express has no links of {lanes_number} lanes"), Some(help.into()));
    }
    (as_generation.unwrap_or(1), as_lanes.unwrap_or(1))
}

fn clock(read: &mut PartReader<'_>, name: &'static str) -> PciXClock {
    let mhz = read.megahertz(name);
    PciXClock::of_mhz(mhz).unwrap_or_else(|| {
        read.refuse(name, format!("PCI-X has no clock of {mhz} MHz"), Some("write 66, 100 or 133".into()));
        PciXClock::Mhz66
    })
}

fn check_size(read: &mut PartReader<'_>, name: &'static str, bytes: u32, least: u32, what: &str) {
    if !(bytes.is_power_of_two() && (least..=4_096).contains(&bytes)) {
        let sizes: Vec<String> = (0..).map(|shift| least << shift).take_while(|size| *size <= 4_096).map(|size| size.to_string()).collect();
        read.refuse(name, format!("{bytes} B is not {what}"), Some(format!("write {} B", crate::units::or_list(&sizes))));
    }
}

/// Returns the least value that the configuration space field can hold, in bytes.
pub(crate) fn least_read_request(interface: CardInterface) -> u32 {
    match interface {
        CardInterface::PciExpress { .. } => 128,
        CardInterface::PciX { .. } => 512,
    }
}

/// Checks the size against the values that the configuration space field can hold.
pub(crate) fn check_read_request(read: &mut PartReader<'_>, name: &'static str, bytes: u32, interface: CardInterface) {
    let what = match interface {
        CardInterface::PciExpress { .. } => "a read request size of PCI Express",
        CardInterface::PciX { .. } => "a read byte count of PCI-X",
    };
    check_size(read, name, bytes, least_read_request(interface), what);
}

/// Returns a placeholder for an unreadable bus.
pub(crate) fn no_bus() -> BusPart {
    let slot = PciExpress {
        generation: 1,
        lanes: 1,
        max_payload_bytes: 128,
        write_header_bytes: 0,
        completion_bytes: 64,
        completion_header_bytes: 0,
        link_layer_ppm: 0,
    };
    BusPart { name: String::new(), slot: Slot::PciExpress(slot), bridge: None }
}
