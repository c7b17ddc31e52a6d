//! Weights of virtual lanes: the arbitration tables of a port, and the order that follows from them
//! (IBTA 7.6.9).

use super::lane_of;
use softband_types::{CreditBlocks, OperationalVls, ServiceLevel, VirtualLane};

/// Line of an arbitration table: a lane, and the amount that it may send at its turn (IBTA 7.6.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightedLane {
    /// Data lane. Links with fewer lanes fold its number.
    pub lane: VirtualLane,
    /// Amount in units of 64 bytes, from 0 to 255. The lane sends whole packets while some of it is
    /// left, so a turn may exceed it by a packet. The arbiter skips lines of weight 0.
    pub weight: u8,
}

/// VLArbitrationTable and VLHighLimit of a port (IBTA 7.6.9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArbitrationTables {
    /// Table of high priority, with up to [`ArbitrationTables::LINES_MAX`] lines.
    pub high: Vec<WeightedLane>,
    /// Table of low priority, with up to [`ArbitrationTables::LINES_MAX`] lines.
    pub low: Vec<WeightedLane>,
    /// VLHighLimit: the low table gets a chance each time the high table has sent this many times 4
    /// KiB. With 0 it gets a chance after each packet, with [`ArbitrationTables::UNLIMITED`] never.
    pub high_limit: u8,
}

impl ArbitrationTables {
    /// Largest number of lines of a table.
    pub const LINES_MAX: usize = 64;
    /// VLHighLimit with which packets of the high table always go first.
    pub const UNLIMITED: u8 = 255;

    /// Returns the lanes, by bit, that have a weight in some line. No other lane of a link ever
    /// sends.
    pub fn lanes(&self, vls: OperationalVls) -> u16 {
        let weighted = self.high.iter().chain(&self.low).filter(|line| line.weight > 0);
        weighted.fold(0, |lanes, line| lanes | 1 << folded(line.lane, vls).0)
    }
}

/// Returns the lane's number modulo the number of lanes, as OpenSM writes it on links with fewer
/// lanes.
fn folded(lane: VirtualLane, vls: OperationalVls) -> VirtualLane {
    lane_of(ServiceLevel(lane.0), vls)
}

/// State of the tables at work.
pub(super) struct Turns {
    high: Table,
    low: Table,
    /// Blocks after which the low table gets its chance. With `None`, it gets none while the high
    /// table has a packet.
    high_limit: Option<u32>,
    /// Blocks sent by the high table since the low table sent.
    high_sent: u32,
    lanes: u16,
}

struct Table {
    lines: Box<[WeightedLane]>,
    at: usize,
    /// Blocks left of the weight of the current line.
    left: u32,
}

/// Blocks of 64 bytes in one step of the limit of high priority.
const LIMIT_STEP_BLOCKS: u32 = 4_096 / CreditBlocks::BLOCK_BYTES;

impl Turns {
    pub(super) fn new(tables: &ArbitrationTables, vls: OperationalVls) -> Self {
        let high_limit = (tables.high_limit < ArbitrationTables::UNLIMITED).then(|| u32::from(tables.high_limit) * LIMIT_STEP_BLOCKS);
        let table = |lines| Table::new(lines, vls);
        Self { high: table(&tables.high), low: table(&tables.low), high_limit, high_sent: 0, lanes: tables.lanes(vls) }
    }

    /// Returns the lanes that some line lets send, by bit.
    pub(super) fn lanes(&self) -> u16 {
        self.lanes
    }

    /// Chooses the lane that sends next. `ready` has the lanes, by bit, with a packet and its
    /// credits. Nothing changes if no table lists any of them.
    pub(super) fn choose(&mut self, ready: u16, next_blocks: impl Fn(VirtualLane) -> CreditBlocks) -> Option<VirtualLane> {
        let has_had_its_limit = self.high_sent > 0 && self.high_limit.is_some_and(|limit| self.high_sent >= limit);
        if !has_had_its_limit && let Some((lane, blocks)) = self.high.choose(ready, &next_blocks) {
            self.high_sent = self.high_sent.saturating_add(blocks.0);
            return Some(lane);
        }
        if let Some((lane, _)) = self.low.choose(ready, &next_blocks) {
            self.high_sent = 0;
            return Some(lane);
        }
        // The low table has had its chance.
        let (lane, blocks) = self.high.choose(ready, &next_blocks)?;
        self.high_sent = blocks.0;
        Some(lane)
    }
}

impl Table {
    fn new(lines: &[WeightedLane], vls: OperationalVls) -> Self {
        let lines = lines.iter().filter(|line| line.weight > 0).map(|line| WeightedLane { lane: folded(line.lane, vls), ..*line });
        let lines: Box<[WeightedLane]> = lines.collect();
        let left = lines.first().map_or(0, |line| u32::from(line.weight));
        Self { lines, at: 0, left }
    }

    /// Chooses the lane of the current line while some of its weight is left, otherwise that of the
    /// next line that has a packet.
    fn choose(&mut self, ready: u16, next_blocks: impl Fn(VirtualLane) -> CreditBlocks) -> Option<(VirtualLane, CreditBlocks)> {
        let is_ready = |line: &WeightedLane| ready & 1 << line.lane.0 != 0;
        if self.left == 0 || !is_ready(self.lines.get(self.at)?) {
            let count = self.lines.len();
            let next = (1..=count).map(|step| (self.at + step) % count).find(|at| is_ready(&self.lines[*at]))?;
            (self.at, self.left) = (next, u32::from(self.lines[next].weight));
        }
        let lane = self.lines[self.at].lane;
        let blocks = next_blocks(lane);
        self.left = self.left.saturating_sub(blocks.0);
        Some((lane, blocks))
    }
}

#[cfg(test)]
mod tests;
