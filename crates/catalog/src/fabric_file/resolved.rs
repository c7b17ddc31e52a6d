//! The resolved fabric for the run folder: every value with its source.

use std::collections::BTreeMap;
use std::fmt::Write;

use softband_model::link::WeightedLane;
use softband_model::management::Routing;
use softband_model::transport::{Flow, InjectionSettings};
use softband_spec::{
    CableSpec, CongestionControl, EthernetFlowControl, EthernetSpec, FabricSpec, PortClasses, QualityOfService, SubnetManager, SubnetSpec,
};
use softband_types::{CreditBlocks, LinkLayer, Lmc};

use super::interfaces::{write_interfaces, write_routes};
use super::train::metres;
use crate::parts::{Parameter, PartKind, PartSheet};
use crate::start_date::StartDate;

type Sheets = BTreeMap<(PartKind, String), PartSheet>;

pub(super) fn resolved_toml(spec: &FabricSpec, (seed, start_date): (u64, StartDate), sheets: &Sheets) -> String {
    let mut text = String::new();
    write_toml(&mut text, spec, (seed, start_date), sheets).expect("writing to a String does not fail");
    text
}

fn write_toml(out: &mut String, spec: &FabricSpec, (seed, start_date): (u64, StartDate), sheets: &Sheets) -> std::fmt::Result {
    writeln!(out, "[fabric]\ntitle = {}\nseed = {seed}\nstart_date = \"{start_date}\"\n", quoted(&spec.title))?;
    write_subnet(out, &spec.subnet)?;
    if spec.has_ethernet() {
        write_ethernet(out, &spec.ethernet)?;
    }
    for (index, host) in spec.hosts.iter().enumerate() {
        writeln!(out, "\n[hosts.{}]\npart = {}", quoted(&host.name), quoted(&host.part.name))?;
        if sheets.contains_key(&(PartKind::Kernel, host.kernel.name.clone())) {
            writeln!(out, "kernel = {}", quoted(&host.kernel.name))?;
        }
        write_routes(out, host)?;
        let buses: BTreeMap<_, _> = host.hcas.iter().filter_map(|hca| Some((hca.shared_bus.as_ref()?, &hca.bus.name))).collect();
        for (name, part) in buses {
            writeln!(out, "\n[hosts.{}.buses.{}]\npart = {}", quoted(&host.name), quoted(name), quoted(part))?;
        }
        for hca in &host.hcas {
            match hca.nic {
                Some(_) => writeln!(out, "\n[hosts.{}.nics.{}]", quoted(&host.name), quoted(&hca.device))?,
                None => writeln!(out, "\n[[hosts.{}.hcas]]\ndevice = {}", quoted(&host.name), quoted(&hca.device))?,
            }
            writeln!(out, "part = {}\nnode_guid = \"{}\"", quoted(&hca.part.name), hca.node_guid)?;
            let (key, place) = hca.shared_bus.as_ref().map_or(("slot", &hca.bus.name), |name| ("bus", name));
            writeln!(out, "{key} = {}\nslot_trained = {}", quoted(place), quoted(&hca.bus.slot.interface().to_string()))?;
            if hca.nic.is_some() {
                continue;
            }
            writeln!(out, "options = {{ tune_pci = {} }}", u8::from(hca.tune_pci))?;
            if hca.link_layer == LinkLayer::Ethernet {
                writeln!(out, "link_layer = \"{}\"", hca.link_layer.name())?;
                continue;
            }
            let pkeys: Vec<String> = hca.pkeys.iter().map(|key| format!("{:#06x}", key.0)).collect();
            writeln!(out, "pkeys = [{}]", pkeys.join(", "))?;
        }
        write_interfaces(out, index, host)?;
    }
    for switch in &spec.switches {
        writeln!(out, "\n[switches.{}]\npart = {}", quoted(&switch.name), quoted(&switch.part.name))?;
        writeln!(out, "node_guid = \"{}\"", switch.node_guid)?;
    }
    spec.cables.iter().try_for_each(|cable| write_cable(out, spec, cable))?;
    spec.faults.iter().try_for_each(|fault| super::faults::write_fault(out, spec, fault))?;
    sheets.values().try_for_each(|sheet| write_sheet(out, sheet))
}

fn write_subnet(out: &mut String, subnet: &SubnetSpec) -> std::fmt::Result {
    writeln!(out, "[subnet]\nmax_op_vls = {}\nmtu = {}", subnet.max_op_vls.code(), subnet.mtu_max.bytes())?;
    if subnet.manager != SubnetManager::default() {
        writeln!(out, "manager = \"{}\"", subnet.manager.name())?;
    }
    if subnet.lmc != Lmc::ZERO {
        writeln!(out, "lmc = {}", subnet.lmc)?;
    }
    if subnet.routing != Routing::default() {
        writeln!(out, "routing = \"{}\"", subnet.routing.name())?;
    }
    let limits = &subnet.lifetimes;
    writeln!(out, "packet_life_time = {}", limits.packet_life_time.code())?;
    writeln!(out, "head_of_queue_lifetime = {}", limits.head_of_queue_lifetime.code())?;
    writeln!(out, "leaf_head_of_queue_lifetime = {}", limits.leaf_head_of_queue_lifetime.code())?;
    subnet.qos.as_ref().map_or(Ok(()), |qos| write_qos(out, qos, subnet.routing))?;
    subnet.congestion_control.as_ref().map_or(Ok(()), |control| write_congestion_control(out, control))
}

fn write_qos(out: &mut String, qos: &QualityOfService, routing: Routing) -> std::fmt::Result {
    writeln!(out, "qos = true")?;
    for (kind, PortClasses { tables, sl2vl }) in [("ca", &qos.hca), ("swe", &qos.switch)] {
        let lines = |table: &[WeightedLane]| table.iter().map(|line| format!("{}:{}", line.lane.0, line.weight)).collect::<Vec<_>>().join(",");
        writeln!(out, "qos_{kind}_high_limit = {}", tables.high_limit)?;
        writeln!(out, "qos_{kind}_vlarb_high = \"{}\"\nqos_{kind}_vlarb_low = \"{}\"", lines(&tables.high), lines(&tables.low))?;
        if !routing.chooses_lanes() {
            let lanes: Vec<String> = sl2vl.lanes().iter().map(u8::to_string).collect();
            writeln!(out, "qos_{kind}_sl2vl = \"{}\"", lanes.join(","))?;
        }
    }
    Ok(())
}

fn write_ethernet(out: &mut String, ethernet: &EthernetSpec) -> std::fmt::Result {
    let flow_control = match ethernet.flow_control {
        EthernetFlowControl::Pfc => "pfc",
        EthernetFlowControl::None => "none",
    };
    let priority_in = if ethernet.tagged { "vlan-tag" } else { "dscp" };
    writeln!(out, "\n[ethernet]\nmtu = {}\nflow_control = \"{flow_control}\"", ethernet.mtu_bytes)?;
    writeln!(out, "priorities = {}\npriority_in = \"{priority_in}\"", ethernet.priorities.data_lanes())
}

fn write_congestion_control(out: &mut String, control: &CongestionControl) -> std::fmt::Result {
    let CongestionControl { marking, injection } = control;
    writeln!(out, "\n[subnet.congestion_control]\nthreshold = {}", marking.threshold)?;
    writeln!(out, "packet_size = \"{} B\"\nmarking_rate = {}", marking.packet_size.0 * CreditBlocks::BLOCK_BYTES, marking.marking_rate)?;
    let port_control = match injection.flow {
        Flow::QueuePair => "qp",
        Flow::ServiceLevel => "sl",
    };
    writeln!(out, "port_control = \"{port_control}\"\nccti_increase = {}", injection.ccti_increase)?;
    writeln!(out, "ccti_limit = {}\nccti_min = {}", injection.ccti_limit, injection.ccti_min)?;
    let timer = InjectionSettings::TIMER_STEP * u64::from(injection.ccti_timer);
    writeln!(out, "ccti_timer = \"{} ns\"", timer.as_nanos())?;
    let cct: Vec<String> = injection.cct.iter().map(|entry| format!("\"{}:{}\"", entry.shift, entry.multiplier)).collect();
    writeln!(out, "cct = [{}]", cct.join(", "))
}

fn write_cable(out: &mut String, spec: &FabricSpec, cable: &CableSpec) -> std::fmt::Result {
    let [from, to] = cable.ends.map(|end| spec.port_name(end));
    writeln!(out, "\n[[cables]]\npart = {}\nfrom = {}\nto = {}", quoted(&cable.part.name), quoted(&from), quoted(&to))?;
    writeln!(out, "length = {}", quoted(&metres(cable.part.length_millimetres)))?;
    match cable.part.link_layer() {
        LinkLayer::Infiniband => writeln!(out, "width = \"{}\"\nrate = \"{}\"", cable.rate.width, cable.rate.speed)?,
        LinkLayer::Ethernet => writeln!(out, "rate = \"{}\"", cable.rate_name())?,
    }
    writeln!(out, "delay_ps = {}", cable.part.delay(cable.rate).as_picos())
}

pub(crate) fn write_sheet(out: &mut String, sheet: &PartSheet) -> std::fmt::Result {
    writeln!(out, "\n[parts.{}.{}]\nsummary = {}", sheet.kind, quoted(&sheet.name), quoted(&sheet.summary))?;
    sheet.parameters.iter().try_for_each(|parameter| write_parameter(out, parameter))
}

fn write_parameter(out: &mut String, parameter: &Parameter) -> std::fmt::Result {
    let value = match parameter {
        Parameter { listed: true, value, .. } => format!("[{}]", value.split(", ").map(quoted).collect::<Vec<_>>().join(", ")),
        Parameter { quoted: true, value, .. } => quoted(value),
        Parameter { value, .. } => value.clone(),
    };
    let (unit, source) = (quoted(&parameter.unit), quoted(&parameter.source));
    write!(out, "{} = {{ value = {value}, unit = {unit}, source = {source}, status = \"{}\"", parameter.name, parameter.status)?;
    if !parameter.on.is_empty() {
        let on: Vec<String> = parameter.on.iter().map(|row| quoted(row)).collect();
        write!(out, ", on = [{}]", on.join(", "))?;
    }
    writeln!(out, " }}")
}

pub(crate) fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string().trim().to_owned()
}
