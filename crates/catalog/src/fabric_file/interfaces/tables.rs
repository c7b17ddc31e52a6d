//! The tables of interfaces: those of all hosts, and those of one host, which add to them.

use std::ops::Range;

use softband_spec::INTERFACE_NAME_MAX;

use crate::diagnostic::Findings;
use crate::document::{Entry, Value, wrong_kind};

/// The key that only a table of all hosts has.
const SUBNET: &str = "subnet";
const ADDRESSES: &str = "addresses";

/// The table of an interface of one host.
#[derive(Clone)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) span: Range<usize>,
    /// Keys of the table. A key of the host's table replaces that of all hosts.
    pub(super) entries: Vec<Entry>,
    /// The value of `subnet`, unless the host states addresses.
    pub(super) subnet: Option<Entry>,
    /// Whether the file says `false`: the host has no such interface.
    pub(super) is_absent: bool,
}

/// Reads `[interfaces.*]`.
pub(super) fn of_all_hosts(entry: Option<&Entry>, findings: &mut Findings) -> Vec<Table> {
    let Some(entry) = entry else { return Vec::new() };
    let mut tables = tables(entry, "[interfaces.ib0]", findings);
    for table in &mut tables {
        if let Some(place) = table.entries.iter().find(|entry| entry.key == ADDRESSES) {
            let help = "write `subnet = \"10.1.0.0/16\"`: host 0 has its first address, host 1 the next";
            let label = vec![(place.key_span.clone(), "not here".to_owned())];
            findings.error(format!("all hosts cannot have the same address on `{}`", table.name), label, Some(help.into()));
        }
        let subnet = table.entries.iter().position(|entry| entry.key == SUBNET);
        table.subnet = subnet.map(|at| table.entries.remove(at));
    }
    tables
}

/// Returns the entry of a key of each host, in their order.
pub(super) fn by_host<'a>(hosts: Option<&'a Entry>, key: &str) -> Vec<Option<&'a Entry>> {
    hosts.map_or(&[][..], children).iter().map(|host| children(host).iter().find(|entry| entry.key == key)).collect()
}

fn children(entry: &Entry) -> &[Entry] {
    if let Value::Table(entries) = &entry.node.value { entries } else { &[] }
}

/// Returns the place of a host's NIC in the file.
pub(super) fn place_of_nic(hosts: Option<&Entry>, host: usize, name: &str) -> Range<usize> {
    let host = hosts.and_then(|hosts| children(hosts).get(host));
    let nics = host.and_then(|host| children(host).iter().find(|entry| entry.key == "nics"));
    let nic = nics.and_then(|nics| children(nics).iter().find(|entry| entry.key == name));
    nic.map_or(0..0, |nic| nic.key_span.clone())
}

/// Returns the tables of a host: those of all hosts in their order, with its own keys, and then its
/// own tables.
pub(super) fn of_host(all: &[Table], entry: Option<&Entry>, findings: &mut Findings) -> Vec<Table> {
    let own = entry.map_or(Vec::new(), |entry| tables(entry, "[hosts.a.interfaces.ib0]", findings));
    let mut merged: Vec<Table> = all.to_vec();
    for table in own {
        match merged.iter_mut().find(|known| known.name == table.name) {
            Some(known) => known.add(table),
            None => merged.push(table),
        }
    }
    merged
}

impl Table {
    /// Replaces keys by those of a host's own table.
    fn add(&mut self, own: Self) {
        self.entries.retain(|entry| own.entries.iter().all(|other| other.key != entry.key));
        if own.entries.iter().any(|entry| entry.key == ADDRESSES) {
            self.subnet = None;
        }
        self.entries.extend(own.entries);
        (self.span, self.is_absent) = (own.span, own.is_absent);
    }
}

fn tables(entry: &Entry, example: &str, findings: &mut Findings) -> Vec<Table> {
    let Value::Table(entries) = &entry.node.value else {
        wrong_kind(entry, &format!("a table of tables, such as `{example}`"), findings);
        return Vec::new();
    };
    entries.iter().filter_map(|entry| table(entry, findings)).collect()
}

fn table(entry: &Entry, findings: &mut Findings) -> Option<Table> {
    check_name(entry, findings);
    let (entries, is_absent) = match &entry.node.value {
        Value::Table(entries) => (entries.clone(), false),
        Value::Bool(false) => (Vec::new(), true),
        _ => {
            wrong_kind(entry, "a table, or `false` for a host without this interface", findings);
            return None;
        }
    };
    Some(Table { name: entry.key.clone(), span: entry.key_span.clone(), entries, subnet: None, is_absent })
}

/// Checks a name. Programs write it into commands and paths, and Linux refuses `/`, `:` and spaces.
fn check_name(entry: &Entry, findings: &mut Findings) {
    let name = entry.key.as_str();
    let characters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let why = if name == "lo" {
        "every host has `lo`; choose another name, such as `ib0`".to_owned()
    } else if name.len() > INTERFACE_NAME_MAX {
        format!("it has {} bytes, and Linux keeps {INTERFACE_NAME_MAX}; choose a shorter name", name.len())
    } else if !(characters && begins) {
        "write letters and digits, and behind the first `.`, `_` or `-`".to_owned()
    } else {
        return;
    };
    findings.error(format!("`{name}` cannot name an interface"), vec![(entry.key_span.clone(), "this name".into())], Some(why));
}
