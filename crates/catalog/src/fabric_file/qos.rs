//! Quality of service of the subnet: arbitration tables and SL-to-VL maps, with the names of
//! OpenSM's options.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use softband_model::link::{ArbitrationTables, Sl2Vl, WeightedLane};
use softband_spec::{FabricSpec, PortClasses, PortRef, QualityOfService};
use softband_types::{ServiceLevel, VirtualLane};

use crate::diagnostic::{Findings, Label};
use crate::document::{Entry, Fields, Value, wrong_kind};

/// OpenSM's keys for all ports, for HCA ports, and for external switch ports. The specific keys
/// take precedence.
struct Keys {
    high_limit: &'static str,
    vlarb_high: &'static str,
    vlarb_low: &'static str,
    sl2vl: &'static str,
}

const ALL_PORTS: Keys = Keys { high_limit: "qos_high_limit", vlarb_high: "qos_vlarb_high", vlarb_low: "qos_vlarb_low", sl2vl: "qos_sl2vl" };
const HCAS: Keys = Keys { high_limit: "qos_ca_high_limit", vlarb_high: "qos_ca_vlarb_high", vlarb_low: "qos_ca_vlarb_low", sl2vl: "qos_ca_sl2vl" };
const SWITCHES: Keys =
    Keys { high_limit: "qos_swe_high_limit", vlarb_high: "qos_swe_vlarb_high", vlarb_low: "qos_swe_vlarb_low", sl2vl: "qos_swe_sl2vl" };

impl Keys {
    fn all(&self) -> [&'static str; 4] {
        [self.high_limit, self.vlarb_high, self.vlarb_low, self.sl2vl]
    }
}

/// Returns OpenSM's defaults (`osm_base.h`): lane 0 has high priority and alternates with the other lanes.
fn defaults() -> PortClasses {
    let lines = |weight: fn(u8) -> u8| (0..15).map(|lane| WeightedLane { lane: VirtualLane(lane), weight: weight(lane) }).collect();
    let high = lines(|lane| if lane == 0 { 4 } else { 0 });
    let low = lines(|lane| if lane == 0 { 0 } else { 4 });
    PortClasses { tables: ArbitrationTables { high, low, high_limit: 0 }, sl2vl: Sl2Vl::OPENSM }
}

/// Reads the keys of `[subnet]` that begin with `qos`.
pub(super) fn read_qos(fields: &mut Fields<'_>, findings: &mut Findings) -> Option<QualityOfService> {
    let switched = fields.optional("qos");
    let is_on = switched.and_then(|entry| match entry.node.value {
        Value::Bool(is_on) => Some(is_on),
        _ => {
            wrong_kind(entry, "true or false", findings);
            None
        }
    });
    let all = classes(fields, &ALL_PORTS, defaults(), findings);
    let hca = classes(fields, &HCAS, all.clone(), findings);
    let switch = classes(fields, &SWITCHES, all, findings);
    if switched.is_none() {
        let given = [ALL_PORTS, HCAS, SWITCHES].iter().flat_map(Keys::all).find_map(|key| fields.optional(key));
        if let Some(entry) = given {
            let help = "write `qos = true` beside it, or `qos = false` to keep it for later";
            findings.error(format!("`{}` has no effect without `qos`", entry.key), vec![(entry.key_span.clone(), "here".into())], Some(help.into()));
        }
    }
    is_on?.then_some(QualityOfService { hca, switch })
}

fn classes(fields: &mut Fields<'_>, keys: &Keys, default: PortClasses, findings: &mut Findings) -> PortClasses {
    let PortClasses { mut tables, mut sl2vl } = default;
    if let Some((limit, span)) = fields.optional_integer(keys.high_limit, findings) {
        match u8::try_from(limit) {
            Ok(limit) => tables.high_limit = limit,
            Err(_) => {
                let help = "write 0 (one packet) to 254 (in steps of 4 KiB), or 255 for no limit";
                findings.error(format!("`{}` cannot be {limit}", keys.high_limit), vec![(span, "out of range".into())], Some(help.into()));
            }
        }
    }
    if let Some((text, span)) = fields.optional_text(keys.vlarb_high, "\"0:64,1:0\"", findings) {
        tables.high = table(keys.vlarb_high, text, span, findings);
    }
    if let Some((text, span)) = fields.optional_text(keys.vlarb_low, "\"0:64,1:192\"", findings) {
        tables.low = table(keys.vlarb_low, text, span, findings);
    }
    if let Some((text, span)) = fields.optional_text(keys.sl2vl, "\"0,1,2,3,0,1,2,3,0,1,2,3,0,1,2,3\"", findings) {
        sl2vl = lanes_of_levels(keys.sl2vl, text, span, findings).unwrap_or(sl2vl);
    }
    PortClasses { tables, sl2vl }
}

/// Reads a table: `"lane:weight"` for each line, separated by commas.
fn table(key: &str, text: &str, span: Range<usize>, findings: &mut Findings) -> Vec<WeightedLane> {
    let texts: Vec<&str> = text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()).collect();
    if let Some(wrong) = texts.iter().find(|text| weighted_lane(text).is_none()) {
        let help = "write lane:weight with commas between, lanes 0 to 14, weights 0 to 255 in units of 64 bytes: \"0:64,1:192\"";
        findings.error(format!("`{key}` has no line `{wrong}`"), vec![(span, "this table".into())], Some(help.into()));
    } else if texts.len() > ArbitrationTables::LINES_MAX {
        let help = format!("a port's table has {} lines", ArbitrationTables::LINES_MAX);
        findings.error(format!("`{key}` has {} lines", texts.len()), vec![(span, "too many".into())], Some(help));
    }
    texts.into_iter().filter_map(weighted_lane).collect()
}

fn weighted_lane(text: &str) -> Option<WeightedLane> {
    let (lane, weight) = text.split_once(':')?;
    let lane = lane.trim().parse().ok().filter(|lane| *lane < 15)?;
    Some(WeightedLane { lane: VirtualLane(lane), weight: weight.trim().parse().ok()? })
}

/// Reads the lane of each of the sixteen service levels.
fn lanes_of_levels(key: &str, text: &str, span: Range<usize>, findings: &mut Findings) -> Option<Sl2Vl> {
    let lanes: Option<Vec<u8>> = text.split(',').map(|lane| lane.trim().parse().ok()).collect();
    let map = lanes.as_deref().and_then(|lanes| <[u8; Sl2Vl::LEVELS]>::try_from(lanes).ok()).and_then(Sl2Vl::new);
    if map.is_none() {
        let drops = lanes.is_some_and(|lanes| lanes.contains(&15));
        let message = if drops { "drops packets by VL15, which is not simulated" } else { "is not a list of sixteen lanes" };
        let help = "write a lane from 0 to 14 for each service level: \"0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7\"";
        findings.error(format!("`{key}` {message}"), vec![(span, "this map".into())], Some(help.into()));
    }
    map
}

/// Checks that the fabric supports these settings. Warns of service levels that can never send.
pub(super) fn check_qos(subnet: Option<&Entry>, spec: &mut FabricSpec, findings: &mut Findings) {
    let Some(subnet) = subnet else { return };
    if spec.subnet.qos.is_none() {
        return;
    }
    if spec.has_ethernet() {
        let help = "leave `qos` out: priorities of Ethernet take turns";
        let message = "`qos` is InfiniBand's, and this fabric has Ethernet ports".to_owned();
        return findings.error(message, vec![place_of(subnet, &["qos"])], Some(help.into()));
    }
    let routing = spec.subnet.routing;
    if routing.chooses_lanes() {
        let maps = [ALL_PORTS.sl2vl, HCAS.sl2vl, SWITCHES.sl2vl];
        if let Some(key) = maps.iter().find(|key| subnet.has(key)) {
            let message = format!("`{key}` cannot be kept: routing `{}` chooses lanes by path", routing.name());
            let help = format!("leave `{key}` out, or write `routing = \"up-down\"`");
            return findings.error(message, vec![place_of(subnet, &[key])], Some(help));
        }
        if let Some(qos) = &mut spec.subnet.qos {
            (qos.hca.sl2vl, qos.switch.sl2vl) = (Sl2Vl::IDENTITY, Sl2Vl::IDENTITY);
        }
    }
    warn_of_starvation(subnet, spec, findings);
}

/// Warns of service levels whose lanes no table lists with a weight. Their packets never leave.
fn warn_of_starvation(subnet: &Entry, spec: &FabricSpec, findings: &mut Findings) {
    let Some(qos) = &spec.subnet.qos else { return };
    // By kind of port: HCA ports first.
    let mut starved: BTreeMap<bool, BTreeSet<(u8, u8)>> = BTreeMap::new();
    for cable in &spec.cables {
        let vls = softband_spec::settings_of(spec, cable).vls;
        for end in cable.ends.into_iter().filter(|_| vls.data_lanes() > 1) {
            let classes = qos.of(end);
            let listed = classes.tables.lanes(vls);
            let lanes = (0..16).map(|level| (level, classes.sl2vl.lane(ServiceLevel(level), vls).0));
            let unlisted = lanes.filter(|(_, lane)| listed & 1 << lane == 0);
            starved.entry(matches!(end, PortRef::Switch { .. })).or_default().extend(unlisted);
        }
    }
    for (is_switch, levels) in starved.into_iter().filter(|(_, levels)| !levels.is_empty()) {
        let (kind, own) = if is_switch { ("switches", &SWITCHES) } else { ("HCAs", &HCAS) };
        let lanes = runs(levels.iter().map(|(_, lane)| *lane).collect());
        let (message, help) = if spec.subnet.routing.chooses_lanes() {
            let message = format!("ports of {kind} never send on VL {lanes}: no arbitration table gives them a weight");
            (message, "list these lanes in `qos_vlarb_low`: routing chooses lanes by path")
        } else {
            let levels = runs(levels.iter().map(|(level, _)| *level).collect());
            let message = format!("ports of {kind} never send packets of service level {levels}: no arbitration table gives VL {lanes} a weight");
            (message, "list these lanes in `qos_vlarb_low`, or map the levels to listed lanes by `qos_sl2vl`")
        };
        let place = place_of(subnet, &[own.vlarb_low, ALL_PORTS.vlarb_low, own.vlarb_high, ALL_PORTS.vlarb_high, "qos"]);
        findings.warning(message, vec![place], Some(help.into()));
    }
}

/// Formats numbers as `0`, `2 to 5`, or `0, 2 to 5`.
fn runs(numbers: BTreeSet<u8>) -> String {
    let mut runs: Vec<(u8, u8)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let shown = runs.iter().map(|(first, last)| if first == last { first.to_string() } else { format!("{first} to {last}") });
    shown.collect::<Vec<_>>().join(", ")
}

/// Returns the place of the first of the keys that the table has.
fn place_of(subnet: &Entry, keys: &[&str]) -> Label {
    let Value::Table(entries) = &subnet.node.value else { return (subnet.key_span.clone(), "here".into()) };
    let found = keys.iter().find_map(|key| entries.iter().find(|entry| entry.key == *key));
    (found.map_or(subnet.key_span.clone(), |entry| entry.key_span.clone()), "here".into())
}
