//! Timer codes of the specification, as spans of time.

use softband_sim::SimDuration;

/// Returns the local ACK timeout of a 5-bit code: 4.096 us x 2^code, up to 2.4 hours. Returns
/// `None` for code 0: no timeout (IBTA 9.7.6.1.3).
pub const fn local_ack_timeout(code: u8) -> Option<SimDuration> {
    match code {
        0 => None,
        _ => Some(SimDuration::from_nanos(4_096 << if code > 31 { 31 } else { code })),
    }
}

/// Timer of an HCA for acknowledgements. The specification permits an HCA to wait one to four times
/// the time of the code. The default is [`AckTimer::SHORTEST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckTimer {
    /// Least code, from 0 to 31: lower codes, except 0, count as this code.
    pub code_min: u32,
    /// Number of times that the code's time passes before the HCA sends again, from 1 to 4.
    pub periods: u32,
}

impl Default for AckTimer {
    fn default() -> Self {
        Self::SHORTEST
    }
}

impl AckTimer {
    /// Least timer that the specification permits.
    pub const SHORTEST: Self = Self { code_min: 0, periods: 1 };

    /// Returns the time from the last progress until unacknowledged packets are sent again, or
    /// `None` for code 0.
    pub fn wait(self, code: u8) -> Option<SimDuration> {
        local_ack_timeout(code)?;
        let code = self.code_min.min(31).max(u32::from(code)) as u8;
        local_ack_timeout(code).map(|period| period * u64::from(self.periods))
    }
}

/// Returns the wait of a requester after an RNR NAK with this 5-bit code: 10 us to 655 ms (IBTA
/// 9.7.5.2.8, table of RNR timer values).
pub const fn rnr_wait(code: u8) -> SimDuration {
    const HUNDREDTHS_OF_MILLIS: [u64; 32] = [
        65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288,
        16_384, 24_576, 32_768, 49_152,
    ];
    SimDuration::from_micros(HUNDREDTHS_OF_MILLIS[(code & 31) as usize] * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_mean_what_the_tables_say() {
        assert_eq!(local_ack_timeout(0), None);
        assert_eq!(local_ack_timeout(14), Some(SimDuration::from_nanos(67_108_864)));
        assert_eq!(rnr_wait(0), SimDuration::from_micros(655_360));
        assert_eq!(rnr_wait(12), SimDuration::from_micros(640));
    }

    #[test]
    fn an_hca_waits_no_shorter_than_its_least_code_says() {
        let timer = AckTimer { code_min: 16, periods: 2 };
        assert_eq!(timer.wait(0), None);
        assert_eq!(timer.wait(1), Some(SimDuration::from_nanos(536_870_912)));
        assert_eq!(timer.wait(16), timer.wait(1));
        assert_eq!(timer.wait(17), Some(SimDuration::from_nanos(1_073_741_824)));
        assert_eq!(AckTimer::SHORTEST.wait(14), local_ack_timeout(14));
    }
}
