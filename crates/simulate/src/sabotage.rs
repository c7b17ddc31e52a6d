//! Deliberate errors between the World and the oracle. They prove that each check can fail.

use softband_fabric::notice::Notice;
use softband_sim::{SimDuration, SimTime};

/// A deliberate error, at the event of its kind with this number (from 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    DropCompletion(u64),
    DuplicateCompletion(u64),
    /// Swaps a completion with the next completion.
    SwapCompletions(u64),
    /// Turns a completion into a failure.
    FailCompletion(u64),
    /// Changes the length that a completion reports.
    StretchCompletion(u64),
    CorruptByte(u64),
    DropWrite(u64),
    RepeatWrite(u64),
    /// Changes the value that an atomic returns.
    MisreportAtomic(u64),
    /// Takes credits away from a link.
    SwallowCredit(u64),
    /// Reports an expected PSN that no packet had.
    SkipPsn(u64),
    TurnBackTime(u64),
    InventDeadlock(u64),
    /// Ignores the deregistration of regions, as a program sees it.
    KeepRegion,
    /// Counts a window as invalidated when its bind completes.
    CloseWindows,
    /// Causes another event after each event.
    GoOn,
}

/// Commits a deliberate error when its time has come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Saboteur {
    plan: Option<Sabotage>,
    completions: u64,
    writes: u64,
    updates: u64,
    steps: u64,
    kept: Option<Notice>,
}

impl Saboteur {
    pub(crate) fn new(plan: Option<Sabotage>) -> Self {
        Self { plan, ..Self::default() }
    }

    pub(crate) fn plan(&self) -> Option<Sabotage> {
        self.plan
    }

    /// Changes the bytes of a write, and returns how often they land.
    pub(crate) fn on_write(&mut self, bytes: &mut [u8]) -> u32 {
        let number = self.writes;
        self.writes += 1;
        match self.plan {
            Some(Sabotage::CorruptByte(at)) if at == number && !bytes.is_empty() => {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 0x40;
                1
            }
            Some(Sabotage::DropWrite(at)) if at == number => 0,
            Some(Sabotage::RepeatWrite(at)) if at == number => 2,
            _ => 1,
        }
    }

    pub(crate) fn on_update(&mut self, before: u64) -> u64 {
        let number = self.updates;
        self.updates += 1;
        if self.plan == Some(Sabotage::MisreportAtomic(number)) { before ^ 1 } else { before }
    }

    /// Changes the notices of a step.
    pub(crate) fn on_notices(&mut self, notices: &mut Vec<Notice>) {
        let given = std::mem::take(notices);
        for mut notice in given {
            let Notice::Completed { completion, .. } = &mut notice else {
                notices.push(notice);
                continue;
            };
            let number = self.completions;
            self.completions += 1;
            match self.plan {
                Some(Sabotage::DropCompletion(at)) if at == number => continue,
                Some(Sabotage::DuplicateCompletion(at)) if at == number => notices.push(notice.clone()),
                Some(Sabotage::SwapCompletions(at)) if at == number => {
                    self.kept = Some(notice);
                    continue;
                }
                Some(Sabotage::FailCompletion(at)) if at == number => completion.status = softband_types::WcStatus::RetryExceeded,
                Some(Sabotage::StretchCompletion(at)) if at == number => completion.byte_len += 1,
                _ => {}
            }
            notices.push(notice);
            notices.extend(self.kept.take());
        }
    }

    /// Returns whether credits disappear at this step.
    pub(crate) fn swallows_credit(&mut self) -> bool {
        self.steps += 1;
        self.plan == Some(Sabotage::SwallowCredit(self.steps))
    }

    pub(crate) fn skips_psn(&self) -> bool {
        matches!(self.plan, Some(Sabotage::SkipPsn(at)) if at <= self.steps)
    }

    pub(crate) fn time(&self, now: SimTime) -> SimTime {
        let turned = self.plan == Some(Sabotage::TurnBackTime(self.steps));
        if turned { now.checked_sub(SimDuration::from_nanos(50_000)).unwrap_or_default() } else { now }
    }

    pub(crate) fn invents_deadlock(&self) -> bool {
        self.plan == Some(Sabotage::InventDeadlock(self.steps))
    }
}
