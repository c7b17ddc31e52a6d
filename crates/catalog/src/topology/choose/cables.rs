//! Cable parts. A topology has no lengths, so short copper leads to hosts and fibre to switches.

use std::collections::BTreeMap;
use std::ops::Range;

use softband_model::parts::Medium;
use softband_types::{LinkLayer, LinkRate};

use super::own::OwnParts;
use super::{Dump, Graph};
use crate::catalog::Catalog;
use crate::parts::{CableTemplate, PartKind};
use crate::topology::Trouble;
use crate::topology::read::Kind;

/// The cable of all links of a rate.
pub(in crate::topology) struct CableChoice {
    pub(in crate::topology) part: String,
    /// Length, if the part comes in any length.
    pub(in crate::topology) length: Option<&'static str>,
    pub(in crate::topology) why: String,
    /// Line of the first link.
    pub(in crate::topology) place: Range<usize>,
}

/// Assumed lengths by medium.
const COPPER: (u64, &str) = (1_000, "1 m");
const OPTICAL: (u64, &str) = (10_000, "10 m");

pub(super) fn choose(dump: &Dump, graph: &Graph, catalog: &Catalog, own: &mut OwnParts) -> Result<BTreeMap<(LinkRate, bool), CableChoice>, Trouble> {
    let mut choices: BTreeMap<(LinkRate, bool), CableChoice> = BTreeMap::new();
    for link in &graph.links {
        let is_between_switches = link.ends.iter().all(|(node, _)| dump.nodes[*node].kind == Kind::Switch);
        let key = (link.rate, is_between_switches);
        if choices.contains_key(&key) {
            continue;
        }
        let node = &dump.nodes[link.ends[0].0];
        let place = node.lines.iter().find(|line| line.port == link.ends[0].1).map_or(0..0, |line| line.span.clone());
        let no_part = || Trouble::at(&place, format!("no cable part carries {}", link.rate), "add a cable part to the catalogue");
        let (part, length) = cable(link.rate, is_between_switches, catalog, own).ok_or_else(no_part)?;
        let ends = if is_between_switches { "between switches" } else { "to hosts" };
        let long = length.map_or(String::new(), |length| format!(", {length} long"));
        let why = format!("guessed cable `{part}`{long} for {} links {ends}: the file has no cables and lengths", link.rate);
        choices.insert(key, CableChoice { part, length, why, place });
    }
    Ok(choices)
}

/// Returns a cable that limits a link to exactly this width, because the file of a fabric states no
/// width.
fn cable(rate: LinkRate, is_between_switches: bool, catalog: &Catalog, own: &mut OwnParts) -> Option<(String, Option<&'static str>)> {
    let names = catalog.parts(PartKind::Cable);
    let carries = |name: &&str| catalog.cable_template(name).filter(|cable| cable.part.ethernet.is_none() && cable.part.speed_max >= rate.speed);
    let preferred = if is_between_switches { Medium::Optical } else { Medium::Copper };
    let usual = names.iter().filter_map(|name| carries(name).map(|cable| (*name, cable)));
    let usual = usual.filter(|(_, cable)| cable.adjustable && cable.part.width_max == rate.width && is_allowed(cable, rate, catalog));
    let best = usual.min_by_key(|(name, cable)| (cable.part.medium != preferred, cable.part.speed_max, *name));
    if let Some((name, cable)) = best {
        return Some((name.to_owned(), Some(length(cable).1)));
    }
    // A part without length limits suits any width.
    let any = names.iter().filter_map(|name| catalog.cable_template(name).map(|cable| (*name, cable)));
    let any = any.filter(|(_, cable)| cable.part.ethernet.is_none() && cable.adjustable && cable.limits.is_none());
    let (name, cable) = any.min_by_key(|(name, cable)| (cable.part.speed_max < rate.speed, *name))?;
    let mut changes = vec![("width_max", rate.width.to_string())];
    if cable.part.speed_max < rate.speed {
        changes.push(("speed_max", rate.speed.to_string()));
    }
    let part = own.changed(PartKind::Cable, name, &changes, &rate.width.to_string().to_lowercase(), catalog)?;
    Some((part, Some(length(cable).1)))
}

fn length(cable: &CableTemplate) -> (u64, &'static str) {
    match cable.part.medium {
        Medium::Copper => COPPER,
        Medium::Optical => OPTICAL,
    }
}

fn is_allowed(cable: &CableTemplate, rate: LinkRate, catalog: &Catalog) -> bool {
    let Some(name) = &cable.limits else { return true };
    let limits = catalog.limits(name).unwrap_or_default();
    limits.iter().any(|limit| limit.rate == (LinkLayer::Infiniband, rate) && length(cable).0 <= limit.millimetres)
}
