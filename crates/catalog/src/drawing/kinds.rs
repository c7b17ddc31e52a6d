//! The kinds of cables, hosts and switches of a fabric, each listed once.

use super::levels::Levels;
use crate::draw::cable_label;
use softband_model::parts::Medium;
use softband_spec::{FabricSpec, HcaSpec, HostSpec};
use std::collections::BTreeMap;

/// Longest list of names before it is cut.
const NAMES_MAX: usize = 6;
/// Most rows of consecutive names before they merge into one row.
const ROWS_MAX: usize = 4;

/// Cables with the same label.
pub(super) struct Kind {
    pub(super) label: String,
    pub(super) letter: String,
    pub(super) medium: Medium,
    pub(super) count: usize,
    /// Number of cables by pair of levels, the lower level first.
    pub(super) between: BTreeMap<(usize, usize), usize>,
}

pub(super) struct Kinds {
    pub(super) all: Vec<Kind>,
    of_cable: Vec<usize>,
}

impl Kinds {
    pub(super) fn of(spec: &FabricSpec, levels: &Levels) -> Self {
        let (mut all, mut of_cable, mut known) = (Vec::<Kind>::new(), Vec::new(), BTreeMap::new());
        for cable in &spec.cables {
            let label = cable_label(spec, cable);
            let number = *known.entry(label.clone()).or_insert(all.len());
            if number == all.len() {
                all.push(Kind { label, letter: letter(number), medium: cable.part.medium, count: 0, between: BTreeMap::new() });
            }
            let [a, b] = cable.ends.map(|end| levels.of_port(end));
            all[number].count += 1;
            *all[number].between.entry((a.min(b), a.max(b))).or_default() += 1;
            of_cable.push(number);
        }
        Self { all, of_cable }
    }

    pub(super) fn of_cable(&self, cable: usize) -> &Kind {
        &self.all[self.of_cable[cable]]
    }

    /// Returns whether the picture must distinguish kinds.
    pub(super) fn are_many(&self) -> bool {
        self.all.len() > 1
    }
}

/// Returns A to Z, then A1, B1 and so on.
fn letter(number: usize) -> String {
    let letter = (b'A' + (number % 26) as u8) as char;
    if number < 26 { letter.to_string() } else { format!("{letter}{}", number / 26) }
}

pub(super) fn class_of(medium: Medium) -> &'static str {
    if medium == Medium::Copper { "copper" } else { "optical" }
}

/// Returns a line for each kind of host and each kind of switch.
pub(super) fn of_nodes(spec: &FabricSpec) -> Vec<String> {
    let hosts = grouped(spec.hosts.iter().map(|host| (host_label(host), host.name.as_str())));
    let switches = grouped(spec.switches.iter().map(|switch| (switch.part.name.clone(), switch.name.as_str())));
    hosts.into_iter().chain(switches).map(|(what, names)| format!("{names}: {what}")).collect()
}

/// Returns a label, such as `se7520jr23d; mthca0 voltaire-ddr in pcie-gen1-x8`.
fn host_label(host: &HostSpec) -> String {
    let hca = |hca: &HcaSpec| {
        let tuned = if hca.tune_pci { ", tune_pci" } else { "" };
        format!("{} {} in {}{tuned}", hca.device, hca.part.name, hca.bus.name)
    };
    [host.part.name.clone()].into_iter().chain(host.hcas.iter().map(hca)).collect::<Vec<_>>().join("; ")
}

/// Groups names by label, in the order of the first name of each group.
fn grouped<'a>(nodes: impl Iterator<Item = (String, &'a str)>) -> Vec<(String, String)> {
    let mut order: BTreeMap<String, usize> = BTreeMap::new();
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (what, name) in nodes {
        let group = *order.entry(what.clone()).or_insert(groups.len());
        if group == groups.len() {
            groups.push((what, Vec::new()));
        }
        groups[group].1.push(name);
    }
    groups.into_iter().map(|(what, of)| (what, names(&of))).collect()
}

/// Returns `a, b, c`, or `leaf0 to leaf127, spine0 to spine127 (256)`.
pub(super) fn names(all: &[&str]) -> String {
    if all.len() <= NAMES_MAX {
        return all.join(", ");
    }
    let stem = |name: &str| name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '-').to_owned();
    let mut rows: Vec<(&str, &str)> = Vec::new();
    for name in all {
        match rows.last_mut() {
            Some((_, last)) if stem(last) == stem(name) => *last = name,
            _ => rows.push((name, name)),
        }
    }
    if rows.len() > ROWS_MAX {
        rows = vec![(all[0], all[all.len() - 1])];
    }
    let rows: Vec<String> =
        rows.into_iter().map(|(first, last)| if first == last { first.to_owned() } else { format!("{first} to {last}") }).collect();
    format!("{} ({})", rows.join(", "), all.len())
}
