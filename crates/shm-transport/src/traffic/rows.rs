//! Which rows of a process are free. A row keeps its way for ever, so a list for each way names them.
//! Taking and leaving a row cost a few steps with any number of rows.

use softband_ipc::layout::TrafficRow;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// A thread holds it to change the lists. A fork holds it as well, so that no child inherits it locked.
pub static LOCK: Mutex<()> = Mutex::new(());

static FREE: Mutex<Option<Free>> = Mutex::new(None);

/// The free rows of a process.
struct Free {
    /// PID of the process. A child of a fork has a table of its own.
    own: u32,
    rows: &'static [TrafficRow],
    /// Number of the rows that have a way: the first ones.
    used: usize,
    by_way: BTreeMap<u64, Vec<&'static TrafficRow>>,
}

impl Free {
    /// Reads the whole table.
    fn new(own: u32, rows: &'static [TrafficRow]) -> Self {
        let used = rows.iter().take_while(|row| row.way.load(Ordering::Relaxed) != 0).count();
        let mut free = Self { own, rows, used, by_way: BTreeMap::new() };
        rows[..used].iter().filter(|row| row.writer.load(Ordering::Relaxed) == 0).for_each(|row| free.add(row));
        free
    }

    /// Checks whether this is about a table. A child that attaches gets an empty one at the address of
    /// its parent's.
    fn is_about(&self, own: u32, rows: &'static [TrafficRow]) -> bool {
        let is_older = self.used > 0 && rows.get(self.used - 1).is_none_or(|row| row.way.load(Ordering::Relaxed) == 0);
        self.own == own && std::ptr::eq(self.rows, rows) && !is_older
    }

    fn add(&mut self, row: &'static TrafficRow) {
        self.by_way.entry(row.way.load(Ordering::Relaxed)).or_default().push(row);
    }

    fn take(&mut self, way: u64) -> Option<&'static TrafficRow> {
        if let Some(row) = self.by_way.get_mut(&way).and_then(Vec::pop) {
            return Some(row);
        }
        let row = self.rows.get(self.used)?;
        self.used += 1;
        Some(row)
    }
}

/// Takes a row for a way: one that has it, or the next without any. Returns `None` if all rows have
/// ways.
pub(super) fn take((rows, own): (&'static [TrafficRow], u32), way: u64) -> Option<&'static TrafficRow> {
    with_free(|free| {
        let free = match free {
            Some(present) if present.is_about(own, rows) => present,
            other => other.insert(Free::new(own, rows)),
        };
        let row = free.take(way)?;
        row.writer.store(own, Ordering::Relaxed);
        // The engine reads the rows up to the first without a way.
        row.way.store(way, Ordering::Release);
        Some(row)
    })
}

/// Gives a row back, unless another process has it.
pub(super) fn give_back(row: &'static TrafficRow, own: u32) {
    with_free(|free| {
        let is_own = row.writer.compare_exchange(own, 0, Ordering::Release, Ordering::Relaxed).is_ok();
        let is_of_table = |free: &&mut Free| free.own == own && free.rows.as_ptr_range().contains(&std::ptr::from_ref(row));
        if let Some(free) = free.as_mut().filter(is_of_table).filter(|_| is_own) {
            free.add(row);
        }
    });
}

fn with_free<R>(change: impl FnOnce(&mut Option<Free>) -> R) -> R {
    let _held = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    change(&mut FREE.lock().unwrap_or_else(PoisonError::into_inner))
}
