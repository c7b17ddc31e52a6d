//! Rates of the buses.

use softband_sim::{SimDuration, SimTime};

/// Picoseconds per byte in units of 1/2^20, so that a transfer costs one multiplication.
#[derive(Clone, Copy)]
pub(super) struct Rate(u64);

impl Rate {
    const SHIFT: u32 = 20;

    /// Returns the payload rate: `payload` out of every `payload + header` bytes at `raw` bytes per
    /// second, less `ppm` parts per million.
    pub(super) fn new(raw: u64, ppm: u32, payload: u32, header: u32) -> Self {
        let usable = u128::from(raw) * u128::from(1_000_000 - ppm.min(999_999)) * u128::from(payload);
        let picos = (1_000_000_000_000_u128 << Self::SHIFT) * 1_000_000 * u128::from(payload + header);
        Self(u64::try_from(picos / usable.max(1)).expect("a bus moves more than a byte in a while"))
    }

    pub(super) fn plain(bytes_per_second: u64) -> Self {
        Self::new(bytes_per_second, 0, 1, 0)
    }

    pub(super) fn duration(self, bytes: u32) -> SimDuration {
        SimDuration::from_picos((self.0 * u64::from(bytes)) >> Self::SHIFT)
    }
}

/// Direction of data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// Resource that both directions share. It computes the earliest end of each piece of work.
///
/// It counts work and knows no order of bursts: others have their turn between a slow transfer's
/// request and its data. Work of the direction that has more waiting ends behind all earlier work.
/// Work of the other direction has every other turn, as from an arbiter, so it need not wait for
/// all of that. Ends that were returned already cannot change, so later work makes up for these
/// turns.
#[derive(Clone, Copy, Default)]
pub(super) struct Shared {
    /// End of all work.
    all: SimTime,
    /// End of the work requested last, of each direction.
    ends: [SimTime; 2],
    /// Work of both directions together, since the beginning.
    busy: SimDuration,
}

impl Shared {
    /// Adds work requested at `now`. Returns its earliest end.
    pub(super) fn pass(&mut self, now: SimTime, work: SimDuration, direction: Direction) -> SimTime {
        self.busy += work;
        self.all = self.all.max(now) + work;
        let [own, other] = if direction == Direction::Read { self.ends } else { [self.ends[1], self.ends[0]] };
        let in_turns = own.max(now) + work * 2;
        let end = if own < other { self.all.min(in_turns) } else { self.all };
        self.ends[direction as usize] = end;
        end
    }

    /// Returns the work of both directions together, since the beginning.
    pub(super) fn busy(&self) -> SimDuration {
        self.busy
    }
}

/// Shared limit in bytes per second, if any.
#[derive(Clone, Copy)]
pub(super) struct SharedRate {
    rate: Option<Rate>,
    shared: Shared,
}

impl SharedRate {
    pub(super) fn new(bytes_per_second: Option<u64>) -> Self {
        Self { rate: bytes_per_second.map(Rate::plain), shared: Shared::default() }
    }

    /// Returns the end of a transfer requested at `now` that would otherwise end at `end`.
    pub(super) fn pass(&mut self, now: SimTime, bytes: u32, end: SimTime, direction: Direction) -> SimTime {
        let Some(rate) = self.rate else { return end };
        end.max(self.shared.pass(now, rate.duration(bytes), direction))
    }

    pub(super) fn busy(&self) -> SimDuration {
        self.shared.busy()
    }

    pub(super) fn is_limited(&self) -> bool {
        self.rate.is_some()
    }
}
