//! NICs of hosts: `[hosts.a.nics.eth1]`.

use softband_model::parts::NicPart;
use softband_spec::{FabricSpec, INTERFACE_NAME_MAX, PortRef, ethernet_loop};
use softband_types::{LinkLayer, PKey};

use super::Context;
use super::guids::GuidText;
use super::nodes::{HcaDraft, tables};
use super::stated;
use crate::catalog::Catalog;
use crate::diagnostic::Findings;
use crate::document::{Entry, Fields};
use crate::parts::PartKind;

/// Reads the NICs of a host. Each is called after its interface.
pub(super) fn nic_list(host: &str, entry: &Entry, context: &mut Context<'_>) -> Vec<HcaDraft> {
    tables(Some(entry), context).iter().filter_map(|entry| nic(host, entry, context)).collect()
}

fn nic(host: &str, entry: &Entry, context: &mut Context<'_>) -> Option<HcaDraft> {
    let what = format!("NIC `{}` of host `{host}`", entry.key);
    let mut fields = Fields::of(&what, &entry.node, entry.key_span.clone(), &mut context.findings)?;
    let part = fields.required_text("part", "\"...\", a nic part", &mut context.findings);
    let slot = fields.optional_text("slot", "\"pci-x-133\", a bus part", &mut context.findings).map(|(name, span)| (name.to_owned(), span));
    let shared_bus = fields.optional_text("bus", "\"...\", a bus of the host", &mut context.findings).map(|(name, span)| (name.to_owned(), span));
    let slot_trained = stated::text(&mut fields, "slot_trained", "\"PCI Express gen 1 x8\"", &mut context.findings);
    let guid = fields.optional_text("node_guid", "\"0x0002c90300001234\"", &mut context.findings);
    fields.finish(&mut context.findings);
    check_name(entry, &mut context.findings);
    if let (Some((_, slot)), Some((_, bus))) = (&slot, &shared_bus) {
        let labels = vec![(bus.clone(), "on this bus".into()), (slot.clone(), "and in this slot".into())];
        let help = "remove one of them: `slot` is a part for this card alone, `bus` one that the host's table names for several";
        context.findings.error(format!("{what} is in two places"), labels, Some(help.into()));
    }
    let part_span = part.as_ref().map_or(entry.key_span.clone(), |(_, span)| span.clone());
    let nic = part.and_then(|(name, span)| context.part(PartKind::Nic, name, span, |all: &Catalog, name| all.nic(name).cloned()));
    Some(HcaDraft {
        device: entry.key.clone(),
        span: entry.key_span.clone(),
        part: nic.as_ref().map(NicPart::as_hca),
        part_span,
        slot,
        shared_bus,
        slot_trained,
        bus: None,
        tune_pci: false,
        link_layer: LinkLayer::Ethernet,
        pkeys: vec![PKey::DEFAULT_FULL],
        nic,
        node_guid: GuidText::read(guid, &mut context.findings),
    })
}

/// Checks the name of an interface. Cables write it between slashes.
fn check_name(entry: &Entry, findings: &mut Findings) {
    let name = entry.key.as_str();
    let characters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if characters && (1..=INTERFACE_NAME_MAX).contains(&name.len()) && name != "lo" {
        return;
    }
    let help = format!("write letters, digits, `-` and `_`, at most {INTERFACE_NAME_MAX} of them, such as `eth1`");
    findings.error(format!("`{name}` cannot name an interface"), vec![(entry.key_span.clone(), "this name".into())], Some(help));
}

/// Checks the networks of NICs: their MTU, and that no frame to all can circulate.
pub(super) fn check(entry: Option<&Entry>, spec: &FabricSpec, findings: &mut Findings) {
    let place = entry.map_or(0..0, |entry| entry.key_span.clone());
    if let Some(switch) = ethernet_loop(spec) {
        let message = format!("a frame to all could come back to switch `{}`: its network has NICs and a loop", spec.switches[switch].name);
        let help = "remove a cable between switches, because spanning trees are not modelled";
        findings.error(message, vec![(place.clone(), "these cables".into())], Some(help.into()));
    }
    let mtu = spec.ethernet.mtu_bytes;
    for end in spec.cables.iter().flat_map(|cable| cable.ends) {
        let PortRef::Hca { host, hca, .. } = end else { continue };
        if let Some(nic) = spec.hosts[host].hcas[hca].nic.as_ref().filter(|nic| nic.mtu_max_bytes < mtu) {
            let message =
                format!("`{}` cannot have the MTU of its network, {mtu} B: part `{}` carries {} B", spec.port_name(end), nic.name, nic.mtu_max_bytes);
            let help = format!("write `mtu = {}` or less in `[ethernet]`, or take another card", nic.mtu_max_bytes);
            findings.error(message, vec![(place.clone(), "these cables".into())], Some(help));
        }
    }
}
