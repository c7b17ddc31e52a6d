//! The fabric as resolved, for the run folder: what was built, and where every value of it comes from.

use std::collections::BTreeMap;
use std::fmt::Write;

use softband_fabric::spec::{CableSpec, FabricSpec, PortRef};

use super::train::metres;
use crate::parts::{Parameter, PartKind, PartSheet};

type Sheets = BTreeMap<(PartKind, String), PartSheet>;

pub(super) fn resolved_toml(spec: &FabricSpec, seed: u64, sheets: &Sheets) -> String {
    let mut text = String::new();
    write_toml(&mut text, spec, seed, sheets).expect("writing to a String does not fail");
    text
}

fn write_toml(out: &mut String, spec: &FabricSpec, seed: u64, sheets: &Sheets) -> std::fmt::Result {
    writeln!(out, "[fabric]\ntitle = {}\nseed = {seed}\n", quoted(&spec.title))?;
    writeln!(out, "[subnet]\nmax_op_vls = {}\nmtu = {}", spec.subnet.max_op_vls.code(), spec.subnet.mtu_max.bytes())?;
    for host in &spec.hosts {
        writeln!(out, "\n[hosts.{}]\npart = {}", quoted(&host.name), quoted(&host.part.name))?;
        for hca in &host.hcas {
            writeln!(out, "\n[[hosts.{}.hcas]]\ndevice = {}", quoted(&host.name), quoted(&hca.device))?;
            writeln!(out, "part = {}\nnode_guid = \"{}\"", quoted(&hca.part.name), hca.node_guid)?;
            writeln!(out, "slot = {}\nslot_trained = {}", quoted(&hca.bus.name), quoted(&hca.bus.slot.interface().to_string()))?;
            writeln!(out, "options = {{ tune_pci = {} }}", u8::from(hca.tune_pci))?;
            let pkeys: Vec<String> = hca.pkeys.iter().map(|key| format!("{:#06x}", key.0)).collect();
            writeln!(out, "pkeys = [{}]", pkeys.join(", "))?;
        }
    }
    for switch in &spec.switches {
        writeln!(out, "\n[switches.{}]\npart = {}", quoted(&switch.name), quoted(&switch.part.name))?;
        writeln!(out, "node_guid = \"{}\"", switch.node_guid)?;
    }
    spec.cables.iter().try_for_each(|cable| write_cable(out, spec, cable))?;
    sheets.values().try_for_each(|sheet| write_sheet(out, sheet))
}

fn write_cable(out: &mut String, spec: &FabricSpec, cable: &CableSpec) -> std::fmt::Result {
    let [from, to] = cable.ends.map(|end| port_name(spec, end));
    writeln!(out, "\n[[cables]]\npart = {}\nfrom = {}\nto = {}", quoted(&cable.part.name), quoted(&from), quoted(&to))?;
    writeln!(out, "length = {}\nwidth = \"{}\"", quoted(&metres(cable.part.length_millimetres)), cable.rate.width)?;
    writeln!(out, "rate = \"{}\"\ndelay_ps = {}", cable.rate.speed, cable.part.delay(cable.rate.speed).as_picos())
}

fn write_sheet(out: &mut String, sheet: &PartSheet) -> std::fmt::Result {
    writeln!(out, "\n[parts.{}.{}]\nsummary = {}", sheet.kind, quoted(&sheet.name), quoted(&sheet.summary))?;
    sheet.parameters.iter().try_for_each(|parameter| write_parameter(out, parameter))
}

fn write_parameter(out: &mut String, parameter: &Parameter) -> std::fmt::Result {
    let value = if parameter.quoted { quoted(&parameter.value) } else { parameter.value.clone() };
    let (unit, source) = (quoted(&parameter.unit), quoted(&parameter.source));
    write!(out, "{} = {{ value = {value}, unit = {unit}, source = {source}, status = \"{}\"", parameter.name, parameter.status)?;
    if !parameter.on.is_empty() {
        let on: Vec<String> = parameter.on.iter().map(|row| quoted(row)).collect();
        write!(out, ", on = [{}]", on.join(", "))?;
    }
    writeln!(out, " }}")
}

/// The port as a fabric file names it: `a/mthca0/1`, `sw/1`.
pub(crate) fn port_name(spec: &FabricSpec, port: PortRef) -> String {
    match port {
        PortRef::Hca { host, hca, port } => format!("{}/{}/{}", spec.hosts[host].name, spec.hosts[host].hcas[hca].device, port.0),
        PortRef::Switch { switch, port } => format!("{}/{}", spec.switches[switch].name, port.0),
    }
}

fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string().trim().to_owned()
}
