//! Receive window: what a receiver offers, by Linux's rules, and the growth of its buffer.

use super::congestion::initial_window;
use softband_model::parts::{KernelPart, ReceiveGrowth, ReceiveWindowRule};
use softband_sim::{SimDuration, SimTime};

/// Largest window field.
const FIELD_MAX: u32 = u16::MAX as u32;
/// Largest shift of a window (RFC 7323, 2.3).
const SCALE_MAX: u8 = 14;
/// Least estimate of a peer's segments, in bytes.
const SEGMENT_MIN: u32 = 88;
/// Segment of Ethernet in bytes.
const SEGMENT_ETHERNET: u32 = 1_460;
/// Least first estimate, in bytes (RFC 1122, default MSS).
const SEGMENT_FIRST: u32 = 536;

/// Receive window of a connection.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveWindow {
    /// Next expected stream offset.
    next: u64,
    /// Expected offset in the last acknowledgement, and the window in it.
    acked: u64,
    offered: u32,
    scale: u8,
    /// Bound of the window, which grows with arrivals.
    slow: u32,
    buffer: u32,
    is_locked: bool,
    share_ppm: u32,
    advertised_mss: u32,
    /// Payload of the peer's packets, as far as seen.
    segment_bytes: u32,
    tuning: Tuning,
}

/// Measurement of the program's reading, for the growth of the buffer.
#[derive(Clone, Debug)]
struct Tuning {
    /// Bytes that a round trip brings.
    space: u32,
    read_from: u64,
    since: SimTime,
    rtt: Option<SimDuration>,
    /// A window from here is a round trip, for peers without timestamps.
    window_end: u64,
    window_since: SimTime,
}

impl ReceiveWindow {
    /// Returns the window of a new connection with a buffer of `buffer` bytes. `taken` bytes of each of
    /// the peer's packets are known to be options.
    pub(crate) fn new(kernel: &KernelPart, (buffer, is_locked): (u32, bool), advertised_mss: u32, taken: u32, now: SimTime) -> Self {
        let space = share(buffer, kernel.window_share_ppm);
        // Linux, `tcp_select_initial_window`: whole packets. SYN knows nothing of the peer's options.
        let packet = advertised_mss.saturating_sub(taken).max(1);
        let whole = if space > packet { space / packet * packet } else { space };
        let segments = first_segments(kernel, packet).map_or(u32::MAX, |segments| segments.saturating_mul(packet));
        let offered = whole.min(segments).min(FIELD_MAX);
        let scale =
            if kernel.window_scaling { scale_of(kernel.receive_buffer.max_bytes.max(kernel.datagram_buffer.max_bytes).max(buffer)) } else { 0 };
        let space = match kernel.receive_growth {
            ReceiveGrowth::Doubling => offered,
            // Linux: a first round trip brings the initial window of the peer.
            ReceiveGrowth::Growth => offered.min(initial_window(kernel, advertised_mss).saturating_mul(advertised_mss)),
        };
        let tuning = Tuning { space, read_from: 0, since: now, rtt: None, window_end: 0, window_since: now };
        Self {
            next: 0,
            acked: 0,
            offered,
            scale,
            slow: offered,
            buffer,
            is_locked,
            share_ppm: kernel.window_share_ppm,
            advertised_mss,
            segment_bytes: SEGMENT_FIRST.min(advertised_mss).max(SEGMENT_MIN),
            tuning,
        }
    }

    /// Starts at the peer's first data. `is_scaled` says whether both sides scale windows.
    pub(crate) fn start(&mut self, next: u64, is_scaled: bool, now: SimTime) {
        (self.next, self.acked) = (next, next);
        self.scale = if is_scaled { self.scale } else { 0 };
        self.tuning.read_from = next;
        (self.tuning.since, self.tuning.window_since) = (now, now);
        self.tuning.window_end = next + u64::from(self.offered);
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }
    pub(crate) fn acked(&self) -> u64 {
        self.acked
    }
    /// Returns the window of the last acknowledgement.
    pub(crate) fn offered(&self) -> u32 {
        self.offered
    }
    pub(crate) fn scale(&self) -> u8 {
        self.scale
    }
    pub(crate) fn segment_bytes(&self) -> u32 {
        self.segment_bytes
    }
    pub(crate) fn buffer(&self) -> u32 {
        self.buffer
    }
    /// Returns the first stream offset beyond the window.
    pub(crate) fn end(&self) -> u64 {
        (self.acked + u64::from(self.offered)).max(self.next)
    }
    /// Returns the bytes that the peer may still send.
    pub(crate) fn left(&self) -> u32 {
        (self.end() - self.next) as u32
    }
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.next += bytes;
    }
    /// Sets the buffer by the program's wish, which ends its growth.
    pub(crate) fn set_buffer(&mut self, bytes: u32) {
        (self.buffer, self.is_locked) = (bytes, true);
    }
    fn full(&self) -> u32 {
        share(self.buffer, self.share_ppm)
    }

    /// Notes arriving data, which opens the window further.
    pub(crate) fn data_arrived(&mut self, now: SimTime, packet_bytes: u32, queued: u64, echo_age: Option<SimDuration>) {
        if packet_bytes >= SEGMENT_MIN {
            self.segment_bytes =
                if packet_bytes >= self.segment_bytes { packet_bytes.min(self.advertised_mss.max(SEGMENT_MIN)) } else { self.segment_bytes };
        }
        let free = u64::from(self.full()).saturating_sub(queued);
        let room = free.saturating_sub(u64::from(self.slow)).min(u64::from(u32::MAX)) as u32;
        self.slow += room.min(2 * self.advertised_mss);
        let measured = match echo_age {
            Some(age) => Some(self.tuning.rtt.map_or(age, |rtt| SimDuration::from_picos(rtt.as_picos() / 8 * 7 + age.as_picos() / 8))),
            None if self.next >= self.tuning.window_end => {
                let age = now.saturating_since(self.tuning.window_since);
                (self.tuning.window_end, self.tuning.window_since) = (self.next + u64::from(self.offered), now);
                Some(self.tuning.rtt.map_or(age, |rtt| rtt.min(age)))
            }
            None => self.tuning.rtt,
        };
        self.tuning.rtt = measured;
    }

    /// Notes that the program has read up to `read`. Enlarges the buffer if a round trip brought more
    /// than the last ones (dynamic right-sizing).
    pub(crate) fn data_read(&mut self, now: SimTime, read: u64, kernel: &KernelPart) {
        let Some(rtt) = self.tuning.rtt else { return };
        if now.saturating_since(self.tuning.since) < rtt {
            return;
        }
        let copied = read.saturating_sub(self.tuning.read_from);
        let space = u64::from(self.tuning.space.max(1));
        let measured = if kernel.receive_growth == ReceiveGrowth::Doubling { 2 * copied } else { copied };
        if measured > space {
            let window = match kernel.receive_growth {
                ReceiveGrowth::Doubling => measured,
                ReceiveGrowth::Growth => {
                    let window = 2 * copied + 16 * u64::from(self.advertised_mss);
                    // The sender in slow start doubles its rate meanwhile.
                    window + 2 * (window * (copied - space) / space)
                }
            };
            let wanted = window.saturating_mul(1_000_000) / u64::from(self.share_ppm);
            let wanted = wanted.min(u64::from(kernel.receive_buffer.max_bytes)) as u32;
            if !self.is_locked && wanted > self.buffer {
                self.buffer = wanted;
            }
            self.tuning.space = u32::try_from(measured).unwrap_or(u32::MAX);
        }
        (self.tuning.read_from, self.tuning.since) = (read, now);
    }

    /// Returns the window that the next acknowledgement can offer while `queued` bytes wait.
    pub(crate) fn candidate(&self, queued: u64) -> u32 {
        let full = self.full();
        let segment = self.segment_bytes.min(full);
        let free = u64::from(full).saturating_sub(queued) as u32;
        // RFC 9293, 3.8.6.2.2: no small windows.
        if free < full / 16 || free < segment {
            return 0;
        }
        let free = free.min(self.slow);
        let unit = 1_u32 << self.scale;
        if self.scale > 0 {
            return free.next_multiple_of(unit);
        }
        match self.offered {
            window if window.saturating_add(segment) <= free || window > free => free / segment.max(1) * segment,
            window => window,
        }
    }

    /// Returns whether the program has read so little that quick acknowledgements do not help.
    pub(crate) fn is_crowded(&self, queued: u64) -> bool {
        queued > u64::from(self.full() / 2)
    }

    /// Offers a window in an acknowledgement. Returns its field.
    pub(crate) fn offer(&mut self, queued: u64) -> u16 {
        let unit = 1_u32 << self.scale;
        let left = self.left();
        // RFC 9293, 3.8.6: a receiver takes no window back.
        let window = match self.candidate(queued) {
            window if window < left => left.next_multiple_of(unit),
            window => window,
        };
        self.offered = window.min(FIELD_MAX << self.scale);
        self.acked = self.next;
        (self.offered >> self.scale).min(FIELD_MAX) as u16
    }

    /// Returns the field of a SYN, which is never scaled (RFC 7323, 2.2).
    pub(crate) fn first_field(&self) -> u16 {
        self.offered.min(FIELD_MAX) as u16
    }
}

/// Returns the segments of a first window, or `None` if the buffer alone bounds it.
fn first_segments(kernel: &KernelPart, mss: u32) -> Option<u32> {
    let segments = kernel.initial_receive_window?;
    Some(match kernel.initial_receive_window_rule {
        _ if mss <= SEGMENT_ETHERNET => segments,
        // Linux 2.6, `tcp_select_initial_window`: the steps of RFC 3390 for large segments.
        ReceiveWindowRule::Steps if mss <= 3 * SEGMENT_ETHERNET => segments.min(3),
        ReceiveWindowRule::Steps => segments.min(2),
        // Linux since 2.6.39, `tcp_default_init_rwnd`: the bytes of as many segments of Ethernet.
        ReceiveWindowRule::Bytes => (segments.saturating_mul(SEGMENT_ETHERNET) / mss).max(2),
    })
}

fn share(buffer: u32, ppm: u32) -> u32 {
    (u64::from(buffer) * u64::from(ppm) / 1_000_000) as u32
}

/// Returns the least shift by which a field holds `bytes`.
fn scale_of(bytes: u32) -> u8 {
    (0..SCALE_MAX).find(|scale| bytes >> scale <= FIELD_MAX).unwrap_or(SCALE_MAX)
}
