//! The widths and speeds to which a port may train (LinkWidthEnabled, LinkSpeedEnabled and
//! LinkSpeedExtEnabled of PortInfo, IBTA 14.2.5.6).

use super::{Agent, NodeFacts, Refusal};
use softband_types::{LinkRate, LinkSpeed, LinkWidth, PortNumber};
use softband_wire::mad::{LinkSpeedCode, LinkSpeedExtCode, LinkWidthCode, PortInfo, Status};

/// Widths and speeds, as sets of codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trainable {
    pub(super) widths: LinkWidthCode,
    pub(super) speeds: LinkSpeedCode,
    pub(super) extended: LinkSpeedExtCode,
    /// Generations that the hardware has, by their codes: two share a code of PortInfo.
    generations: u16,
    /// Whether a manager permits less than all.
    is_restricted: bool,
}

impl Trainable {
    /// Returns all that the ports of a node support.
    pub(super) fn supported(facts: &NodeFacts) -> Self {
        let widths = facts.widths.iter().fold(0, |codes, width| codes | width_code(*width).0);
        let (speeds, extended) = facts.speeds.iter().fold((0, 0), |(speeds, extended), speed| {
            let (speed, ext) = speed_codes(*speed);
            (speeds | speed.0, extended | ext.0)
        });
        Self {
            widths: LinkWidthCode(widths),
            speeds: LinkSpeedCode(speeds),
            extended: LinkSpeedExtCode(extended),
            generations: facts.speeds.iter().fold(0, |codes, speed| codes | speed.code()),
            is_restricted: false,
        }
    }

    /// Returns the sets after a request to change them.
    fn changed_by(self, info: &PortInfo, supported: Self) -> Result<Self, Refusal> {
        let chosen = |present: u8, wanted: u8, supported: u8, all: u8| match wanted {
            0 => Ok(present),
            wanted if wanted == all => Ok(supported),
            wanted if wanted & !supported == 0 => Ok(wanted),
            _ => Err(Refusal::from(Status::INVALID_FIELD)),
        };
        let all = (LinkWidthCode::ALL_SUPPORTED.0, LinkSpeedCode::ALL_SUPPORTED.0, LinkSpeedExtCode::ALL_SUPPORTED.0);
        let extended = match info.link_speed_ext_enabled {
            LinkSpeedExtCode::DISABLED => 0,
            wanted => chosen(self.extended.0, wanted.0, supported.extended.0, all.2)?,
        };
        let changed = Self {
            widths: LinkWidthCode(chosen(self.widths.0, info.link_width_enabled.0, supported.widths.0, all.0)?),
            speeds: LinkSpeedCode(chosen(self.speeds.0, info.link_speed_enabled.0, supported.speeds.0, all.1)?),
            extended: LinkSpeedExtCode(extended),
            ..supported
        };
        Ok(Self { is_restricted: changed != supported, ..changed })
    }

    fn has_width(self, width: LinkWidth) -> bool {
        self.widths.contains(width_code(width))
    }

    fn has_speed(self, speed: LinkSpeed) -> bool {
        let is_enabled = match speed_codes(speed) {
            (code, LinkSpeedExtCode(0)) => self.speeds.contains(code),
            (_, code) => self.extended.contains(code),
        };
        is_enabled && self.generations & speed.code() != 0
    }
}

impl Agent {
    /// Returns the widths and speeds to which a port may train after a request. A link that is up
    /// keeps its rate until it trains again (IBTA volume 2, 5.6.4).
    pub(super) fn trainable_after(&self, port: u8, info: &PortInfo) -> Result<Trainable, Refusal> {
        let present = self.ports[usize::from(port)].trainable;
        // Port 0 has no link.
        if port == 0 { Ok(present) } else { present.changed_by(info, Trainable::supported(&self.facts)) }
    }

    /// Returns the widths and speeds to which a port may train.
    pub fn trainable(&self, port: PortNumber) -> Option<Trainable> {
        self.ports.get(usize::from(port.0)).map(|port| port.trainable)
    }
}

/// Returns the rate to which a link trains: the widest and the fastest that its ends permit, up to
/// the rate of its cable and ports. `None` if the ends have no rate in common.
pub fn trained_rate(ends: &[Trainable], most: LinkRate) -> Option<LinkRate> {
    if ends.iter().all(|end| !end.is_restricted) {
        return Some(most);
    }
    let width = LinkWidth::ALL.into_iter().rfind(|width| *width <= most.width && ends.iter().all(|end| end.has_width(*width)))?;
    let speed = LinkSpeed::ALL.into_iter().rfind(|speed| *speed <= most.speed && ends.iter().all(|end| end.has_speed(*speed)))?;
    Some(LinkRate { width, speed })
}

pub(super) fn width_code(width: LinkWidth) -> LinkWidthCode {
    match width {
        LinkWidth::X1 => LinkWidthCode::X1,
        LinkWidth::X2 => LinkWidthCode::X2,
        LinkWidth::X4 => LinkWidthCode::X4,
        LinkWidth::X8 => LinkWidthCode::X8,
        LinkWidth::X12 => LinkWidthCode::X12,
    }
}

/// Returns the codes of a speed. Extended speeds report QDR in the older field.
pub(super) fn speed_codes(speed: LinkSpeed) -> (LinkSpeedCode, LinkSpeedExtCode) {
    match speed {
        LinkSpeed::Gigabit | LinkSpeed::Sdr => (LinkSpeedCode::SDR, LinkSpeedExtCode(0)),
        LinkSpeed::Ddr => (LinkSpeedCode::DDR, LinkSpeedExtCode(0)),
        // FDR10 is a speed of a maker, which reports it by an attribute of its own.
        LinkSpeed::Qdr | LinkSpeed::Fdr10 => (LinkSpeedCode::QDR, LinkSpeedExtCode(0)),
        LinkSpeed::Fdr => (LinkSpeedCode::QDR, LinkSpeedExtCode::FDR),
        LinkSpeed::Edr => (LinkSpeedCode::QDR, LinkSpeedExtCode::EDR),
        LinkSpeed::Hdr => (LinkSpeedCode::QDR, LinkSpeedExtCode::HDR),
        // XDR has its code in another attribute (IBTA release 1.7).
        LinkSpeed::Ndr | LinkSpeed::Xdr => (LinkSpeedCode::QDR, LinkSpeedExtCode::NDR),
    }
}
