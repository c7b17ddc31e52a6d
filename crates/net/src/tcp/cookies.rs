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

/// Key of the hashes that hide a cookie's content (`syncookie_secret` of Linux).
pub(crate) type Secret = [u64; 2];

/// Secret of the host, and the last overflow of a listening socket.
#[derive(Debug)]
pub(super) struct Cookies {
    secret: Secret,
    overflowed_at: SimTime,
}

impl Cookies {
    pub(super) fn new(secret: Secret, now: SimTime) -> Self {
        Self { secret, overflowed_at: now }
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
        let [local, remote] = [local, remote].map(bits).map(|bits| [(bits >> 64) as u64, bits as u64]);
        siphash(self.secret, &[local[0], local[1], remote[0], remote[1], ports, u64::from(minute & 0xff), salt]) as u32
    }
}

fn sizes(addresses: Addresses) -> &'static [u16; 4] {
    if addresses.0.is_ipv4() { &SIZES_V4 } else { &SIZES_V6 }
}

fn minute(now: SimTime) -> u32 {
    (now.as_picos() / PERIOD.as_picos()) as u32
}

/// Returns SipHash-2-4 of whole words (Aumasson and Bernstein, 2012), as Linux hashes cookies.
fn siphash(key: Secret, words: &[u64]) -> u64 {
    let mut state = [key[0] ^ 0x736f_6d65_7073_6575, key[1] ^ 0x646f_7261_6e64_6f6d, key[0] ^ 0x6c79_6765_6e65_7261, key[1] ^ 0x7465_6462_7974_6573];
    let end = (words.len() as u64 * 8) << 56;
    for word in words.iter().copied().chain([end]) {
        state[3] ^= word;
        (0..2).for_each(|_| sip_round(&mut state));
        state[0] ^= word;
    }
    state[2] ^= 0xff;
    (0..4).for_each(|_| sip_round(&mut state));
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

fn sip_round(state: &mut [u64; 4]) {
    let [mut a, mut b, mut c, mut d] = *state;
    (a, c) = (a.wrapping_add(b), c.wrapping_add(d));
    (b, d) = (b.rotate_left(13) ^ a, d.rotate_left(16) ^ c);
    a = a.rotate_left(32);
    (c, a) = (c.wrapping_add(b), a.wrapping_add(d));
    (b, d) = (b.rotate_left(17) ^ c, d.rotate_left(21) ^ a);
    *state = [a, b, c.rotate_left(32), d];
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
    fn the_hash_is_that_of_its_authors() {
        // Key 00 01 .. 0f, and the first 0, 8 and 16 bytes of 00 01 .. (reference implementation, vectors_sip64).
        let word = |first: u8| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|at| first + at));
        let (key, words) = ([word(0), word(8)], [word(0), word(8)]);
        let hashes = [0, 1, 2].map(|count| siphash(key, &words[..count]));
        assert_eq!(hashes, [0x726f_db47_dd0e_0e31, 0x93f5_f579_9a93_2462, 0x3f2a_cc7f_57c2_9bdb]);
    }

    #[test]
    fn both_halves_of_the_secret_hide_a_cookie() {
        let number = |secret| Cookies::new(secret, SimTime::ZERO).number(addresses(9), 42, &Options::default(), SimTime::ZERO);
        assert!(number([7, 9]) != number([7, 8]) && number([7, 9]) != number([6, 9]));
    }

    #[test]
    fn a_cookie_names_the_segments_of_its_peer_for_two_minutes() {
        let at = |seconds: u64| SimTime::ZERO + SimDuration::from_micros(seconds * 1_000_000);
        let mut cookies = Cookies::new([7, 9], at(59));
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
