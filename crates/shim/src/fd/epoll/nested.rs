//! Epoll descriptors that watch others. The kernel knows nothing of the engine's objects at an inner
//! descriptor, so this library asks the engine for the outer one.

use super::{EDGE, Item, NESTS_MAX, ONESHOT, Table, with_table};
use crate::clib::args::In;
use crate::clib::real;
use crate::runtime::world::keeping_errno;
use libc::{c_int, epoll_event};
use softband_ipc::calls::{WaitEntry, readiness};
use std::collections::BTreeSet;
use std::mem::MaybeUninit;

/// Events of an epoll descriptor: it is readable if one of its interests is ready.
const READABLE: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;

impl Table {
    /// Returns the questions to the engine by which `epoll` becomes readable, with those of other epoll
    /// descriptors that it watches, up to a depth.
    pub(super) fn entries(&self, epoll: c_int, depth: u32) -> Vec<WaitEntry> {
        let mut all = Vec::new();
        for item in self.items.iter().filter(|item| item.epoll == epoll && !item.is_spent) {
            match item.object {
                Some(object) => all.push(item.entry(object)),
                None if depth > 0 && item.events & READABLE != 0 => all.extend(self.edges_of(item, self.entries(item.fd, depth - 1))),
                None => {}
            }
        }
        all
    }

    /// Returns the questions of an inner descriptor as an interest with EPOLLET asks them: for edges behind
    /// those that it has reported.
    fn edges_of(&self, item: &Item, mut entries: Vec<WaitEntry>) -> Vec<WaitEntry> {
        for entry in entries.iter_mut().filter(|_| item.events & EDGE != 0) {
            if let Some(reported) = self.reported.get(&(item.version, entry.object)) {
                entry.seen = if entry.interest & readiness::EDGE == 0 { *reported } else { entry.seen.max(*reported) };
                entry.interest |= readiness::EDGE;
            }
        }
        entries
    }

    /// Records a report of an inner descriptor by its answers. Returns false if another thread has made the
    /// report, or has changed the item.
    pub(super) fn note_report(&mut self, of: &Item, answers: &[WaitEntry]) -> bool {
        let is_current = |index: &usize| self.items[*index] == *of && !of.is_spent;
        let Some(index) = self.position(of.epoll, of.fd, None).filter(is_current) else { return false };
        self.items[index].is_spent = of.events & ONESHOT != 0;
        if of.events & EDGE == 0 {
            return true;
        }
        let mut is_news = false;
        for answer in answers.iter().filter(|answer| answer.ready != 0) {
            let last = self.reported.insert((of.version, answer.object), answer.seen);
            is_news |= last.is_none_or(|last| answer.seen > last);
        }
        is_news
    }

    /// Forgets the reports of items that have gone.
    pub(super) fn prune_reports(&mut self) {
        if !self.reported.is_empty() {
            let versions: BTreeSet<u64> = self.items.iter().map(|item| item.version).collect();
            self.reported.retain(|(version, _), _| versions.contains(version));
        }
    }

    /// Returns `epoll` and the epoll descriptors that watch it, themselves or by others.
    pub(super) fn with_outer(&self, epoll: c_int) -> BTreeSet<c_int> {
        let mut all = BTreeSet::from([epoll]);
        for _ in 0..NESTS_MAX {
            let known = all.len();
            let outer: Vec<_> = self.items.iter().filter(|item| item.object.is_none() && all.contains(&item.fd)).map(|item| item.epoll).collect();
            all.extend(outer);
            if all.len() == known {
                break;
            }
        }
        all
    }

    /// Returns the epoll descriptors that `epoll` watches, each with its questions to the engine.
    pub(super) fn inner(&self, epoll: c_int) -> Vec<(Item, Vec<WaitEntry>)> {
        // Few programs have several lists.
        if self.items.first().is_none_or(|first| self.items.iter().all(|item| item.epoll == first.epoll)) {
            return Vec::new();
        }
        let lists: BTreeSet<_> = self.items.iter().map(|item| item.epoll).collect();
        let is_list = |item: &&Item| item.epoll == epoll && item.object.is_none() && lists.contains(&item.fd);
        // An interest in other events never reports, so it must not end a wait.
        let may_report = |item: &&Item| is_list(item) && !item.is_spent && item.events & READABLE != 0;
        let with_entries = |item: &Item| (*item, self.edges_of(item, self.entries(item.fd, NESTS_MAX)));
        self.items.iter().filter(may_report).map(with_entries).filter(|(_, entries)| !entries.is_empty()).collect()
    }
}

/// Reports inner epoll descriptors with a ready entry, behind the first `count` events. Returns their
/// number, and whether another thread has made one of the reports. The kernel may have made some, too.
pub(super) fn tell(
    inner: &[(Item, Vec<WaitEntry>)],
    mut entries: &[WaitEntry],
    room: &mut [MaybeUninit<epoll_event>],
    count: usize,
) -> (usize, bool) {
    let (mut told, mut is_late) = (0, false);
    for (item, asked) in inner {
        let (own, rest) = entries.split_at(asked.len().min(entries.len()));
        entries = rest;
        // SAFETY: the first `count` events are written.
        let is_told = room[..count].iter().any(|event| unsafe { event.assume_init_ref() }.u64 == item.data);
        if is_told {
            with_table(|table| table.note_report(item, own));
        } else if own.iter().any(|entry| entry.ready != 0) && count + told < room.len() {
            let is_news = with_table(|table| {
                let is_news = table.note_report(item, own);
                if is_news && item.events & ONESHOT != 0 {
                    disarm(item);
                }
                is_news
            });
            if is_news {
                room[count + told].write(epoll_event { events: READABLE & item.events, u64: item.data });
                told += 1;
            }
            is_late |= !is_news;
        }
    }
    (told, is_late)
}

/// Ends the kernel's own interest after a single shot, until the program sets it again.
fn disarm(item: &Item) {
    let without_events = epoll_event { events: item.events & (ONESHOT | EDGE), u64: item.data };
    keeping_errno(|| real::epoll_ctl(item.epoll, libc::EPOLL_CTL_MOD, item.fd, In::of(&without_events)));
}
