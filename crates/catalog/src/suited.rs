//! Parts that suit an HCA, for a fabric that names only this.

use std::cmp::Reverse;

use softband_model::parts::{HcaPart, Medium, SwitchPart};
use softband_types::{EthernetRate, LinkLayer, LinkRate};

use crate::catalog::Catalog;
use crate::parts::{CableTemplate, PartKind};
use crate::topology::host_for;

/// Assumed lengths by medium, in millimetres and as texts.
const COPPER: (u64, &str) = (1_000, "1 m");
const OPTICAL: (u64, &str) = (10_000, "10 m");

/// Names of parts around an HCA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuitedParts {
    /// Host part with the slot next to the card.
    pub host: String,
    /// Device name of the first HCA.
    pub device: String,
    /// Switch part with the rate of the HCA.
    pub switch: String,
    /// Ports of the switch.
    pub switch_ports: u8,
    /// Cable part that carries this rate.
    pub cable: String,
    /// Length of the cables.
    pub cable_length: String,
}

impl Catalog {
    /// Returns whether an HCA part has ports for Ethernet.
    pub fn has_ethernet_ports(&self, hca: &str) -> bool {
        self.hca(hca).is_some_and(|part| part.ethernet.is_some())
    }

    /// Returns parts that suit an HCA part. The usual HCA has the usual parts. Returns `None` for an
    /// unknown HCA, and if no switch or cable of the catalogue suits it.
    pub fn suited_parts(&self, hca: &str, layer: LinkLayer) -> Option<SuitedParts> {
        let part = self.hca(hca)?;
        let usual = self.usual_parts().filter(|usual| usual.hca == hca);
        let host = match usual {
            Some(usual) => usual.host.clone(),
            None => host_for(part, self)?.to_owned(),
        };
        let device = usual.map_or_else(|| format!("{}0", part.driver), |usual| usual.device.clone());
        if let Some((usual, switch)) = usual.filter(|_| layer == LinkLayer::Infiniband).and_then(|usual| Some((usual, usual.switch.clone()?))) {
            let switch_ports = self.switch(&switch)?.ports;
            return Some(SuitedParts { host, device, switch, switch_ports, cable: usual.cable.clone(), cable_length: usual.cable_length.clone() });
        }
        let switches = self.parts(PartKind::Switch).into_iter().filter_map(|name| self.switch(name));
        let fitting = switches.filter(|switch| switch.link_layer() == layer).filter_map(|switch| Some((common_rate(part, switch, layer)?, switch)));
        let (rate, switch) = fitting.min_by_key(|(rate, switch)| (Reverse(*rate), best(switch, layer), Reverse(switch.ports), &switch.name))?;
        let (cable, cable_length) = self.cable_for(rate, layer)?;
        Some(SuitedParts { host, device, switch: switch.name.clone(), switch_ports: switch.ports, cable, cable_length })
    }

    /// Returns a cable of any length for a rate, copper first.
    fn cable_for(&self, rate: LinkRate, layer: LinkLayer) -> Option<(String, String)> {
        let carries = |cable: &CableTemplate| match &cable.part.ethernet {
            Some(ethernet) => layer == LinkLayer::Ethernet && Some(ethernet.rate_max) >= EthernetRate::of(rate),
            None => layer == LinkLayer::Infiniband && cable.part.width_max >= rate.width && cable.part.speed_max >= rate.speed,
        };
        let length = |cable: &CableTemplate| if cable.part.medium == Medium::Copper { COPPER } else { OPTICAL };
        let is_allowed = |cable: &CableTemplate| {
            let limits = cable.limits.as_deref().map(|name| self.limits(name).unwrap_or_default());
            limits.is_none_or(|limits| limits.iter().any(|limit| limit.rate == (layer, rate) && length(cable).0 <= limit.millimetres))
        };
        let named = self.parts(PartKind::Cable).into_iter().filter_map(|name| Some((name, self.cable_template(name)?)));
        let fitting = named.filter(|(_, cable)| cable.adjustable && carries(cable) && is_allowed(cable));
        let order = |(name, cable): &(&str, &CableTemplate)| {
            // Forward error correction of fast links is part of their latency.
            let has_correction = cable.part.fec_latency.iter().any(|(speed, _)| *speed == rate.speed);
            (cable.part.medium == Medium::Optical, !has_correction, cable.part.width_max, cable.part.speed_max, (*name).to_owned())
        };
        let (name, cable) = fitting.min_by_key(order)?;
        Some((name.to_owned(), length(cable).1.to_owned()))
    }
}

/// Returns the best rate of ports of both.
fn common_rate(hca: &HcaPart, switch: &SwitchPart, layer: LinkLayer) -> Option<LinkRate> {
    if layer == LinkLayer::Ethernet {
        let (one, other) = (hca.ethernet.as_ref()?, switch.ethernet.as_ref()?);
        return one.rates.iter().filter(|rate| other.rates.contains(rate)).max().map(|rate| rate.link_rate());
    }
    let width = *hca.widths.iter().filter(|width| switch.widths.contains(width)).max()?;
    let speed = *hca.speeds.iter().filter(|speed| switch.speeds.contains(speed)).max()?;
    Some(LinkRate { width, speed })
}

/// Returns the best rate of a switch.
fn best(switch: &SwitchPart, layer: LinkLayer) -> Option<LinkRate> {
    if layer == LinkLayer::Ethernet {
        return switch.ethernet.as_ref()?.rates.iter().max().map(|rate| rate.link_rate());
    }
    Some(LinkRate { width: *switch.widths.iter().max()?, speed: *switch.speeds.iter().max()? })
}
