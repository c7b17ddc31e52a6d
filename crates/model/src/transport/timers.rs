//! The specification's timer codes as spans.

use softband_sim::SimDuration;

/// Local ACK timeout of a 5-bit code: 4.096 us x 2^code, none for 0 (IBTA 9.7.6.1.3).
pub const fn local_ack_timeout(code: u8) -> Option<SimDuration> {
    match code {
        0 => None,
        _ => Some(SimDuration::from_nanos(4_096 << if code > 31 { 31 } else { code })),
    }
}

/// How long a requester waits after an RNR NAK with this 5-bit code (IBTA 9.7.5.2.8, table of RNR timer values).
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
}
