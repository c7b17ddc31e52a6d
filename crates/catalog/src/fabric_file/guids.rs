//! Node GUIDs: from the file, and generated for the rest.

use std::collections::BTreeMap;
use std::ops::Range;

use softband_types::Guid;

use super::nodes::{HcaDraft, HostDraft, SwitchDraft};
use crate::diagnostic::Findings;

/// First generated GUIDs, with the maker's OUI 00:02:c9, as on boards of the period.
const HCA_FIRST: u64 = 0x0002_c902_0000_0004;
const SWITCH_FIRST: u64 = 0x0002_c902_4000_0004;

/// GUID of a node: from the file, then as assigned.
#[derive(Default)]
pub(super) struct GuidText {
    written: Option<(u64, Range<usize>)>,
    pub(super) assigned: Option<Guid>,
}

impl GuidText {
    /// Reads `0x0002c90200000004` or `0002:c902:0000:0004`.
    pub(super) fn read(text: Option<(&str, Range<usize>)>, findings: &mut Findings) -> Self {
        let Some((text, span)) = text else { return Self::default() };
        let digits = text.strip_prefix("0x").map_or_else(|| text.replace(':', ""), str::to_owned);
        let plain = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let value = u64::from_str_radix(&digits, 16).ok().filter(|value| plain && *value != 0);
        if value.is_none() {
            let help = "write 16 hexadecimal digits: \"0x0002c90200000004\" or \"0002:c902:0000:0004\"";
            findings.error(format!("`{text}` is not a GUID"), vec![(span.clone(), "here".into())], Some(help.into()));
        }
        Self { written: value.map(|value| (value, span)), assigned: None }
    }

    /// Takes the GUID of the file, if the file gives one. The ports of an HCA have the GUIDs after
    /// it. All ports of a switch share its node GUID (IBTA 14.2.5.3: NodeInfo).
    fn take_written(&mut self, ports: Option<u8>, taken: &mut Taken, findings: &mut Findings) {
        let Some((value, span)) = self.written.take() else { return };
        self.assigned = Some(Guid(value));
        let (first, last) = ports.map_or((value, value), |ports| (value.saturating_add(1), value.saturating_add(u64::from(ports))));
        if let Some(other) = taken.nodes.overlap(value, value).or_else(|| taken.ports.overlap(first, last)) {
            let labels = vec![(span, "this node and its ports".into()), (other, "first used here".into())];
            let help = "ports of an HCA have the GUIDs after the one of the node; leave a gap between nodes";
            findings.error(format!("the GUID {} is taken twice", Guid(value)), labels, Some(help.into()));
            return;
        }
        taken.nodes.0.insert(value, (value, span.clone()));
        taken.ports.0.insert(first, (last, span));
    }

    /// Takes the first free GUID from `next` on, and advances `next` past it.
    fn take_generated(&mut self, ports: u8, taken: &Taken, next: &mut u64) {
        if self.assigned.is_some() {
            return;
        }
        // HCAs of the period took four: node, two ports, system image.
        let step = (u64::from(ports) + 1).div_ceil(4) * 4;
        let is_taken =
            |first: u64| [&taken.nodes, &taken.ports].iter().any(|ranges| ranges.overlap(first, first.saturating_add(u64::from(ports))).is_some());
        while is_taken(*next) {
            *next += step;
        }
        self.assigned = Some(Guid(*next));
        *next += step;
    }
}

/// GUIDs from the file. A port can have the GUID of another node: cards with a node for each port
/// have consecutive node GUIDs.
#[derive(Default)]
struct Taken {
    nodes: Ranges,
    ports: Ranges,
}

/// Ranges of GUIDs: the first GUID maps to the last and to the place in the file.
#[derive(Default)]
struct Ranges(BTreeMap<u64, (u64, Range<usize>)>);

impl Ranges {
    /// Returns the place of a range that shares a GUID with this range. Ranges in the map do not overlap.
    fn overlap(&self, first: u64, last: u64) -> Option<Range<usize>> {
        let (_, (other_last, span)) = self.0.range(..=last).next_back()?;
        (*other_last >= first).then(|| span.clone())
    }
}

/// Assigns every node its GUID: from the file, or the next generated one of its kind.
pub(super) fn assign(hosts: &mut [HostDraft], switches: &mut [SwitchDraft], findings: &mut Findings) {
    let mut taken = Taken::default();
    let ports_of = |hca: &HcaDraft| hca.part.as_ref().map_or(0, |part| part.ports);
    for hca in hosts.iter_mut().flat_map(|host| &mut host.hcas) {
        hca.node_guid.take_written(Some(ports_of(hca)), &mut taken, findings);
    }
    for switch in switches.iter_mut() {
        switch.node_guid.take_written(None, &mut taken, findings);
    }
    let mut next = HCA_FIRST;
    for hca in hosts.iter_mut().flat_map(|host| &mut host.hcas) {
        hca.node_guid.take_generated(ports_of(hca), &taken, &mut next);
    }
    let mut next = SWITCH_FIRST;
    for switch in switches {
        switch.node_guid.take_generated(0, &taken, &mut next);
    }
}
