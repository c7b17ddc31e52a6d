//! Ports as programs see them.

use softband_model::verbs::api::PortSnapshot;
use softband_types::{Lid, LinkLayer};

/// Returns the LID that programs see; on Ethernet they see none.
pub(crate) fn abi_lid(layer: LinkLayer, lid: Lid) -> Lid {
    if layer == LinkLayer::Ethernet { Lid::NONE } else { lid }
}

/// Returns the index of an Ethernet port's network interface, for programs that request it. Only
/// this index of the interface exists. It is far from those of the machine's own interfaces.
pub(crate) fn interface_index(port: &PortSnapshot) -> u32 {
    const FIRST: u32 = 1 << 16;
    if port.link_layer == LinkLayer::Ethernet && port.active { FIRST + u32::from(port.lid.0) } else { 0 }
}
