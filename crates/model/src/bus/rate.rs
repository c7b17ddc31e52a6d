//! Rates as the buses count them.

use softband_sim::{SimDuration, SimTime};

/// Picoseconds a byte in 1/2^20, so that a transfer costs one multiplication.
#[derive(Clone, Copy)]
pub(super) struct Rate(u64);

impl Rate {
    const SHIFT: u32 = 20;

    /// `payload` out of every `payload + header` bytes at `raw` bytes per second, less `ppm` parts per million.
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

/// In which direction data go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// Something that both directions have to share: when what was asked for is done, at best.
///
/// It counts work and knows no order of bursts: between the request of a slow transfer and its data others have their turn. Work of the
/// direction that has more waiting comes behind all earlier requests. The other direction has every other turn, as an arbiter gives it.
/// The ends of waiting work are fixed already, so later work makes good for these turns.
#[derive(Clone, Copy, Default)]
pub(super) struct Shared {
    /// When all of it is done.
    all: SimTime,
    /// When what was asked for last is done, of each direction.
    ends: [SimTime; 2],
    /// The work of both directions together, from the beginning on.
    busy: SimDuration,
}

impl Shared {
    /// Adds work asked for at `now`; when it is done at the earliest.
    pub(super) fn pass(&mut self, now: SimTime, work: SimDuration, direction: Direction) -> SimTime {
        self.busy += work;
        self.all = self.all.max(now) + work;
        let [own, other] = if direction == Direction::Read { self.ends } else { [self.ends[1], self.ends[0]] };
        let in_turns = own.max(now) + work * 2;
        let end = if own < other { self.all.min(in_turns) } else { self.all };
        self.ends[direction as usize] = end;
        end
    }

    /// The work of both directions together, from the beginning on.
    pub(super) fn busy(&self) -> SimDuration {
        self.busy
    }
}

/// A shared limit in bytes per second, or none.
#[derive(Clone, Copy)]
pub(super) struct SharedRate {
    rate: Option<Rate>,
    shared: Shared,
}

impl SharedRate {
    pub(super) fn new(bytes_per_second: Option<u64>) -> Self {
        Self { rate: bytes_per_second.map(Rate::plain), shared: Shared::default() }
    }

    /// When a transfer asked for at `now`, that would else be over at `end`, is over.
    pub(super) fn pass(&mut self, now: SimTime, bytes: u32, end: SimTime, direction: Direction) -> SimTime {
        let Some(rate) = self.rate else { return end };
        end.max(self.shared.pass(now, rate.duration(bytes), direction))
    }

    pub(super) fn busy(&self) -> SimDuration {
        self.shared.busy()
    }
}
