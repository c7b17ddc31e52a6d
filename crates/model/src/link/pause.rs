//! Priority-based flow control (IEEE 802.1Q, clause 36). A receiver pauses a priority before its
//! buffer is full, and resumes it later.
//!
//! A priority is a lane here. A pause lasts until the receiver takes it back: the model leaves out
//! the frames that renew it.

use super::{Framing, serialisation};
use softband_sim::{SimDuration, SimTime};
use softband_types::{CreditBlocks, LinkRate, VirtualLane};
use softband_wire::ethernet::{PAUSE_FRAME_BYTES, SPACING_BYTES};
use std::collections::VecDeque;

const LANES: usize = 15;

/// State of a sender: the paused lanes, and the pause frames on their way.
#[derive(Default)]
pub struct PauseLedger {
    /// Paused lanes, by bit.
    paused: u16,
    /// Frames on the cable: the time when each takes effect, its lane, and whether it pauses the
    /// lane. In the order of time.
    coming: VecDeque<(SimTime, u8, bool)>,
    /// Number of frames that have taken effect.
    collected: u64,
}

impl PauseLedger {
    /// Checks whether `lane` may send, as of the last [`collect`](Self::collect).
    pub fn permits(&self, lane: VirtualLane) -> bool {
        self.paused & 1 << lane.0 == 0
    }

    /// Notes that `lane` will be paused or resumed at `arrival`.
    pub fn schedule(&mut self, arrival: SimTime, lane: VirtualLane, pauses: bool) {
        debug_assert!(self.coming.back().is_none_or(|last| last.0 <= arrival), "flow control does not overtake itself");
        self.coming.push_back((arrival, lane.0, pauses));
    }

    /// Applies all frames that have arrived by `now`.
    pub fn collect(&mut self, now: SimTime) {
        while let Some(&(arrival, lane, pauses)) = self.coming.front() {
            if arrival > now {
                break;
            }
            self.coming.pop_front();
            self.collected += 1;
            self.paused = if pauses { self.paused | 1 << lane } else { self.paused & !(1 << lane) };
        }
    }

    /// Returns the number of frames that have arrived by `now`.
    pub fn received(&self, now: SimTime) -> u64 {
        self.collected + self.coming.iter().take_while(|(arrival, ..)| *arrival <= now).count() as u64
    }

    /// Returns the arrival of the next frame, or `None` if no frame is on its way.
    pub fn next_change(&self) -> Option<SimTime> {
        self.coming.front().map(|first| first.0)
    }
}

/// Fill levels of a lane at which a receiver pauses and resumes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// The lane is paused when it holds more than this (XOFF).
    pub pause_above: CreditBlocks,
    /// The lane is resumed when it holds this or less (XON).
    pub resume_at: CreditBlocks,
}

/// Parameters of the time until a pause takes effect.
#[derive(Clone, Copy, Debug)]
pub struct PauseLoop {
    /// Rate of the link.
    pub rate: LinkRate,
    /// Framing of packets.
    pub framing: Framing,
    /// One-way delay of the cable.
    pub cable_delay: SimDuration,
    /// Time from a pause frame's arrival to the stop of its priority.
    pub response: SimDuration,
    /// Largest frame in bytes.
    pub frame_bytes_max: u32,
}

impl PauseLoop {
    /// Returns the room that a lane needs beyond the threshold, so that nothing is lost (as in IEEE
    /// 802.1Q, annex N).
    ///
    /// The pause frame waits for a full frame that has just begun, and goes out. The sender goes on
    /// until the pause frame arrives and takes effect. It may have begun another full frame just
    /// before. Small frames fill buffers most: 65 bytes take 85 of link time and two blocks of 64.
    pub fn headroom(&self) -> CreditBlocks {
        let own = serialisation(self.rate, self.framing, self.frame_bytes_max) + serialisation(self.rate, self.framing, PAUSE_FRAME_BYTES);
        let until_stopped = own + self.cable_delay * 2 + self.response;
        let sent = u128::from(until_stopped.as_picos()) * 1_000_000 / u128::from(self.rate.picos_of_bytes(1_000_000));
        let most = sent * 2 / u128::from(65 + SPACING_BYTES) + 1;
        CreditBlocks(most as u32) + CreditBlocks::for_packet(self.frame_bytes_max)
    }

    /// Returns the thresholds of a lane that holds `capacity`, or the least thresholds if the
    /// headroom does not fit. Two full frames lie between them, so that the next frame of a resumed
    /// sender does not pause it again.
    pub fn thresholds(&self, capacity: CreditBlocks) -> Thresholds {
        let pause_above = capacity.0.saturating_sub(self.headroom().0);
        let between = 2 * CreditBlocks::for_packet(self.frame_bytes_max).0;
        Thresholds { pause_above: CreditBlocks(pause_above), resume_at: CreditBlocks(pause_above.saturating_sub(between)) }
    }
}

/// Fate of a frame that has come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The buffer had no room.
    Dropped,
    /// The buffer has taken the frame.
    Kept {
        /// Whether its lane must be paused from now on.
        pauses: bool,
    },
}

/// Receive buffer of a port: the fill level of each lane, and the lanes that it has paused.
pub struct ReceiveBuffer {
    held: [u32; LANES],
    capacity: u32,
    /// Without thresholds, the buffer drops frames that find no room, and never pauses.
    thresholds: Option<Thresholds>,
    paused: u16,
}

impl ReceiveBuffer {
    /// Creates a buffer with room for `capacity` on each lane.
    pub fn new(capacity: CreditBlocks, thresholds: Option<Thresholds>) -> Self {
        Self { held: [0; LANES], capacity: capacity.0, thresholds, paused: 0 }
    }

    /// Takes a frame of `blocks`, or drops it if the lane has no room.
    pub fn take(&mut self, lane: VirtualLane, blocks: CreditBlocks) -> Taken {
        let held = &mut self.held[usize::from(lane.0)];
        if *held + blocks.0 > self.capacity {
            return Taken::Dropped;
        }
        *held += blocks.0;
        let is_paused = self.paused & 1 << lane.0 != 0;
        let pauses = !is_paused && self.thresholds.is_some_and(|thresholds| *held > thresholds.pause_above.0);
        self.paused |= u16::from(pauses) << lane.0;
        Taken::Kept { pauses }
    }

    /// Frees the room of a frame that has gone. Returns whether its lane must be resumed.
    pub fn release(&mut self, lane: VirtualLane, blocks: CreditBlocks) -> bool {
        let held = &mut self.held[usize::from(lane.0)];
        *held = held.checked_sub(blocks.0).expect("a frame is freed once");
        let is_paused = self.paused & 1 << lane.0 != 0;
        let resumes = is_paused && self.thresholds.is_some_and(|thresholds| *held <= thresholds.resume_at.0);
        self.paused &= !(u16::from(resumes) << lane.0);
        resumes
    }

    /// Returns the most that a paused lane may hold when it is resumed.
    pub fn resumes_at(&self) -> CreditBlocks {
        self.thresholds.map_or(CreditBlocks(0), |thresholds| thresholds.resume_at)
    }

    /// Returns the blocks that frames of `lane` hold.
    pub fn held(&self, lane: VirtualLane) -> CreditBlocks {
        CreditBlocks(self.held[usize::from(lane.0)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_types::EthernetRate;

    const LANE: VirtualLane = VirtualLane(3);

    #[test]
    fn a_lane_is_paused_from_when_the_frame_arrives_until_it_is_taken_back() {
        let mut ledger = PauseLedger::default();
        ledger.schedule(SimTime::from_picos(5), LANE, true);
        ledger.schedule(SimTime::from_picos(9), LANE, false);
        ledger.collect(SimTime::from_picos(4));
        assert!(ledger.permits(LANE) && ledger.next_change() == Some(SimTime::from_picos(5)));
        ledger.collect(SimTime::from_picos(5));
        assert!(!ledger.permits(LANE) && ledger.permits(VirtualLane(2)));
        ledger.collect(SimTime::from_picos(9));
        assert!(ledger.permits(LANE) && ledger.next_change().is_none());
    }

    #[test]
    fn a_buffer_pauses_once_above_one_threshold_and_resumes_once_at_the_other() {
        let thresholds = Thresholds { pause_above: CreditBlocks(4), resume_at: CreditBlocks(2) };
        let mut buffer = ReceiveBuffer::new(CreditBlocks(8), Some(thresholds));
        let two = CreditBlocks(2);
        let taken: Vec<_> = (0..5).map(|_| buffer.take(LANE, two)).collect();
        let kept = |pauses| Taken::Kept { pauses };
        assert_eq!(taken, [kept(false), kept(false), kept(true), kept(false), Taken::Dropped]);
        assert_eq!(buffer.take(VirtualLane(0), two), kept(false), "each lane has its own");
        let released: Vec<_> = (0..4).map(|_| buffer.release(LANE, two)).collect();
        assert_eq!(released, [false, false, true, false]);
    }

    #[test]
    fn without_thresholds_a_full_buffer_drops() {
        let mut buffer = ReceiveBuffer::new(CreditBlocks(3), None);
        assert_eq!(buffer.take(LANE, CreditBlocks(3)), Taken::Kept { pauses: false });
        assert_eq!(buffer.take(LANE, CreditBlocks(1)), Taken::Dropped);
        assert!(!buffer.release(LANE, CreditBlocks(3)) && buffer.held(LANE) == CreditBlocks(0));
    }

    #[test]
    fn headroom_grows_with_the_cable_the_rate_and_the_frame() {
        let of = |rate: EthernetRate, metres: u64, mtu: u32| {
            let framing = Framing::Ethernet { tagged: false };
            let cable_delay = SimDuration::from_nanos(5 * metres);
            let response = SimDuration::from_picos(614_400);
            PauseLoop { rate: rate.link_rate(), framing, cable_delay, response, frame_bytes_max: framing.frame_bytes(mtu) }.headroom().0
        };
        // 614.4 ns and 10 ns at 12.5 B/ns, 1,538 B and 84 B make 9,427 B of link time. Each 85 B
        // take two blocks; then 24 blocks.
        assert_eq!(of(EthernetRate::G100, 1, 1500), 221 + 1 + 24);
        assert!(of(EthernetRate::G100, 100, 1500) > of(EthernetRate::G100, 1, 1500));
        assert!(of(EthernetRate::G400, 1, 1500) > of(EthernetRate::G100, 1, 1500));
        assert!(of(EthernetRate::G100, 1, 9000) > of(EthernetRate::G100, 1, 1500));
    }
}
