//! Settings of the subnet manager: `[subnet]`.

use std::ops::Range;

use softband_model::management::Routing;
use softband_model::switch::LifetimeCode;
use softband_spec::{ETHERNET_LIDS, FabricSpec, LIDS, SubnetManager, SubnetSpec};
use softband_types::{Lmc, Mtu, OperationalVls};

use super::congestion::read_congestion_control;
use super::qos::read_qos;
use crate::diagnostic::{Findings, suggest};
use crate::document::{Entry, Fields};

pub(super) fn read_subnet(entry: Option<&Entry>, findings: &mut Findings) -> SubnetSpec {
    let mut subnet = SubnetSpec::default();
    let Some(entry) = entry else { return subnet };
    let Some(mut fields) = Fields::of("`[subnet]`", &entry.node, entry.key_span.clone(), findings) else { return subnet };
    if let Some((code, span)) = fields.optional_integer("max_op_vls", findings) {
        match u8::try_from(code).ok().and_then(OperationalVls::from_code) {
            Some(vls) => subnet.max_op_vls = vls,
            None => {
                let help = "it is OpenSM's code, not a count: 1 (VL0), 2 (VL0-1), 3 (VL0-3), 4 (VL0-7) or 5 (VL0-14)";
                findings.error(format!("`max_op_vls` cannot be {code}"), vec![(span, "not a code".into())], Some(help.into()));
            }
        }
    }
    if let Some((bytes, span)) = fields.optional_integer("mtu", findings) {
        match u32::try_from(bytes).ok().and_then(Mtu::from_bytes) {
            Some(mtu) => subnet.mtu_max = mtu,
            None => {
                let help = "write 256, 512, 1024, 2048 or 4096";
                findings.error(format!("`mtu` cannot be {bytes}"), vec![(span, "not an MTU".into())], Some(help.into()));
            }
        }
    }
    if let Some((lmc, span)) = fields.optional_integer("lmc", findings) {
        match u8::try_from(lmc).ok().and_then(Lmc::new) {
            Some(lmc) => subnet.lmc = lmc,
            None => {
                let help = "write 0 (a LID for each port of an HCA) to 7 (128 LIDs)";
                findings.error(format!("`lmc` cannot be {lmc}"), vec![(span, "not an LMC".into())], Some(help.into()));
            }
        }
    }
    let limits = &mut subnet.lifetimes;
    for (key, limit) in [
        ("packet_life_time", &mut limits.packet_life_time),
        ("head_of_queue_lifetime", &mut limits.head_of_queue_lifetime),
        ("leaf_head_of_queue_lifetime", &mut limits.leaf_head_of_queue_lifetime),
    ] {
        if let Some((code, span)) = fields.optional_integer(key, findings) {
            *limit = lifetime(key, code, span, findings).unwrap_or(*limit);
        }
    }
    if let Some((text, span)) = fields.optional_text("manager", "\"opensm\"", findings) {
        match SubnetManager::ALL.into_iter().find(|manager| manager.name() == text) {
            Some(manager) => subnet.manager = manager,
            None => {
                let help = suggest(text, "subnet managers", &SubnetManager::ALL.map(SubnetManager::name));
                findings.error(format!("no subnet manager `{text}`"), vec![(span, "unknown manager".into())], Some(help));
            }
        }
    }
    if let Some((text, span)) = fields.optional_text("routing", "\"up-down\"", findings) {
        subnet.routing = read_routing(text, span, findings);
    }
    if let Some(entry) = fields.optional("congestion_control") {
        subnet.congestion_control = read_congestion_control(entry, findings);
    }
    subnet.qos = read_qos(&mut fields, findings);
    fields.finish(findings);
    subnet
}

fn read_routing(text: &str, span: Range<usize>, findings: &mut Findings) -> Routing {
    Routing::parse(text).unwrap_or_else(|| {
        let help = suggest(text, "routing engines", &Routing::ALL.map(Routing::name));
        findings.error(format!("no routing engine `{text}`"), vec![(span, "unknown engine".into())], Some(help));
        Routing::default()
    })
}

/// Checks that the fabric has enough LIDs for all ports with the file's `lmc`.
pub(super) fn check_lids(entry: Option<&Entry>, spec: &FabricSpec, findings: &mut Findings) {
    let (wanted, lmc) = (spec.lids_wanted(), spec.subnet.lmc);
    if spec.subnet.manager == SubnetManager::OpenSm && spec.has_ethernet() {
        check_shared_lids(entry, spec, findings);
    }
    if wanted <= LIDS {
        return;
    }
    let fewer = format!("a subnet has {LIDS} LIDs: describe fewer ports and switches");
    if lmc == Lmc::ZERO {
        return findings.error(format!("the fabric needs {wanted} LIDs"), Vec::new(), Some(fewer));
    }
    let ports = spec.cabled_infiniband_hca_ports();
    let message = format!("the fabric needs {wanted} LIDs, {} for each of {ports} InfiniBand ports of HCAs", lmc.lids());
    let with_lmc_zero = wanted - (ports + 1) * (usize::from(lmc.lids()) - 1);
    let help = if with_lmc_zero <= LIDS { format!("a subnet has {LIDS} LIDs: write a smaller `lmc`") } else { fewer };
    let place = entry.map_or(0..0, |entry| entry.key_span.clone());
    findings.error(message, vec![(place, format!("`lmc = {lmc}`"))], Some(help));
}

/// Checks that a manager that is a program and the Ethernet ports have enough LIDs of their own.
fn check_shared_lids(entry: Option<&Entry>, spec: &FabricSpec, findings: &mut Findings) {
    let ethernet = spec.ethernet_lids_wanted();
    let (managed, most) = (spec.lids_wanted() - ethernet, LIDS - ETHERNET_LIDS);
    let place = entry.map_or(0..0, |entry| entry.key_span.clone());
    let help = "leave `manager` out, or describe the Ethernet ports in a fabric of their own";
    let mut refuse = |message: String| findings.error(message, vec![(place.clone(), "this subnet".into())], Some(help.into()));
    if ethernet > ETHERNET_LIDS {
        refuse(format!("the fabric has {ethernet} Ethernet ports and switches, and beside a manager it can have {ETHERNET_LIDS}"));
    }
    if managed > most {
        refuse(format!("the InfiniBand ports need {managed} LIDs, and beside Ethernet ports a manager has {most}"));
    }
}

/// Checks that the routing engine supports the fabric.
pub(super) fn check_routing(entry: Option<&Entry>, spec: &FabricSpec, findings: &mut Findings) {
    let place = entry.map_or(0..0, |entry| entry.key_span.clone());
    if spec.subnet.manager == SubnetManager::BuiltinByPackets && spec.has_ethernet() {
        let name = spec.subnet.manager.name();
        let message = format!("`manager = \"{name}\"` cannot work here: it configures no Ethernet ports, and a fabric has one manager");
        let help = "leave `manager` out, or describe the Ethernet ports in a fabric of their own";
        return findings.error(message, vec![(place, "this subnet".into())], Some(help.into()));
    }
    // On Ethernet, the program chooses the priority.
    if spec.subnet.routing == Routing::Torus && spec.has_ethernet() {
        let message = "routing `torus` cannot work here: it chooses service levels by path, and on Ethernet programs choose their priorities";
        let help = "write `routing = \"up-down\"`, which takes any fabric";
        return findings.error(message.into(), vec![(place, "this subnet".into())], Some(help.into()));
    }
    let Some(found) = softband_spec::unroutable(spec) else { return };
    let message = format!("routing `{}` cannot work here: switch `{}` {}", spec.subnet.routing.name(), spec.switches[found.switch].name, found.why);
    let help = "cable the switches as that engine wants, or write `routing = \"up-down\"`, which takes any fabric";
    findings.error(message, vec![(place, "this subnet".into())], Some(help.into()));
}

fn lifetime(key: &str, code: i64, span: Range<usize>, findings: &mut Findings) -> Option<LifetimeCode> {
    let limit = u8::try_from(code).ok().and_then(LifetimeCode::new);
    if limit.is_none() {
        let help = "it is OpenSM's code for 4.096 us x 2^code, such as 18 for 1.07 s: write 0 to 19, or 20 for no limit";
        findings.error(format!("`{key}` cannot be {code}"), vec![(span, "not a code".into())], Some(help.into()));
    }
    limit
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_model::parts::{EthernetPorts, HostPart, SwitchPart};
    use softband_sim::SimDuration;
    use softband_spec::FabricBuilder;

    #[test]
    fn a_fabric_with_too_many_switches_needs_fewer_of_them() {
        let mut builder = FabricBuilder::new("switches");
        builder.host("a", HostPart::ideal());
        builder.switch("s", SwitchPart::ideal(8));
        let mut spec = builder.build().unwrap();
        let switch = spec.switches[0].clone();
        spec.switches = vec![switch; LIDS + 1];
        let mut findings = Findings::new("f.toml", "");
        check_lids(None, &spec, &mut findings);
        let wanted = "f.toml: error: the fabric needs 49152 LIDs\n  help: a subnet has 49151 LIDs: describe fewer ports and switches";
        assert_eq!(findings.errors[0].to_text(), wanted);
        spec.switches.pop();
        let mut findings = Findings::new("f.toml", "");
        check_lids(None, &spec, &mut findings);
        assert!(findings.errors.is_empty());
    }

    #[test]
    fn a_manager_leaves_a_part_of_the_lids_to_ethernet() {
        let mut builder = FabricBuilder::new("switches");
        builder.host("a", HostPart::ideal());
        builder.switch("s", SwitchPart::ideal(8));
        let mut spec = builder.build().unwrap();
        let infiniband = spec.switches[0].clone();
        let mut ethernet = infiniband.clone();
        let rates = vec![softband_types::EthernetRate::G100];
        ethernet.part.ethernet = Some(EthernetPorts { rates, buffer_bytes: 1 << 20, pause_response: SimDuration::ZERO });
        spec.subnet.manager = SubnetManager::OpenSm;
        let mut errors = |of_ethernet: usize, of_infiniband: usize| {
            spec.switches = [vec![ethernet.clone(); of_ethernet], vec![infiniband.clone(); of_infiniband]].concat();
            let mut findings = Findings::new("f.toml", "");
            check_lids(None, &spec, &mut findings);
            findings.errors.iter().map(|error| error.to_text()).collect::<Vec<_>>()
        };
        assert!(errors(ETHERNET_LIDS, 10).is_empty());
        assert!(errors(ETHERNET_LIDS + 1, 10)[0].contains("4097 Ethernet ports and switches, and beside a manager it can have 4096"));
        assert!(errors(1, LIDS - ETHERNET_LIDS + 1)[0].contains("need 45056 LIDs, and beside Ethernet ports a manager has 45055"));
    }
}
