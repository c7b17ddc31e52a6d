//! Rates of address vectors: code, multiple of 2.5 Gb/s, and Mb/s.

use libc::c_int;
use softband_abi::verbs::*;

struct Rate {
    code: u32,
    /// Multiple of 2.5 Gb/s, if the code has a name as a multiple.
    multiple: Option<c_int>,
    mbps: c_int,
}

const fn rate(code: u32, multiple: Option<c_int>, mbps: c_int) -> Rate {
    Rate { code, multiple, mbps }
}

const RATES: [Rate; 23] = [
    rate(IBV_RATE_2_5_GBPS, Some(1), 2500),
    rate(IBV_RATE_5_GBPS, Some(2), 5000),
    rate(IBV_RATE_10_GBPS, Some(4), 10_000),
    rate(IBV_RATE_20_GBPS, Some(8), 20_000),
    rate(IBV_RATE_30_GBPS, Some(12), 30_000),
    rate(IBV_RATE_40_GBPS, Some(16), 40_000),
    rate(IBV_RATE_60_GBPS, Some(24), 60_000),
    rate(IBV_RATE_80_GBPS, Some(32), 80_000),
    rate(IBV_RATE_120_GBPS, Some(48), 120_000),
    rate(IBV_RATE_14_GBPS, None, 14_062),
    rate(IBV_RATE_56_GBPS, None, 56_250),
    rate(IBV_RATE_112_GBPS, None, 112_500),
    rate(IBV_RATE_168_GBPS, None, 168_750),
    rate(IBV_RATE_25_GBPS, None, 25_781),
    rate(IBV_RATE_100_GBPS, None, 103_125),
    rate(IBV_RATE_200_GBPS, None, 206_250),
    rate(IBV_RATE_300_GBPS, None, 309_375),
    rate(IBV_RATE_28_GBPS, Some(11), 28_125),
    rate(IBV_RATE_50_GBPS, Some(20), 53_125),
    rate(IBV_RATE_400_GBPS, Some(160), 425_000),
    rate(IBV_RATE_600_GBPS, Some(240), 637_500),
    rate(IBV_RATE_800_GBPS, Some(320), 850_000),
    rate(IBV_RATE_1200_GBPS, Some(480), 1_275_000),
];

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_rate_to_mult(code: u32) -> c_int {
    RATES.iter().find(|rate| rate.code == code).and_then(|rate| rate.multiple).unwrap_or(-1)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn mult_to_ibv_rate(multiple: c_int) -> u32 {
    RATES.iter().find(|rate| rate.multiple == Some(multiple)).map_or(IBV_RATE_MAX, |rate| rate.code)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn ibv_rate_to_mbps(code: u32) -> c_int {
    RATES.iter().find(|rate| rate.code == code).map_or(-1, |rate| rate.mbps)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> u32 {
    RATES.iter().find(|rate| rate.mbps == mbps).map_or(IBV_RATE_MAX, |rate| rate.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rate_leads_back_to_its_code() {
        for rate in &RATES {
            assert_eq!(mbps_to_ibv_rate(ibv_rate_to_mbps(rate.code)), rate.code);
            if let Some(multiple) = rate.multiple {
                assert_eq!(mult_to_ibv_rate(multiple), rate.code);
                assert_eq!(ibv_rate_to_mult(rate.code), multiple);
            }
        }
        assert_eq!((ibv_rate_to_mult(IBV_RATE_MAX), mult_to_ibv_rate(3)), (-1, IBV_RATE_MAX));
    }
}
