//! The link of an interface: HCA, port, partition, mode and MTU.

use std::collections::BTreeMap;
use std::ops::Range;

use softband_spec::{FabricSpec, HcaSpec, InterfaceKind, IpoibMode, PortRef, settings_of};
use softband_types::{LinkLayer, PKey, PortNumber};

use super::tables::Table;
use super::{Draft, addresses};
use crate::diagnostic::{Findings, suggest};
use crate::document::Fields;

const KINDS: [&str; 3] = ["ipoib", "ethernet", "management"];
/// Bytes of the header in front of each IP packet (RFC 4391, section 6).
const IPOIB_HEADER_BYTES: u32 = 4;
/// MTU of the group for broadcasts unless the administrator raises it (RFC 4391, section 4).
const GROUP_MTU_BYTES: u32 = 2_048;
/// Largest IP packet of connected mode in Linux: 64 KiB less a header and its alignment.
const CONNECTED_MTU_BYTES: u32 = 65_520;
/// Least MTU of IPv4 (RFC 791).
const MTU_MIN: u32 = 68;

/// Cables of the fabric by port, and the InfiniBand link with the least MTU.
pub(super) struct Links {
    cables: BTreeMap<PortRef, usize>,
    /// MTU in bytes with the index of a cable that has it.
    narrowest: Option<(u32, usize)>,
}

impl Links {
    pub(super) fn of(spec: &FabricSpec) -> Self {
        let cables = spec.cables.iter().enumerate().flat_map(|(index, cable)| cable.ends.map(|end| (end, index))).collect();
        let infiniband = spec.cables.iter().enumerate().filter(|(_, cable)| spec.link_layer(cable.ends[0]) == LinkLayer::Infiniband);
        let narrowest = infiniband.map(|(index, cable)| (settings_of(spec, cable).mtu.bytes(), index)).min();
        Self { cables, narrowest }
    }

    /// Returns the first port of a card with a cable.
    pub(super) fn cabled_port(&self, host: usize, hca: usize, card: &HcaSpec) -> Option<PortNumber> {
        (1..=card.part.ports).map(PortNumber).find(|port| self.has_cable(host, hca, *port))
    }

    fn has_cable(&self, host: usize, hca: usize, port: PortNumber) -> bool {
        self.cables.contains_key(&PortRef::Hca { host, hca, port })
    }
}

/// Reads the table of an interface. Returns `None` after an error, or if the host has no such
/// interface.
pub(super) fn draft(host: usize, table: &Table, (spec, links): (&FabricSpec, &Links), findings: &mut Findings) -> Option<Draft> {
    if table.is_absent {
        return None;
    }
    let mut reader =
        Reader { fields: Fields::new(format!("interface `{}`", table.name), table.span.clone(), &table.entries), findings, spec, links, host, table };
    let (kind, span) = reader.fields.required_text("kind", "\"ipoib\"", reader.findings)?;
    let draft = match kind {
        "management" => reader.management(),
        "ipoib" => reader.ipoib(),
        "ethernet" => reader.ethernet(),
        _ => {
            let help = suggest(kind, "kinds of interfaces", &KINDS);
            reader.findings.error(format!("no interface is of kind `{kind}`"), vec![(span, "this kind".into())], Some(help));
            return None;
        }
    };
    let Reader { fields, findings, .. } = reader;
    fields.finish(findings);
    draft
}

fn kind_of(layer: LinkLayer) -> &'static str {
    match layer {
        LinkLayer::Infiniband => "InfiniBand",
        LinkLayer::Ethernet => "Ethernet",
    }
}

struct Reader<'a, 'b> {
    fields: Fields<'a>,
    findings: &'b mut Findings,
    spec: &'a FabricSpec,
    links: &'a Links,
    host: usize,
    table: &'a Table,
}

impl Reader<'_, '_> {
    fn fail(&mut self, message: String, span: Range<usize>, help: String) {
        self.findings.error(message, vec![(span, "here".into())], Some(help));
    }

    fn management(&mut self) -> Option<Draft> {
        if let Some(entry) = &self.table.subnet {
            let help = "remove `subnet`: the addresses of this network are 198.18.0.1 and on, in the order of the hosts".to_owned();
            self.fail("the management network has its own addresses".into(), entry.key_span.clone(), help);
            return None;
        }
        Some(Draft::management(self.host, &self.table.name, self.table.span.clone()))
    }

    fn ipoib(&mut self) -> Option<Draft> {
        let link = self.link(LinkLayer::Infiniband);
        let mode = self.mode();
        let pkey = link.and_then(|(hca, _)| self.pkey(hca));
        let addresses = self.addresses();
        let subnet = self.table.subnet.as_ref().and_then(|entry| addresses::subnet(entry, self.findings));
        let mtu_bytes = mode.and_then(|mode| self.ipoib_mtu(mode));
        let ((hca, port), mode, pkey, mtu_bytes) = (link?, mode?, pkey?, mtu_bytes?);
        let (name, name_span) = (self.table.name.clone(), self.table.span.clone());
        Some(Draft { name, name_span, kind: InterfaceKind::Ipoib { hca, port, mode, pkey }, mtu_bytes, addresses, subnet })
    }

    fn ethernet(&mut self) -> Option<Draft> {
        let link = self.link(LinkLayer::Ethernet);
        let addresses = self.addresses();
        let subnet = self.table.subnet.as_ref().and_then(|entry| addresses::subnet(entry, self.findings));
        let most = self.spec.ethernet.mtu_bytes;
        let why = format!("`[ethernet] mtu` is {most}");
        let mtu_bytes = self.mtu(most, (most, &why));
        let ((hca, port), mtu_bytes) = (link?, mtu_bytes?);
        let (name, name_span) = (self.table.name.clone(), self.table.span.clone());
        Some(Draft { name, name_span, kind: InterfaceKind::Ethernet { hca, port }, mtu_bytes, addresses, subnet })
    }

    /// Reads the card and its port. The default is the first port with a cable of [`Self::usual_card`].
    fn link(&mut self, layer: LinkLayer) -> Option<(usize, PortNumber)> {
        let hca = self.fields.optional_text("hca", "\"mthca0\", an HCA of the host", self.findings);
        let nic = match layer {
            LinkLayer::Ethernet => self.fields.optional_text("nic", "\"eth1\", a NIC of the host", self.findings),
            LinkLayer::Infiniband => None,
        };
        let port = self.fields.optional_integer("port", self.findings);
        let card = match (hca, nic) {
            (Some((_, span)), Some(_)) => {
                let help = "write `nic` for a NIC, or `hca` for an HCA with Ethernet ports";
                self.fail(format!("`{}` is on two cards", self.table.name), span, help.into());
                None
            }
            (Some(stated), None) => self.card(stated, layer, false),
            (None, Some(stated)) => self.card(stated, layer, true),
            (None, None) => self.usual_card(layer),
        }?;
        Some((card, self.port(card, port)?))
    }

    /// Returns the card that the file names.
    fn card(&mut self, (device, span): (&str, Range<usize>), layer: LinkLayer, is_nic: bool) -> Option<usize> {
        let (host, hcas) = (&self.spec.hosts[self.host].name, &self.spec.hosts[self.host].hcas);
        let is_one = |card: &&HcaSpec| card.nic.is_some() == is_nic;
        let Some(card) = hcas.iter().position(|card| card.device == device).filter(|card| is_one(&&hcas[*card])) else {
            let known: Vec<&str> = hcas.iter().filter(is_one).map(|card| card.device.as_str()).collect();
            let (one, all) = if is_nic { ("NIC", "NICs") } else { ("HCA", "HCAs") };
            self.fail(format!("host `{host}` has no {one} `{device}`"), span, suggest(device, all, &known));
            return None;
        };
        if hcas[card].link_layer != layer {
            let help = format!("name an {} HCA, or write another `kind`", kind_of(layer));
            self.fail(format!("the ports of `{host}/{device}` are of the other link layer"), span, help);
            return None;
        }
        Some(card)
    }

    /// Returns the card of an interface whose table names none: the NIC of its name, the first NIC, or
    /// the first HCA of the layer.
    fn usual_card(&mut self, layer: LinkLayer) -> Option<usize> {
        let (host, hcas) = (&self.spec.hosts[self.host].name, &self.spec.hosts[self.host].hcas);
        let name = &self.table.name;
        let of_layer = |card: &&HcaSpec| card.link_layer == layer;
        let nics = || hcas.iter().enumerate().filter(|(_, card)| card.nic.is_some() && of_layer(card)).map(|(index, _)| index);
        let named = nics().find(|index| hcas[*index].device == *name).or_else(|| nics().next());
        let found = named.or_else(|| hcas.iter().position(|card| of_layer(&card)));
        if found.is_none() {
            let and_no_nic = if layer == LinkLayer::Ethernet { ", and no NIC" } else { "" };
            let help = format!("add one, or write `{name} = false` under `[hosts.{host}.interfaces]`");
            self.fail(format!("host `{host}` has no {} HCA for `{name}`{and_no_nic}", kind_of(layer)), self.table.span.clone(), help);
        }
        found
    }

    fn port(&mut self, hca: usize, stated: Option<(i64, Range<usize>)>) -> Option<PortNumber> {
        let host = &self.spec.hosts[self.host];
        let spec = &host.hcas[hca];
        let place = format!("{}/{}", host.name, spec.device);
        let Some((number, span)) = stated else {
            let cabled = self.links.cabled_port(self.host, hca, spec);
            if cabled.is_none() {
                self.without_cable(&format!("{place}/1"), self.table.span.clone());
            }
            return cabled;
        };
        let count = spec.part.ports;
        let found = (1..=count).map(PortNumber).find(|port| i64::from(port.0) == number);
        let Some(port) = found else {
            self.fail(format!("`{place}` has no port {number}"), span, format!("write 1 to {count}"));
            return None;
        };
        if !self.links.has_cable(self.host, hca, port) {
            self.without_cable(&format!("{place}/{}", port.0), span);
            return None;
        }
        Some(port)
    }

    fn without_cable(&mut self, port: &str, span: Range<usize>) {
        let message = format!("no cable ends on `{port}`, so `{}` has no link", self.table.name);
        self.fail(message, span, format!("add a cable `from = \"{port}\"`, or name a port with a cable"));
    }

    fn mode(&mut self) -> Option<IpoibMode> {
        let Some((text, span)) = self.fields.optional_text("mode", "\"datagram\"", self.findings) else {
            return (!self.fields.has("mode")).then_some(IpoibMode::Datagram);
        };
        let found = IpoibMode::ALL.into_iter().find(|mode| mode.name() == text);
        if found.is_none() {
            let help = suggest(text, "modes", &IpoibMode::ALL.map(IpoibMode::name));
            self.fail(format!("IPoIB has no mode `{text}`"), span, help);
        }
        found
    }

    /// Reads the partition. The default is the first that the port is a full member of.
    fn pkey(&mut self, hca: usize) -> Option<PKey> {
        let stated = self.fields.optional_integer("pkey", self.findings);
        let host = &self.spec.hosts[self.host];
        let (keys, device) = (&host.hcas[hca].pkeys, format!("{}/{}", host.name, host.hcas[hca].device));
        let written: Vec<String> = keys.iter().map(|key| format!("{:#06x}", key.0)).collect();
        let (wanted, span) = match stated {
            Some((number, span)) => (u16::try_from(number).ok().map(|number| PKey(number).partition()), span),
            None if self.fields.has("pkey") => return None,
            None => (keys.iter().find(|key| key.is_full_member()).map(|key| key.partition()), self.table.span.clone()),
        };
        let found = keys.iter().find(|key| Some(key.partition()) == wanted).copied();
        let Some(key) = found else {
            let help = format!("add it to `pkeys` of the HCA, or write one of {}", written.join(", "));
            self.fail(format!("the ports of `{device}` are in no such partition"), span, help);
            return None;
        };
        if !key.is_full_member() {
            // RFC 4391, section 4: members of a link reach each other, and limited members do not.
            let help = format!("write {:#06x} into `pkeys` of the HCA", key.0 | 0x8000);
            self.fail(format!("`{device}` is a limited member of partition {:#06x}, which reaches full members only", key.0), span, help);
            return None;
        }
        Some(key)
    }

    fn addresses(&mut self) -> Vec<addresses::Placed> {
        let Some(entry) = self.fields.optional("addresses") else { return Vec::new() };
        addresses::list(entry, self.findings)
    }

    fn ipoib_mtu(&mut self, mode: IpoibMode) -> Option<u32> {
        if mode == IpoibMode::Connected {
            let why = "it is the most of connected mode";
            return self.mtu(CONNECTED_MTU_BYTES, (CONNECTED_MTU_BYTES, why));
        }
        let (link, cable) = self.links.narrowest?;
        let [from, to] = self.spec.cables[cable].ends.map(|end| self.spec.port_name(end));
        let why = format!("datagrams have {IPOIB_HEADER_BYTES} B of header, and the link from `{from}` to `{to}` carries {link} B");
        self.mtu(GROUP_MTU_BYTES.min(link) - IPOIB_HEADER_BYTES, (link - IPOIB_HEADER_BYTES, &why))
    }

    fn mtu(&mut self, usual: u32, (most, why): (u32, &str)) -> Option<u32> {
        let Some((number, span)) = self.fields.optional_integer("mtu", self.findings) else {
            return (!self.fields.has("mtu")).then_some(usual);
        };
        let found = u32::try_from(number).ok().filter(|bytes| (MTU_MIN..=most).contains(bytes));
        if found.is_none() {
            let message = format!("`mtu` of `{}` cannot be {number}", self.table.name);
            self.fail(message, span, format!("write {MTU_MIN} to {most}: {why}"));
        }
        found
    }
}
