//! Hosts with their HCAs, and switches.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use softband_model::parts::{BusPart, HcaPart, HostPart, KernelPart, NicPart, SwitchPart};
use softband_spec::{CableSpec, HcaSpec, HostSpec, InterfaceSpec, PortRef, SwitchSpec};
use softband_types::{Guid, LinkLayer, PKey};

use super::Context;
use super::buses;
use super::ethernet;
use super::guids::GuidText;
use super::kernels;
use super::nics;
use super::slots;
use super::stated::{self, Stated};
use crate::catalog::Catalog;
use crate::diagnostic::Findings;
use crate::document::{Entry, Fields, Node, Value, wrong_kind};
use crate::parts::PartKind;
use crate::units::Number;

/// Entries of a port's P_Key table.
const PKEYS_MAX: usize = 32;

/// A host with the values that its table gave.
pub(super) struct HostDraft {
    pub(super) name: String,
    pub(super) name_span: Range<usize>,
    part: Option<HostPart>,
    kernel: Option<KernelPart>,
    pub(super) hcas: Vec<HcaDraft>,
    interfaces: Vec<InterfaceSpec>,
}

pub(super) struct HcaDraft {
    pub(super) device: String,
    pub(super) span: Range<usize>,
    pub(super) part: Option<HcaPart>,
    pub(super) part_span: Range<usize>,
    /// The bus part that the file names as its slot.
    pub(super) slot: Option<(String, Range<usize>)>,
    /// The host's bus that it shares with other HCAs, as named in the file.
    pub(super) shared_bus: Option<(String, Range<usize>)>,
    /// The `slot_trained` value of a resolved fabric.
    pub(super) slot_trained: Option<Stated<String>>,
    /// The slot after training.
    pub(super) bus: Option<BusPart>,
    pub(super) tune_pci: bool,
    pub(super) link_layer: LinkLayer,
    pub(super) pkeys: Vec<PKey>,
    /// A NIC, with the name of its interface as its device.
    pub(super) nic: Option<NicPart>,
    pub(super) node_guid: GuidText,
}

/// A switch with the values that its table gave.
pub(super) struct SwitchDraft {
    pub(super) name: String,
    pub(super) name_span: Range<usize>,
    pub(super) part: Option<SwitchPart>,
    pub(super) node_guid: GuidText,
}

impl HostDraft {
    pub(super) fn into_spec(self) -> Option<HostSpec> {
        let hcas = self.hcas.into_iter().map(HcaDraft::into_spec).collect::<Option<_>>()?;
        Some(HostSpec { name: self.name, part: self.part?, kernel: self.kernel?, hcas, interfaces: self.interfaces, routes: Vec::new() })
    }
}

impl HcaDraft {
    /// Returns the place of the slot or bus in the file, or else of the part.
    pub(super) fn place_span(&self) -> Range<usize> {
        let place = self.shared_bus.as_ref().or(self.slot.as_ref());
        place.map_or(&self.part_span, |(_, span)| span).clone()
    }

    fn into_spec(self) -> Option<HcaSpec> {
        let node_guid = self.node_guid.assigned?;
        let shared_bus = self.shared_bus.map(|(name, _)| name);
        Some(HcaSpec {
            device: self.device,
            part: self.part?,
            bus: self.bus?,
            shared_bus,
            tune_pci: self.tune_pci,
            node_guid,
            link_layer: self.link_layer,
            pkeys: self.pkeys,
            nic: self.nic,
        })
    }
}

impl SwitchDraft {
    pub(super) fn into_spec(self) -> Option<SwitchSpec> {
        let node_guid: Guid = self.node_guid.assigned?;
        Some(SwitchSpec { name: self.name, part: self.part?, node_guid })
    }
}

/// Reads `[hosts.*]`. Hosts that name no kernel have this one.
pub(super) fn hosts(entry: Option<&Entry>, kernel: Option<&KernelPart>, context: &mut Context<'_>) -> Vec<HostDraft> {
    tables(entry, context).iter().enumerate().filter_map(|(index, entry)| host((entry, index), kernel, context)).collect()
}

/// Reads `[switches.*]`.
pub(super) fn switches(entry: Option<&Entry>, context: &mut Context<'_>) -> Vec<SwitchDraft> {
    tables(entry, context).iter().filter_map(|entry| switch(entry, context)).collect()
}

pub(super) fn tables<'a>(entry: Option<&'a Entry>, context: &mut Context<'_>) -> &'a [Entry] {
    let Some(entry) = entry else { return &[] };
    if let Value::Table(entries) = &entry.node.value {
        return entries;
    }
    let singular = entry.key.trim_end_matches('s').trim_end_matches("che");
    wrong_kind(entry, &format!("a table of tables, such as `[{}.{singular}1]`", entry.key), &mut context.findings);
    &[]
}

fn host((entry, index): (&Entry, usize), kernel: Option<&KernelPart>, context: &mut Context<'_>) -> Option<HostDraft> {
    let what = format!("host `{}`", entry.key);
    let mut fields = Fields::of(&what, &entry.node, entry.key_span.clone(), &mut context.findings)?;
    check_name("host", entry, &mut context.findings);
    let part = fields.required_text("part", "\"...\", a host part", &mut context.findings);
    let kernel = kernels::read(&mut fields, kernel, context);
    let buses = fields.optional("buses");
    let hcas = fields.optional("hcas");
    // `interfaces` reads both when the cables are known.
    fields.optional("interfaces");
    fields.optional("routes");
    let nics = fields.optional("nics");
    fields.finish(&mut context.findings);
    let part = part.and_then(|(name, span)| context.part(PartKind::Host, name, span, |all: &Catalog, name| all.host(name).cloned()));
    let buses = buses.map_or(Vec::new(), |buses| buses::buses(&entry.key, buses, context));
    let mut hcas = hcas.map_or(Vec::new(), |hcas| hca_list(&entry.key, hcas, context));
    hcas.extend(nics.map_or(Vec::new(), |nics| nics::nic_list(&entry.key, nics, context)));
    if let Some(part) = &part {
        hcas.iter_mut().for_each(|hca| slots::train(&entry.key, part, &buses, hca, context));
    }
    buses::share(&entry.key, &buses, &mut hcas, context);
    hcas.iter().for_each(|hca| stated::check_slot(&entry.key, hca, &mut context.findings));
    if hcas.is_empty() {
        let help = format!("add an HCA:\n[[hosts.{0}.hcas]]\npart = \"...\"", entry.key);
        context.findings.error(format!("{what} has no HCA"), vec![(entry.key_span.clone(), "this host".into())], Some(help));
    }
    check_devices(&what, &hcas, &mut context.findings);
    let interfaces = vec![InterfaceSpec::management(index)];
    Some(HostDraft { name: entry.key.clone(), name_span: entry.key_span.clone(), part, kernel, hcas, interfaces })
}

fn hca_list(host: &str, entry: &Entry, context: &mut Context<'_>) -> Vec<HcaDraft> {
    let Value::Array(items) = &entry.node.value else {
        wrong_kind(entry, &format!("a list of tables: write `[[hosts.{host}.hcas]]`"), &mut context.findings);
        return Vec::new();
    };
    let mut hcas: Vec<HcaDraft> = Vec::new();
    for item in items {
        hcas.extend(hca(host, item, hcas.len(), context));
    }
    hcas
}

fn hca(host: &str, node: &Node, index: usize, context: &mut Context<'_>) -> Option<HcaDraft> {
    let mut fields = Fields::of(format!("HCA {index} of host `{host}`"), node, node.span.clone(), &mut context.findings)?;
    let device = fields.optional_text("device", "\"mlx5_0\"", &mut context.findings);
    let part = fields.required_text("part", "\"...\", an HCA part", &mut context.findings);
    let slot = fields.optional_text("slot", "\"pcie-gen3-x16\", a bus part", &mut context.findings).map(|(name, span)| (name.to_owned(), span));
    let shared_bus = fields.optional_text("bus", "\"...\", a bus of the host", &mut context.findings).map(|(name, span)| (name.to_owned(), span));
    let slot_trained = stated::text(&mut fields, "slot_trained", "\"PCI Express gen 1 x8\"", &mut context.findings);
    let guid = fields.optional_text("node_guid", "\"0x0002c90300001234\"", &mut context.findings);
    let options = fields.optional("options");
    let pkeys = fields.optional("pkeys");
    let link_layer = fields.optional_text("link_layer", "\"ethernet\"", &mut context.findings);
    // Messages do not list this key, so the code asks for it only if it is present.
    if let Some(entry) = fields.has("tune_pci").then(|| fields.optional("tune_pci")).flatten() {
        let help = "it is an option of the HCA's driver: write `options = { tune_pci = 1 }`";
        let label = vec![(entry.key_span.clone(), "not here".to_owned())];
        context.findings.error("`tune_pci` belongs into `options`".into(), label, Some(help.into()));
    }
    fields.finish(&mut context.findings);
    let part_span = part.as_ref().map_or(node.span.clone(), |(_, span)| span.clone());
    let part = part.and_then(|(name, span)| context.part(PartKind::Hca, name, span, |all: &Catalog, name| all.hca(name).cloned()));
    let link_layer = checked_link_layer(link_layer, part.as_ref(), pkeys, context);
    let tune_pci = options.is_some_and(|options| driver_options(options, part.as_ref(), &mut context.findings));
    let node_guid = GuidText::read(guid, &mut context.findings);
    let pkeys = pkeys.map_or_else(|| vec![PKey::DEFAULT_FULL], |entry| pkey_table(entry, &mut context.findings));
    let (device, span) = match device {
        Some((device, span)) => (checked_device(device, &span, &mut context.findings), span),
        None => {
            let driver = part.as_ref().map_or("hca", |part: &HcaPart| &part.driver);
            (format!("{driver}{index}"), node.span.clone())
        }
    };
    if let (Some((_, slot)), Some((_, bus))) = (&slot, &shared_bus) {
        let labels = vec![(bus.clone(), "on this bus".into()), (slot.clone(), "and in this slot".into())];
        let help = "remove one of them: `slot` is a part for this HCA alone, `bus` one that the host's table names for several";
        context.findings.error(format!("`{host}/{device}` is in two places"), labels, Some(help.into()));
    }
    Some(HcaDraft { device, span, part, part_span, slot, shared_bus, slot_trained, bus: None, tune_pci, link_layer, pkeys, nic: None, node_guid })
}

/// Returns the link layer of the HCA. Reports an error if its part does not support the layer, or
/// if a setting belongs to the other layer.
fn checked_link_layer(written: Option<(&str, Range<usize>)>, part: Option<&HcaPart>, pkeys: Option<&Entry>, context: &mut Context<'_>) -> LinkLayer {
    let (layer, span) = ethernet::link_layer(written, &mut context.findings);
    let Some(span) = span.filter(|_| layer == LinkLayer::Ethernet) else { return layer };
    if let Some(part) = part.filter(|part| part.ethernet.is_none()) {
        let catalog = context.catalog;
        let can = |name: &&str| catalog.hca(name).is_some_and(|part| part.ethernet.is_some());
        let names: Vec<&str> = catalog.parts(PartKind::Hca).into_iter().filter(can).collect();
        let help = format!("remove `link_layer`, or take an HCA that can be Ethernet's: {}", names.join(", "));
        context.findings.error(format!("the ports of `{}` are InfiniBand's only", part.name), vec![(span, "this link layer".into())], Some(help));
        return LinkLayer::Infiniband;
    }
    if let Some(entry) = pkeys {
        let help = "remove `pkeys`: on Ethernet every port has the default partition, 0xffff, alone";
        let label = vec![(entry.key_span.clone(), "not here".to_owned())];
        context.findings.error("an Ethernet port has no partitions".into(), label, Some(help.into()));
    }
    layer
}

/// Reads the partitions of an HCA. A port holds each partition at most once, and a P_Key without a
/// partition is invalid (IBTA 10.9.1).
fn pkey_table(entry: &Entry, findings: &mut Findings) -> Vec<PKey> {
    let mut keys: Vec<PKey> = Vec::new();
    let Value::Array(items) = &entry.node.value else {
        wrong_kind(entry, "a list of P_Keys, such as [0xffff]", findings);
        return keys;
    };
    for item in items {
        let number = if let Value::Number(Number::Integer(number)) = item.value { u16::try_from(number).ok().map(PKey) } else { None };
        let new = number.filter(|key| key.partition() != 0 && keys.iter().all(|known| known.partition() != key.partition()));
        match new {
            Some(key) => keys.push(key),
            None => {
                let help = "write each partition once: 0x8001 to 0xffff for a full member, 0x0001 to 0x7fff for a limited one";
                findings.error("this is not a P_Key of its own".into(), vec![(item.span.clone(), "here".into())], Some(help.into()));
            }
        }
    }
    if keys.is_empty() || keys.len() > PKEYS_MAX {
        let help = format!("write 1 to {PKEYS_MAX} of them; without `pkeys` an HCA has the default partition, 0xffff");
        findings.error("this P_Key table has no use".into(), vec![(entry.node.span.clone(), format!("{} keys", keys.len()))], Some(help));
    }
    keys
}

fn driver_options(entry: &Entry, part: Option<&HcaPart>, findings: &mut Findings) -> bool {
    let Some(mut fields) = Fields::of("`options`", &entry.node, entry.key_span.clone(), findings) else { return false };
    let tune_pci = fields.optional("tune_pci");
    fields.finish(findings);
    match tune_pci.map(|entry| &entry.node.value) {
        None | Some(Value::Bool(false) | Value::Number(Number::Integer(0))) => false,
        Some(Value::Bool(true) | Value::Number(Number::Integer(1))) => {
            if let Some(part) = part.filter(|part| part.tuned_read_request_bytes.is_none()) {
                let help = "remove it: the part has no `tuned_read_request`, so reads are as large as the host's `read_request` says";
                let label = vec![(entry.node.span.clone(), "this option".to_owned())];
                findings.error(format!("the driver of `{}` has no option `tune_pci`", part.name), label, Some(help.into()));
            }
            true
        }
        Some(_) => {
            tune_pci.into_iter().for_each(|entry| wrong_kind(entry, "0 or 1", findings));
            false
        }
    }
}

fn checked_device(device: &str, span: &Range<usize>, findings: &mut Findings) -> String {
    // Verbs store device names in C strings of 64 bytes.
    let good = (1..64).contains(&device.len()) && device.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if !good {
        let help = "write letters, digits, `-` and `_`, at most 63 of them, such as \"mthca0\"";
        findings.error(format!("`{device}` cannot name a device"), vec![(span.clone(), "this name".into())], Some(help.into()));
    }
    device.to_owned()
}

fn check_devices(what: &str, hcas: &[HcaDraft], findings: &mut Findings) {
    let mut first: BTreeMap<&str, &Range<usize>> = BTreeMap::new();
    for hca in hcas {
        match first.get(hca.device.as_str()) {
            None => {
                first.insert(&hca.device, &hca.span);
            }
            Some(other) => {
                let labels = vec![(hca.span.clone(), "used again here".into()), ((*other).clone(), "first used here".into())];
                let help = "give each HCA of a host its own `device`";
                findings.error(format!("{what} has two HCAs called `{}`", hca.device), labels, Some(help.into()));
            }
        }
    }
}

fn switch(entry: &Entry, context: &mut Context<'_>) -> Option<SwitchDraft> {
    let what = format!("switch `{}`", entry.key);
    let mut fields = Fields::of(what, &entry.node, entry.key_span.clone(), &mut context.findings)?;
    check_name("switch", entry, &mut context.findings);
    let part = fields.required_text("part", "\"...\", a switch part", &mut context.findings);
    let guid = fields.optional_text("node_guid", "\"0x0002c90300001234\"", &mut context.findings);
    fields.finish(&mut context.findings);
    let part = part.and_then(|(name, span)| context.part(PartKind::Switch, name, span, |all: &Catalog, name| all.switch(name).cloned()));
    let node_guid = GuidText::read(guid, &mut context.findings);
    Some(SwitchDraft { name: entry.key.clone(), name_span: entry.key_span.clone(), part, node_guid })
}

/// Checks a name: a label of a host name (RFC 1123), so that programs can look it up. Refuses names
/// that resolvers interpret otherwise. Buses follow the same rule, so that their names need no
/// quotes.
pub(super) fn check_name(what: &str, entry: &Entry, findings: &mut Findings) {
    let name = entry.key.as_str();
    let characters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let ends = !name.starts_with('-') && !name.ends_with('-');
    let why = if !(characters && ends && (1..=63).contains(&name.len())) {
        "it may hold letters, digits and, inside, `-`; at most 63 of them"
    } else if name.bytes().all(|byte| byte.is_ascii_digit()) {
        "a number alone would be read as an address; start with a letter"
    } else if name.eq_ignore_ascii_case("localhost") {
        "every host calls itself that; choose another name"
    } else {
        return;
    };
    findings.error(format!("`{name}` cannot name a {what}"), vec![(entry.key_span.clone(), "this name".into())], Some(why.into()));
}

/// Checks that host and switch names are unique. They share a name space; host names are case-insensitive.
pub(super) fn check_names(hosts: &[HostDraft], switches: &[SwitchDraft], findings: &mut Findings) {
    let mut first: BTreeMap<String, &Range<usize>> = BTreeMap::new();
    let hosts = hosts.iter().map(|host| (&host.name, &host.name_span));
    for (name, span) in hosts.chain(switches.iter().map(|switch| (&switch.name, &switch.name_span))) {
        match first.get(&name.to_ascii_lowercase()) {
            None => {
                first.insert(name.to_ascii_lowercase(), span);
            }
            Some(other) => {
                let labels = vec![(span.clone(), "used again here".into()), ((*other).clone(), "first used here".into())];
                let help = "hosts and switches need names of their own, whatever the case of the letters";
                findings.error(format!("the name `{name}` is used twice"), labels, Some(help.into()));
            }
        }
    }
}

/// Warns of an HCA without cables, whose ports stay `Down`. Users seldom intend this.
pub(super) fn warn_of_idle_hcas(hosts: &[HostDraft], cables: &[CableSpec], findings: &mut Findings) {
    let mut cabled = BTreeSet::new();
    for end in cables.iter().flat_map(|cable| cable.ends) {
        if let PortRef::Hca { host, hca, .. } = end {
            cabled.insert((host, hca));
        }
    }
    for (host_index, host) in hosts.iter().enumerate() {
        for (hca_index, hca) in host.hcas.iter().enumerate() {
            if cabled.contains(&(host_index, hca_index)) {
                continue;
            }
            let message = format!("no cable ends on `{}/{}`: its ports stay down", host.name, hca.device);
            let help = format!("add a cable `from = \"{}/{}/1\"`", host.name, hca.device);
            findings.warning(message, vec![(hca.span.clone(), "this HCA".into())], Some(help));
        }
    }
}
