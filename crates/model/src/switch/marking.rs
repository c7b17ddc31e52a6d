//! Rules by which a switch marks packets with FECN (IBTA annex A10, SwitchCongestionSetting).

use softband_types::CreditBlocks;

/// Threshold, Packet_Size and Marking_Rate of all switches. Credit starvation is not modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkingSettings {
    /// Threshold: 0 marks nothing; 1 (late) to 15 (soon), in equal steps.
    pub threshold: u8,
    /// Packet_Size: least size of a packet to be marked.
    pub packet_size: CreditBlocks,
    /// Marking_Rate: packets between two marked packets, of those that could be marked. 0 marks all
    /// of them.
    pub marking_rate: u16,
}

impl MarkingSettings {
    /// Largest threshold: 15 marks soonest.
    pub const THRESHOLD_MAX: u8 = 15;

    /// Returns the amount that may wait behind a packet on a lane before the lane counts as
    /// congested. `None` means any amount.
    ///
    /// The annex wants the value to fall evenly with the weight and leaves the rest to the switch's
    /// maker. Here weight w is (16 - w) sixteenths of the capacity of one input on a lane
    /// (assumed).
    pub fn congested_above(&self, lane: CreditBlocks) -> Option<CreditBlocks> {
        let sixteenths = u32::from(16_u8.saturating_sub(self.threshold));
        (self.threshold > 0).then(|| CreditBlocks(lane.0 * sixteenths / 16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_falls_evenly_and_zero_marks_nothing() {
        let above = |threshold| {
            let settings = MarkingSettings { threshold, packet_size: CreditBlocks(0), marking_rate: 0 };
            settings.congested_above(CreditBlocks(160)).map(|blocks| blocks.0)
        };
        assert_eq!([0, 1, 8, 15].map(above), [None, Some(150), Some(80), Some(10)]);
    }
}
