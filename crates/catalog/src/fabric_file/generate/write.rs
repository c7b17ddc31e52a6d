//! Writes out a generated fabric.

use std::fmt::Write;

use softband_model::management::Routing;

use super::shape::Shape;
use super::{Parts, host_name};

pub(super) fn toml(shape: &Shape, parts: &Parts) -> String {
    let mut text = String::new();
    write_toml(&mut text, shape, parts).expect("writing to a String does not fail");
    text
}

fn write_toml(out: &mut String, shape: &Shape, parts: &Parts) -> std::fmt::Result {
    if shape.routing != Routing::default() {
        writeln!(out, "[subnet]\nrouting = \"{}\"\n", shape.routing.name())?;
    }
    for name in (0..shape.hosts).map(host_name) {
        writeln!(out, "[hosts.{name}]\npart = {}\n\n[[hosts.{name}.hcas]]", quoted(&parts.host.0))?;
        writeln!(out, "device = {}\npart = {}\n", quoted(&parts.device), quoted(&parts.hca.0))?;
    }
    if let Some((part, _)) = &parts.switch {
        shape.switches.iter().try_for_each(|name| writeln!(out, "[switches.{name}]\npart = {}\n", quoted(part)))?;
    }
    for ends in &shape.cables {
        let cable = parts.cable_of(ends);
        let [from, to] = ends.map(|end| parts.port_name(end, shape));
        writeln!(out, "[[cables]]\npart = {}\nfrom = {}\nto = {}", quoted(&cable.part.0), quoted(&from), quoted(&to))?;
        match &cable.length {
            Some((length, _)) => writeln!(out, "length = {}\n", quoted(length))?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string().trim().to_owned()
}
