//! Draws the faults of a run.

use super::Features;
use crate::dice::Dice;
use softband_sim::{SimDuration, SimTime};
use softband_spec::FabricSpec;
use softband_spec::faults::{BitErrorRate, FaultKind, FaultSpec, PacketClass};

/// Faults begin within the first 400 us, as most actions do.
const WITHIN_NANOS: u64 = 400_000;

pub(super) fn draw(dice: &mut Dice, features: &Features, spec: &FabricSpec) -> Vec<FaultSpec> {
    let mut faults = Vec::new();
    let at = |nanos: u64| SimTime::from_picos((1_000 + nanos) * 1_000);
    let cables = spec.cables.len() as u64;
    if features.flaps {
        for _ in 0..dice.within(1, 6) {
            let (cable, from) = (dice.below(cables) as usize, dice.below(WITHIN_NANOS));
            let lasts = dice.spread(WITHIN_NANOS);
            if dice.chance(30) {
                faults.push(FaultSpec { at: at(from), kind: FaultKind::LinkRecovers { cable, lasts: SimDuration::from_nanos(lasts) } });
            } else {
                faults.push(FaultSpec { at: at(from), kind: FaultKind::LinkDown { cable } });
                faults.push(FaultSpec { at: at(from + lasts), kind: FaultKind::LinkUp { cable } });
            }
        }
    }
    if features.drops {
        for _ in 0..dice.within(1, 8) {
            let cable = &spec.cables[dice.below(cables) as usize];
            let port = *dice.pick(&cable.ends);
            let packet = *dice.pick(&PacketClass::ALL);
            faults.push(FaultSpec { at: at(dice.below(WITHIN_NANOS / 4)), kind: FaultKind::Drop { port, packet, number: dice.spread(40) } });
        }
        if dice.chance(50) {
            let cable = dice.below(cables) as usize;
            // From one wrong bit in 1,000 to one in a million.
            let rate = 1.0 / (1_000 << dice.below(10)) as f64;
            let (from, lasts) = (dice.below(WITHIN_NANOS), dice.spread(WITHIN_NANOS));
            let rates = [(from, BitErrorRate::new(rate)), (from + lasts, Some(BitErrorRate::NONE))];
            faults.extend(
                rates.into_iter().filter_map(|(nanos, rate)| Some(FaultSpec { at: at(nanos), kind: FaultKind::BitErrors { cable, rate: rate? } })),
            );
        }
    }
    if features.deaths {
        let host = dice.below(spec.hosts.len() as u64) as usize;
        let is_switch = !spec.switches.is_empty() && dice.chance(30);
        let kind = match is_switch {
            true => FaultKind::SwitchDies { switch: dice.below(spec.switches.len() as u64) as usize },
            false => FaultKind::HostDies { host },
        };
        faults.push(FaultSpec { at: at(dice.below(WITHIN_NANOS)), kind });
    }
    faults
}
