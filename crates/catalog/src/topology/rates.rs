//! Rates of links: as trained (`4xQDR`), or as sets of enabled widths and speeds (ibsim).

use softband_types::{LinkRate, LinkSpeed, LinkWidth};

/// The rate of a port as the file states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stated {
    Trained(LinkRate),
    Enabled(Enabled),
}

/// Enabled widths and speeds of a port, as in PortInfo (IBTA 14.2.5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Enabled {
    pub(super) widths: u8,
    pub(super) speeds: u8,
    pub(super) extended: u8,
    pub(super) fdr10: bool,
}

impl Enabled {
    /// Defaults of ibsim: 4X SDR.
    pub(super) const DEFAULT: Self = Self { widths: 2, speeds: 1, extended: 0, fdr10: false };
    const SPEEDS: u8 = 7;

    /// Returns the set that a stated rate stands for in ibsim: the rate and the slower ones.
    pub(super) fn up_to(rate: LinkRate) -> Self {
        let widths = match rate.width {
            LinkWidth::X12 => LinkWidth::X1.code() | LinkWidth::X4.code() | LinkWidth::X12.code(),
            LinkWidth::X4 => LinkWidth::X1.code() | LinkWidth::X4.code(),
            other => other.code(),
        };
        let slower = |of: LinkSpeed| LinkSpeed::ALL.into_iter().filter(move |speed| *speed <= of);
        let speeds = slower(rate.speed).filter_map(plain).fold(0, |all, code| all | code);
        let extended = slower(rate.speed).filter_map(extended).fold(0, |all, code| all | code);
        Self { widths, speeds, extended, fdr10: rate.speed >= LinkSpeed::Fdr10 }
    }

    /// Returns the best rate that both ends enable.
    pub(super) fn common(self, other: Self) -> Option<LinkRate> {
        let width = LinkWidth::ALL.into_iter().filter(|width| width.code() & self.widths & other.widths != 0).max()?;
        let [speeds, extensions] = [self.speeds & other.speeds & Self::SPEEDS, self.extended & other.extended];
        let fdr10 = self.fdr10 && other.fdr10;
        let of = |speed: &LinkSpeed| match (plain(*speed), extended(*speed)) {
            (Some(code), _) => speeds & code != 0,
            (_, Some(code)) => extensions & code != 0,
            _ => fdr10 && speeds & LinkSpeed::Qdr.code() as u8 != 0,
        };
        let speed = LinkSpeed::ALL.into_iter().filter(of).max()?;
        Some(LinkRate { width, speed })
    }
}

/// Code of LinkSpeedEnabled, for the speeds up to QDR.
fn plain(speed: LinkSpeed) -> Option<u8> {
    (speed <= LinkSpeed::Qdr).then_some(speed.code() as u8)
}

/// Code of LinkSpeedExtEnabled, for the speeds from FDR on. XDR is bit 5 (IBTA 14.2.5.6).
pub(super) fn extended(speed: LinkSpeed) -> Option<u8> {
    match speed {
        LinkSpeed::Fdr => Some(1),
        LinkSpeed::Edr => Some(2),
        LinkSpeed::Hdr => Some(4),
        LinkSpeed::Ndr => Some(8),
        LinkSpeed::Xdr => Some(32),
        _ => None,
    }
}

/// Reads `4xQDR`.
pub(super) fn parse(text: &str) -> Option<LinkRate> {
    let at = text.find(['x', 'X'])?;
    let width = LinkWidth::parse(&format!("{}X", &text[..at]))?;
    Some(LinkRate { width, speed: LinkSpeed::parse(&text[at + 1..])? })
}

/// Writes `4xQDR`.
pub(super) fn name(rate: LinkRate) -> String {
    format!("{}x{}", rate.width.lanes(), rate.speed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_enable_the_rate_that_they_state() {
        for width in LinkWidth::ALL {
            for speed in LinkSpeed::ALL {
                let rate = LinkRate { width, speed };
                assert_eq!((parse(&name(rate)), Enabled::up_to(rate).common(Enabled::up_to(rate))), (Some(rate), Some(rate)));
            }
        }
    }

    #[test]
    fn two_ends_agree_on_the_best_common_rate_or_on_none() {
        let of = |text| Enabled::up_to(parse(text).unwrap());
        assert_eq!(of("12xQDR").common(of("4xEDR")), parse("4xQDR"));
        assert_eq!(of("2xHDR").common(of("4xHDR")), None);
        assert_eq!(of("4xFDR10").common(of("4xFDR")), parse("4xFDR10"));
        assert_eq!(["4x???", "3xQDR", "4x", "xQDR", "QDR", ""].map(parse), [None; 6]);
    }
}
