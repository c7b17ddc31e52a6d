//! Text drawings of fabrics.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::fabric_file::interfaces::route_text;
use softband_spec::settings_of;
use softband_spec::{CableSpec, FabricSpec, HostSpec, InterfaceKind, InterfaceSpec, PortRef};
use softband_types::counted;
use softband_types::{LinkLayer, OperationalVls, PortNumber};

use crate::fabric_file::train::metres;

/// Draws hosts, switches and ports, each port with its cable, trained rate, lanes and MTU.
pub fn draw_text(spec: &FabricSpec) -> String {
    let mut text = String::new();
    write_text(&mut text, spec).expect("writing to a String does not fail");
    text
}

fn write_text(out: &mut String, spec: &FabricSpec) -> std::fmt::Result {
    let by_port = cables_by_port(spec);
    writeln!(out, "{}", spec.title)?;
    writeln!(out, "{}", summary(spec))?;
    for (host_index, host) in spec.hosts.iter().enumerate() {
        let kernel = if spec.has_modelled_network() { format!(", {}", host.kernel.name) } else { String::new() };
        writeln!(out, "\nhost {}  ({}{kernel})", host.name, host.part.name)?;
        for (hca_index, hca) in host.hcas.iter().enumerate() {
            let tuned = if hca.tune_pci { ", tune_pci" } else { "" };
            let shared = hca.shared_bus.as_ref().map_or(String::new(), |name| format!(", on {name}"));
            let bus = hca.bus.slot.interface();
            writeln!(out, "  {}  ({} in {}: {bus}{shared}{tuned}, GUID {})", hca.device, hca.part.name, hca.bus.name, hca.node_guid)?;
            let port_ref = |port| PortRef::Hca { host: host_index, hca: hca_index, port };
            write_ports(out, spec, &by_port, hca.part.ports, "    ", port_ref)?;
        }
        if spec.has_modelled_network() {
            host.interfaces.iter().try_for_each(|interface| write_interface(out, host, interface))?;
            host.routes.iter().try_for_each(|route| writeln!(out, "  {} ({})", route_text(route), host.interfaces[route.interface].name))?;
        }
    }
    for (switch_index, switch) in spec.switches.iter().enumerate() {
        writeln!(out, "\nswitch {}  ({}, GUID {})", switch.name, switch.part.name, switch.node_guid)?;
        let port_ref = |port| PortRef::Switch { switch: switch_index, port };
        write_ports(out, spec, &by_port, switch.part.ports, "  ", port_ref)?;
    }
    Ok(())
}

/// Writes an interface, such as `ib0  (IPoIB, datagram, mthca0/1, P_Key 0xffff, MTU 2044) 10.1.0.1/16`.
fn write_interface(out: &mut String, host: &HostSpec, interface: &InterfaceSpec) -> std::fmt::Result {
    let port = |hca: usize, port: PortNumber| format!("{}/{}", host.hcas[hca].device, port.0);
    let link = match interface.kind {
        InterfaceKind::Management => "management network".to_owned(),
        InterfaceKind::Ipoib { hca, port: number, mode, pkey } => {
            format!("IPoIB, {}, {}, P_Key {:#06x}", mode.name(), port(hca, number), pkey.0)
        }
        InterfaceKind::Ethernet { hca, port: number } => format!("Ethernet, {}", port(hca, number)),
    };
    write!(out, "  {}  ({link}, MTU {})", interface.name, interface.mtu_bytes)?;
    interface.addresses.iter().try_for_each(|own| write!(out, " {}/{}", own.address, own.prefix))?;
    writeln!(out)
}

type CablesByPort<'a> = BTreeMap<PortRef, (&'a CableSpec, PortRef)>;

fn cables_by_port(spec: &FabricSpec) -> CablesByPort<'_> {
    let mut by_port = BTreeMap::new();
    for cable in &spec.cables {
        let [a, b] = cable.ends;
        by_port.insert(a, (cable, b));
        by_port.insert(b, (cable, a));
    }
    by_port
}

fn write_ports(
    out: &mut String,
    spec: &FabricSpec,
    by_port: &CablesByPort<'_>,
    ports: u8,
    indent: &str,
    port_ref: impl Fn(PortNumber) -> PortRef,
) -> std::fmt::Result {
    let mut empty = Vec::new();
    for number in 1..=ports {
        let Some((cable, other)) = by_port.get(&port_ref(PortNumber(number))) else {
            empty.push(number);
            continue;
        };
        let label = cable_label(spec, cable);
        writeln!(out, "{indent}port {number} ──[ {label} ]── {}", spec.port_name(*other))?;
    }
    match empty.as_slice() {
        [] => Ok(()),
        [one] => writeln!(out, "{indent}port {one} has no cable"),
        many => writeln!(out, "{indent}ports {} have no cable", ranges(many)),
    }
}

/// Formats sorted numbers as `1, 3-24`.
fn ranges(numbers: &[u8]) -> String {
    let mut runs: Vec<(u8, u8)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let shown = runs.iter().map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
    shown.collect::<Vec<_>>().join(", ")
}

/// Returns a summary, such as `2 hosts, 1 switch, 2 cables; max_op_vls 5, MTU up to 4096`.
pub fn summary(spec: &FabricSpec) -> String {
    let mut parts = vec![counted(spec.hosts.len(), "host", "hosts")];
    if !spec.switches.is_empty() {
        parts.push(counted(spec.switches.len(), "switch", "switches"));
    }
    parts.push(counted(spec.cables.len(), "cable", "cables"));
    let subnet = &spec.subnet;
    let control = if subnet.congestion_control.is_some() { ", congestion control" } else { "" };
    if spec.has_ethernet() {
        parts.push(format!("Ethernet MTU {}", spec.ethernet.mtu_bytes));
    }
    format!("{}; max_op_vls {}, MTU up to {}{control}", parts.join(", "), subnet.max_op_vls.code(), subnet.mtu_max.bytes())
}

/// Returns a label, such as `cx4, 8 m, 4X DDR, VL0-7, MTU 2048`.
pub(crate) fn cable_label(spec: &FabricSpec, cable: &CableSpec) -> String {
    let (part, length) = (&cable.part.name, metres(cable.part.length_millimetres));
    format!("{part}, {length}, {}, {}, MTU {}", cable.rate_name(), lanes(spec, cable), mtu_bytes(spec, cable))
}

/// Returns the lanes that the subnet manager activates: the minimum of its limit and of both ports.
pub(crate) fn lanes(spec: &FabricSpec, cable: &CableSpec) -> String {
    if cable.part.link_layer() == LinkLayer::Ethernet {
        return counted(spec.ethernet.priorities.data_lanes(), "priority", "priorities");
    }
    let cap = |port| match port {
        PortRef::Hca { host, hca, .. } => spec.hosts[host].hcas[hca].part.vl_cap,
        PortRef::Switch { switch, .. } => spec.switches[switch].part.vl_cap,
    };
    let vls: OperationalVls = cable.ends.into_iter().map(cap).fold(spec.subnet.max_op_vls, Ord::min);
    match vls.data_lanes() {
        1 => "VL0".to_owned(),
        lanes => format!("VL0-{}", lanes - 1),
    }
}

pub(crate) fn mtu_bytes(spec: &FabricSpec, cable: &CableSpec) -> u32 {
    if cable.part.link_layer() == LinkLayer::Ethernet {
        return settings_of(spec, cable).mtu.bytes();
    }
    let cap = |port| match port {
        PortRef::Hca { host, hca, .. } => spec.hosts[host].hcas[hca].part.mtu_max,
        PortRef::Switch { switch, .. } => spec.switches[switch].part.mtu_max,
    };
    cable.ends.into_iter().map(cap).fold(spec.subnet.mtu_max, Ord::min).bytes()
}
