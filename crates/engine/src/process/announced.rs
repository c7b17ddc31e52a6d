//! The transfers that a program announces while it moves data itself, in wall pace.

use crate::process::record::Process;
use softband_shm_transport::quiescence::{self, Announced, Transfers};

/// A transfer whose end the engine awaits.
pub(crate) struct Pending<'a> {
    process: &'a Process,
    slot: usize,
    seen: u64,
}

impl Pending<'_> {
    pub(crate) fn has_ended(&self) -> bool {
        quiescence::has_ended(&self.process.shared().header().epoch_slots, self.slot, self.seen)
    }

    /// Returns the host's id of the process that makes the transfer.
    pub(crate) fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Gives up on the transfer. The engine never waits for it again.
    pub(crate) fn give_up(&self) {
        self.process.change_announced(|announced| announced.give_up(self.slot, self.seen));
    }
}

impl Process {
    /// Returns the announcements of its transfers at this moment.
    pub(crate) fn transfers(&self) -> Transfers {
        Transfers::of(&self.shared().header().epoch_slots)
    }

    /// Checks whether all transfers of a former moment have ended.
    pub(crate) fn has_ended(&self, transfers: &Transfers) -> bool {
        transfers.have_ended(&self.shared().header().epoch_slots)
    }

    fn change_announced<T>(&self, change: impl FnOnce(&mut Announced) -> T) -> T {
        let mut announced = self.announced().get();
        let result = change(&mut announced);
        self.announced().set(announced);
        result
    }

    /// Returns the announced transfers that are worth a wait; none of a lying program.
    pub(crate) fn transfers_under_way(&self) -> impl Iterator<Item = Pending<'_>> {
        let transfers = self.transfers();
        let pending = self.change_announced(|announced| announced.note(transfers));
        pending.map(|(slot, seen)| Pending { process: self, slot, seen })
    }

    /// Returns whether the process has made impossible announcements. Later calls return false.
    pub(crate) fn is_newly_corrupted(&self) -> bool {
        let is_new = self.is_attached() && self.announced().get().is_newly_corrupted();
        if is_new {
            self.change_announced(Announced::note_told);
        }
        is_new
    }

    /// Returns whether the process is still in a transfer on which the engine gave up.
    pub(crate) fn is_held_up(&self) -> bool {
        self.announced().get().is_held_up(&self.shared().header().epoch_slots)
    }
}
