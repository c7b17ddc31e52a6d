//! Network interfaces: `[interfaces.*]` of all hosts and `[hosts.*.interfaces.*]` of one. Routes through
//! other hosts: `routes` of `[hosts.*]`.

mod addresses;
mod links;
mod routes;
mod tables;
mod write;

use std::ops::Range;

use softband_spec::{FabricSpec, InterfaceAddress, InterfaceKind, InterfaceSpec, MANAGEMENT_NAME};

use crate::diagnostic::Findings;
use crate::document::Entry;
use links::Links;
use tables::Table;
pub(crate) use write::route_text;
pub(super) use write::{write_interfaces, write_routes};

/// An interface with the values that its table gave.
struct Draft {
    name: String,
    name_span: Range<usize>,
    kind: InterfaceKind,
    mtu_bytes: u32,
    /// Addresses with their places. Empty if the file states none.
    addresses: Vec<(InterfaceAddress, Range<usize>)>,
    /// The `subnet` from the table of all hosts.
    subnet: Option<(InterfaceAddress, Range<usize>)>,
}

/// Reads the interfaces into the hosts of `spec`, which have their cables.
pub(super) fn read_interfaces([all, hosts]: [Option<&Entry>; 2], spec: &mut FabricSpec, findings: &mut Findings) {
    let all = tables::of_all_hosts(all, findings);
    let errors = findings.errors.len();
    let links = Links::of(spec);
    let mut drafts: Vec<Vec<Draft>> = Vec::new();
    for (host, entry) in tables::by_host(hosts, "interfaces").into_iter().enumerate().take(spec.hosts.len()) {
        let tables = tables::of_host(&all, entry, findings);
        let own = tables.iter().filter_map(|table| links::draft(host, table, (spec, &links), findings)).collect();
        let own = with_nics(host, own, &tables, (spec, &links), hosts);
        drafts.push(interfaces(host, own, &tables, spec, findings));
    }
    if findings.errors.len() == errors {
        addresses::assign(&mut drafts, spec, findings);
    }
    if !all.is_empty() {
        findings.say_once();
    }
    if findings.errors.len() == errors {
        for (host, drafts) in spec.hosts.iter_mut().zip(drafts) {
            host.interfaces = drafts.into_iter().map(Draft::into_spec).collect();
        }
        routes::read_routes(hosts, spec, findings);
    }
}

/// Adds an interface to each NIC with a cable that no table uses, on its first port with a cable.
fn with_nics(host: usize, mut drafts: Vec<Draft>, tables: &[Table], (spec, links): (&FabricSpec, &Links), hosts: Option<&Entry>) -> Vec<Draft> {
    for (hca, card) in spec.hosts[host].hcas.iter().enumerate().filter(|(_, card)| card.nic.is_some()) {
        let Some(port) = links.cabled_port(host, hca, card) else { continue };
        let kind = InterfaceKind::Ethernet { hca, port };
        let is_used = drafts.iter().any(|draft| draft.kind == kind) || tables.iter().any(|table| table.name == card.device);
        if !is_used {
            let name_span = tables::place_of_nic(hosts, host, &card.device);
            let mtu_bytes = spec.ethernet.mtu_bytes;
            drafts.push(Draft { name: card.device.clone(), name_span, kind, mtu_bytes, addresses: Vec::new(), subnet: None });
        }
    }
    drafts
}

/// Returns the interfaces of a host, the management network first.
fn interfaces(host: usize, mut drafts: Vec<Draft>, tables: &[Table], spec: &FabricSpec, findings: &mut Findings) -> Vec<Draft> {
    // A table or a NIC that takes the name replaces the interface.
    let is_taken = |draft: &Draft| draft.name == MANAGEMENT_NAME || draft.kind == InterfaceKind::Management;
    if tables.iter().all(|table| table.name != MANAGEMENT_NAME) && !drafts.iter().any(is_taken) {
        drafts.push(Draft::management(host, MANAGEMENT_NAME, 0..0));
    }
    drafts.sort_by_key(|draft| draft.kind != InterfaceKind::Management);
    check_links(host, &drafts, spec, findings);
    if drafts.is_empty() && !tables.is_empty() && findings.errors.is_empty() {
        let name = &spec.hosts[host].name;
        let help = "keep `eth0`, the management network, or write an interface of another kind";
        findings.error(format!("host `{name}` has no network interface"), vec![(tables[0].span.clone(), "here".into())], Some(help.into()));
    }
    drafts
}

/// Refuses two interfaces of a host on one link.
fn check_links(host: usize, drafts: &[Draft], spec: &FabricSpec, findings: &mut Findings) {
    for (at, draft) in drafts.iter().enumerate() {
        let Some(other) = drafts[..at].iter().find(|other| same_link(other.kind, draft.kind)) else { continue };
        let message = format!("`{}` and `{}` of host `{}` are on one link", other.name, draft.name, spec.hosts[host].name);
        let labels = vec![(draft.name_span.clone(), "this interface".into()), (other.name_span.clone(), "and this one".into())];
        let help = "give one of them another `port` or `pkey`, or give one interface several `addresses`";
        findings.error(message, labels, Some(help.into()));
    }
}

fn same_link(one: InterfaceKind, two: InterfaceKind) -> bool {
    use InterfaceKind::{Ethernet, Ipoib, Management};
    match (one, two) {
        (Management, Management) => true,
        (Ethernet { hca, port }, Ethernet { hca: other, port: at }) => (hca, port) == (other, at),
        (Ipoib { hca, port, pkey, .. }, Ipoib { hca: other, port: at, pkey: key, .. }) => {
            (hca, port, pkey.partition()) == (other, at, key.partition())
        }
        _ => false,
    }
}

impl Draft {
    fn management(host: usize, name: &str, name_span: Range<usize>) -> Self {
        let usual = InterfaceSpec::management(host);
        let addresses = usual.addresses.into_iter().map(|address| (address, name_span.clone())).collect();
        Self { name: name.to_owned(), name_span, kind: usual.kind, mtu_bytes: usual.mtu_bytes, addresses, subnet: None }
    }

    fn into_spec(self) -> InterfaceSpec {
        let addresses = self.addresses.into_iter().map(|(address, _)| address).collect();
        InterfaceSpec { name: self.name, kind: self.kind, addresses, mtu_bytes: self.mtu_bytes }
    }
}
