//! SYN cookies (RFC 4987, 3.6): SYN-ACKs whose numbers hold what the host would remember of a SYN, so
//! that a flood of SYNs takes no memory.
//!
//! As in Linux, the first number holds the minute in its high byte and the size of segments below,
//! both hidden by hashes with a secret. The low bits of the timestamp hold the peer's options.

use crate::packet::{Options, Timestamps};
use softband_model::parts::SynCookies;
use softband_sim::{SimDuration, SimTime};
use std::net::{IpAddr, SocketAddr};

/// Sizes of segments that a cookie can name (`msstab` of Linux), for IPv4 and for IPv6.
const SIZES_V4: [u16; 4] = [536, 1_300, 1_440, 1_460];
const SIZES_V6: [u16; 4] = [1_220, 1_420, 1_440, 8_940];
/// Step of the clock in cookies.
const PERIOD: SimDuration = SimDuration::from_micros(60_000_000);
/// Steps for which a cookie is good (`MAX_SYNCOOKIE_AGE` of Linux).
const AGE_MAX: u32 = 2;
/// Bits of a cookie below the clock.
const DATA: u32 = 0xff_ffff;
/// Bits of a timestamp that hold options: the shift of windows, and selective acknowledgements.
const STAMP: u32 = 0x3f;
const SCALE: u32 = 0xf;
const SACK: u32 = 0x10;

type Addresses = (SocketAddr, SocketAddr);

/// Secret of a listening socket, and its last overflow.
#[derive(Debug)]
pub(super) struct Cookies {
    secret: u64,
    overflowed_at: SimTime,
}

impl Cookies {
    pub(super) fn new(secret: u32, now: SimTime) -> Self {
        Self { secret: mixed(u64::from(secret)), overflowed_at: now }
    }

    /// Returns the first number of the answer to a SYN that found no room.
    pub(super) fn number(&mut self, addresses: Addresses, remote_first: u32, options: &Options, now: SimTime) -> u32 {
        self.overflowed_at = now;
        let offered = options.mss.unwrap_or(0);
        let size = sizes(addresses).iter().rposition(|size| *size <= offered).unwrap_or(0) as u32;
        let minute = minute(now);
        let data = self.hash(addresses, minute, 1).wrapping_add(size) & DATA;
        self.hash(addresses, 0, 0).wrapping_add(remote_first).wrapping_add(minute << 24).wrapping_add(data)
    }

    /// Returns the size of segments that a cookie names; `None` if the number is no cookie, or is too old.
    pub(super) fn check(&self, addresses: Addresses, (number, remote_first): (u32, u32), now: SimTime) -> Option<u16> {
        // Without a flood of late, Linux trusts no cookie (`tcp_synq_no_recent_overflow`).
        if now > self.overflowed_at + PERIOD * u64::from(AGE_MAX) {
            return None;
        }
        let rest = number.wrapping_sub(self.hash(addresses, 0, 0)).wrapping_sub(remote_first);
        let minute = minute(now);
        let age = minute.wrapping_sub(rest >> 24) & 0xff;
        if age >= AGE_MAX {
            return None;
        }
        let size = rest.wrapping_sub(self.hash(addresses, minute.wrapping_sub(age), 1)) & DATA;
        sizes(addresses).get(size as usize).copied()
    }

    fn hash(&self, (local, remote): Addresses, minute: u32, salt: u64) -> u32 {
        let bits = |address: SocketAddr| match address.ip() {
            IpAddr::V4(address) => u128::from(u32::from(address)),
            IpAddr::V6(address) => u128::from(address),
        };
        let ports = u64::from(local.port()) << 16 | u64::from(remote.port());
        let words = [local, remote].map(bits).into_iter().flat_map(|bits| [(bits >> 64) as u64, bits as u64]);
        let hash = words.chain([ports, u64::from(minute & 0xff), salt]).fold(self.secret, |hash, word| mixed(hash ^ word));
        hash as u32
    }
}

fn sizes(addresses: Addresses) -> &'static [u16; 4] {
    if addresses.0.is_ipv4() { &SIZES_V4 } else { &SIZES_V6 }
}

fn minute(now: SimTime) -> u32 {
    (now.as_picos() / PERIOD.as_picos()) as u32
}

/// Returns the output of the SplitMix64 generator for a state.
fn mixed(state: u64) -> u64 {
    let mut bits = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// Returns the options of a SYN that a cookie keeps.
pub(super) fn kept(options: &Options, rule: SynCookies) -> Options {
    let timestamps = options.timestamps.filter(|_| rule == SynCookies::Options);
    let holds = timestamps.is_some();
    Options {
        mss: options.mss,
        window_scale: options.window_scale.filter(|_| holds),
        sack_permitted: options.sack_permitted && holds,
        timestamps,
        ..Options::default()
    }
}

/// Returns the clock of a SYN-ACK with the options in its low bits. It is never ahead of `clock`.
pub(super) fn stamped(options: &Options, clock: u32) -> u32 {
    let scale = options.window_scale.map_or(SCALE, |scale| u32::from(scale.min(14)));
    let stamp = clock & !STAMP | scale | if options.sack_permitted { SACK } else { 0 };
    if stamp > clock { stamp.wrapping_sub(STAMP + 1) } else { stamp }
}

/// Returns the options of the SYN whose answer the peer confirms by its timestamps.
pub(super) fn restored(size: u16, timestamps: Option<Timestamps>) -> Options {
    let scale = |stamp: u32| (stamp & SCALE != SCALE).then_some((stamp & SCALE) as u8);
    Options {
        mss: Some(size),
        window_scale: timestamps.and_then(|timestamps| scale(timestamps.echo)),
        sack_permitted: timestamps.is_some_and(|timestamps| timestamps.echo & SACK != 0),
        timestamps,
        ..Options::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(port: u16) -> Addresses {
        (SocketAddr::from(([10, 0, 0, 1], 80)), SocketAddr::from(([10, 0, 0, 2], port)))
    }

    #[test]
    fn a_cookie_names_the_segments_of_its_peer_for_two_minutes() {
        let at = |seconds: u64| SimTime::ZERO + SimDuration::from_micros(seconds * 1_000_000);
        let mut cookies = Cookies::new(7, at(59));
        for (offered, kept) in [(100, 536), (536, 536), (1_447, 1_440), (9_000, 1_460)] {
            let options = Options { mss: Some(offered), ..Options::default() };
            let number = cookies.number(addresses(9), 42, &options, at(59));
            let check = |number, first, port, seconds| cookies.check(addresses(port), (number, first), at(seconds));
            assert_eq!((check(number, 42, 9, 59), check(number, 42, 9, 119)), (Some(kept), Some(kept)));
            assert_eq!(check(number, 42, 9, 120), None, "the cookie is too old");
            assert_eq!((check(number, 99, 9, 59), check(number, 42, 8, 59), check(number + 9, 42, 9, 59)), (None, None, None));
        }
        let options = Options::default();
        let number = cookies.number(addresses(9), 42, &options, at(60));
        cookies.overflowed_at = SimTime::ZERO;
        assert_eq!(cookies.check(addresses(9), (number, 42), at(121)), None, "the flood is over");
    }

    #[test]
    fn a_timestamp_brings_the_options_back() {
        let echo = Timestamps { value: 5, echo: 0 };
        for (window_scale, sack_permitted) in [(None, false), (Some(0), true), (Some(14), false), (Some(7), true)] {
            let options = Options { mss: Some(1_460), window_scale, sack_permitted, timestamps: Some(echo), ..Options::default() };
            for clock in [1, 63, 64, 1_000, 1_023] {
                let stamp = stamped(&kept(&options, SynCookies::Options), clock);
                assert!(clock.wrapping_sub(stamp) <= STAMP + 1, "{clock} {stamp}");
                let timestamps = Some(Timestamps { value: 5, echo: stamp });
                assert_eq!(restored(1_460, timestamps), Options { timestamps, ..options });
            }
            let bare = kept(&options, SynCookies::Plain);
            assert_eq!(bare, Options { mss: Some(1_460), ..Options::default() });
        }
    }
}
