//! Checks the numbers of `[generate]`: from a kind and its measures to a shape.

use softband_spec::LIDS;
use softband_types::counted;
use std::ops::Range;

use super::shape::{self, Dragonfly, Shape, Tree};
use crate::diagnostic::{Findings, suggest};
use crate::document::{Entry, Fields, Node, Value, wrong_kind};
use crate::units::Number;

/// Kinds of generated fabrics.
pub(super) const KINDS: [&str; 6] = ["back-to-back", "star", "fat-tree", "torus", "hypercube", "dragonfly"];
const TORUS_DIMENSIONS: Range<usize> = 2..4;

/// Source of the measures.
pub(super) struct Reader<'f, 'a> {
    pub(super) fields: &'f mut Fields<'a>,
    pub(super) findings: &'f mut Findings,
    /// Ports of the switch part.
    pub(super) ports: usize,
}

impl Reader<'_, '_> {
    pub(super) fn shape(&mut self, kind: &str) -> Option<Shape> {
        match kind {
            "back-to-back" => self.back_to_back(),
            "star" => self.star(),
            "fat-tree" => self.fat_tree(),
            "torus" => self.torus(),
            "hypercube" => self.hypercube(),
            _ => self.dragonfly(),
        }
    }

    fn back_to_back(&mut self) -> Option<Shape> {
        let (hosts, span) = self.count("hosts", 1)?.unwrap_or((2, 0..0));
        self.refuse_unless(hosts == 2, span, || {
            (
                format!("{} not back to back", counted(hosts, "host is", "hosts are")),
                "a cable has two ends: write `hosts = 2`, or another `kind`".into(),
            )
        })?;
        Some(shape::back_to_back())
    }

    fn star(&mut self) -> Option<Shape> {
        let ports = self.ports_in_use()?;
        let (hosts, span) = self.count("hosts", 1)?.unwrap_or((ports, 0..0));
        self.refuse_unless(hosts <= ports, span, || {
            let help = format!("write at most {ports}, name a switch with more ports, or take `kind = \"fat-tree\"`");
            (format!("{hosts} hosts do not fit on a switch of {}", counted(ports, "port", "ports")), help)
        })?;
        Some(shape::star(hosts))
    }

    fn fat_tree(&mut self) -> Option<Shape> {
        let ports = self.ports_in_use()?;
        let span = self.span_of("ports");
        self.refuse_unless(ports >= 2, span, || {
            let help = "one port leads down and one up at the least: write `ports = 2` or more, or name another switch";
            (format!("a fat tree cannot use {} of each switch", counted(ports, "port", "ports")), help.into())
        })?;
        let (downs, ups) = shape::leaf_ports(ports, self.oversubscription()?);
        let levels = self.count("levels", 1)?;
        let hosts = self.count("hosts", 1)?;
        let most = |levels| Tree::hosts_max(ports, downs, levels);
        let fitting = |hosts: usize| if hosts <= most(2) { 2 } else { 3 };
        let (levels, span) = levels.unwrap_or_else(|| (hosts.as_ref().map_or(2, |(hosts, _)| fitting(*hosts)), 0..0));
        let help = "write 2 (leaves and spines) or 3 (with cores above)";
        self.refuse_unless((2..=3).contains(&levels), span, || {
            (format!("a fat tree cannot have {} here", counted(levels, "level", "levels")), help.into())
        })?;
        let (hosts, span) = hosts.unwrap_or((most(levels), 0..0));
        self.refuse_unless(hosts <= most(levels), span, || {
            let more = if levels == 2 { "use `levels = 3`, or " } else { "" };
            let help = format!("write at most {}; {more}name a switch with more ports", most(levels));
            (format!("{hosts} hosts do not fit in a fat tree of {levels} levels with {ports} ports at each switch"), help)
        })?;
        let measures = ["hosts", "levels", "ports"];
        self.check_lids(hosts, hosts.div_ceil(downs), &measures)?; // before the code builds anything large
        let shape = Tree { hosts, ports, downs, ups, levels }.shape();
        self.check_lids(hosts, shape.switches.len(), &measures)?;
        Some(shape)
    }

    /// Reads the largest number of a leaf's ports to hosts for each port up: at least 1.
    fn oversubscription(&mut self) -> Option<f64> {
        let Some(entry) = self.fields.optional("oversubscription") else { return Some(1.0) };
        let ratio = match entry.node.value {
            Value::Number(Number::Integer(ratio)) => ratio as f64,
            Value::Number(Number::Decimal(ratio)) => ratio,
            _ => {
                wrong_kind(entry, "a number such as 2 or 1.5", self.findings);
                return None;
            }
        };
        self.refuse_unless(ratio.is_finite() && ratio >= 1.0, entry.node.span.clone(), || {
            (format!("`oversubscription` cannot be {ratio}"), "write how many ports to hosts there may be for each one to spines: 1, 1.5, 2".into())
        })?;
        Some(ratio)
    }

    fn torus(&mut self) -> Option<Shape> {
        let entry = self.fields.required("dimensions", "[4, 4]", self.findings)?;
        let sides = self.sides(entry)?;
        let hosts = self.hosts_per_switch(2 * sides.len())?;
        let switches = sides.iter().try_fold(1_usize, |product, side| product.checked_mul(*side)).unwrap_or(usize::MAX);
        self.check_lids(switches.saturating_mul(hosts), switches, &["dimensions"])?;
        Some(shape::torus(&sides, hosts))
    }

    fn sides(&mut self, entry: &Entry) -> Option<Vec<usize>> {
        let Value::Array(items) = &entry.node.value else {
            wrong_kind(entry, "a list of two or three numbers, such as [4, 4]", self.findings);
            return None;
        };
        let side = |item: &Node| match item.value {
            Value::Number(Number::Integer(side)) => usize::try_from(side).ok().filter(|side| *side >= 2),
            _ => None,
        };
        if let Some(wrong) = items.iter().find(|item| side(item).is_none()) {
            let help = "write whole numbers of 2 and more; leave out a dimension that is 1 long";
            self.findings.error(
                "a dimension of a torus is at least 2 switches long".into(),
                vec![(wrong.span.clone(), "this one".into())],
                Some(help.into()),
            );
            return None;
        }
        self.refuse_unless(TORUS_DIMENSIONS.contains(&items.len()), entry.node.span.clone(), || {
            (
                format!("a torus cannot have {} here", counted(items.len(), "dimension", "dimensions")),
                "write two or three, such as [4, 4] or [4, 4, 4]".into(),
            )
        })?;
        Some(items.iter().filter_map(side).collect())
    }

    fn hypercube(&mut self) -> Option<Shape> {
        let entry = self.fields.required("dimension", "3", self.findings)?;
        let (dimension, span) = self.count_of(entry, 1)?;
        // 2^16 switches need more LIDs than a subnet has.
        self.refuse_unless(dimension <= 15, span, || (format!("a hypercube of dimension {dimension} is too large"), "write at most 15".into()))?;
        let hosts = self.hosts_per_switch(dimension)?;
        self.check_lids(hosts << dimension, 1 << dimension, &["dimension"])?;
        Some(shape::hypercube(dimension, hosts))
    }

    /// Reads a dragonfly. Defaults are balanced. A switch has as many global links as hosts, a
    /// group twice as many switches. Every two groups share a link.
    fn dragonfly(&mut self) -> Option<Shape> {
        let written = self.fields.has("hosts_per_switch");
        let hosts = self.count("hosts_per_switch", 1)?.map_or((self.ports + 1) / 4, |(hosts, _)| hosts).max(1);
        let (globals, globals_span) = self.count("global_links", 1)?.unwrap_or((hosts, 0..0));
        let (group, group_span) = self.count("switches_per_group", 2)?.unwrap_or((2 * hosts, 0..0));
        let group = if written { group } else { group.max(2) };
        let links = group.saturating_mul(globals);
        let (groups, span) = self.count("groups", 2)?.unwrap_or((links + 1, 0..0));
        self.refuse_unless(groups <= links + 1, span, || {
            let help = format!("write at most {}, or more `global_links` or `switches_per_group`", links + 1);
            (format!("{groups} groups need {} from each to the others, and a group has {links}", counted(groups - 1, "link", "links")), help)
        })?;
        let place = [group_span, globals_span].into_iter().find(|span| !span.is_empty()).unwrap_or_else(|| self.span_of("hosts_per_switch"));
        self.check_ports(hosts, group - 1 + globals, place)?;
        let switches = groups.saturating_mul(group);
        self.check_lids(switches.saturating_mul(hosts), switches, &["groups", "switches_per_group", "global_links", "hosts_per_switch"])?;
        Some(Dragonfly { groups, switches_per_group: group, hosts_per_switch: hosts, global_links: globals }.shape())
    }

    fn hosts_per_switch(&mut self, others: usize) -> Option<usize> {
        let (hosts, span) = self.count("hosts_per_switch", 1)?.unwrap_or((1, 0..0));
        self.check_ports(hosts, others, span)?;
        Some(hosts)
    }

    fn check_ports(&mut self, hosts: usize, others: usize, span: Range<usize>) -> Option<()> {
        let (needed, ports) = (hosts.saturating_add(others), self.ports);
        self.refuse_unless(needed <= ports, span, || {
            let help = "write fewer, or name a switch with more ports";
            let (hosts, ports) = (counted(hosts, "port", "ports"), counted(ports, "port", "ports"));
            (format!("{hosts} to hosts and {others} to switches do not fit on a switch of {ports}"), help.into())
        })
    }

    /// Checks that the LIDs suffice. `measures` lists the keys that determine the size; an error
    /// marks the first of them in the file.
    fn check_lids(&mut self, hosts: usize, switches: usize, measures: &[&'static str]) -> Option<()> {
        let span = measures.iter().find_map(|key| self.fields.optional(key).map(|entry| entry.node.span.clone()));
        self.refuse_unless(hosts.saturating_add(switches) <= LIDS, span.unwrap_or(0..0), || {
            let hosts = if hosts == usize::MAX { "so many".to_owned() } else { hosts.to_string() };
            (format!("{hosts} hosts and their switches do not fit in a subnet"), format!("a subnet has {LIDS} LIDs: make a smaller one"))
        })
    }

    /// Returns the used ports of each switch: `ports`, or all.
    fn ports_in_use(&mut self) -> Option<usize> {
        let ports = self.ports;
        let Some((wanted, span)) = self.count("ports", 1)? else { return Some(ports) };
        self.refuse_unless(wanted <= ports, span, || {
            (format!("the switch has {}, not {wanted}", counted(ports, "port", "ports")), "write fewer, or name another switch".into())
        })?;
        Some(wanted)
    }

    /// Reads an optional number of at least `least`. Returns `None` after an error.
    fn count(&mut self, key: &'static str, least: usize) -> Option<Option<(usize, Range<usize>)>> {
        match self.fields.optional(key) {
            None => Some(None),
            Some(entry) => self.count_of(entry, least).map(Some),
        }
    }

    fn count_of(&mut self, entry: &Entry, least: usize) -> Option<(usize, Range<usize>)> {
        let Value::Number(Number::Integer(number)) = entry.node.value else {
            wrong_kind(entry, "a whole number", self.findings);
            return None;
        };
        let count = usize::try_from(number).ok().filter(|count| (least..=LIDS).contains(count));
        self.refuse_unless(count.is_some(), entry.node.span.clone(), || {
            (format!("`{}` cannot be {number}", entry.key), format!("write a whole number from {least} on, and not more than a subnet's {LIDS}"))
        })?;
        count.map(|count| (count, entry.node.span.clone()))
    }

    fn span_of(&mut self, key: &'static str) -> Range<usize> {
        self.fields.optional(key).map_or_else(|| self.fields.span(), |entry| entry.node.span.clone())
    }

    /// Reports an error unless `right`, and then returns `None`. With an empty `span`, the error
    /// marks the table.
    fn refuse_unless(&mut self, right: bool, span: Range<usize>, why: impl FnOnce() -> (String, String)) -> Option<()> {
        if right {
            return Some(());
        }
        let (message, help) = why();
        let span = if span.is_empty() { self.fields.span() } else { span };
        self.findings.error(message, vec![(span, "here".into())], Some(help));
        None
    }
}

/// Returns the kind if it exists.
pub(super) fn checked_kind<'a>(text: &'a str, span: Range<usize>, findings: &mut Findings) -> Option<&'a str> {
    if KINDS.contains(&text) {
        return Some(text);
    }
    findings.error(format!("no kind of fabric `{text}`"), vec![(span, "unknown kind".into())], Some(suggest(text, "kinds", &KINDS)));
    None
}
