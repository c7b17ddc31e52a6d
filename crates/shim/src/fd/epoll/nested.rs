//! Epoll descriptors that watch others. The kernel knows nothing of the engine's objects at an inner
//! descriptor, so the outer one asks the engine itself. Each look reports, as without EPOLLET.

use super::{Item, NESTS_MAX, ONESHOT, Table, with_table};
use libc::{c_int, epoll_event};
use softband_ipc::calls::WaitEntry;
use std::collections::BTreeSet;
use std::mem::MaybeUninit;

impl Table {
    /// Returns the questions to the engine by which `epoll` becomes readable, with those of other epoll
    /// descriptors that it watches, up to a depth.
    pub(super) fn entries(&self, epoll: c_int, depth: u32) -> Vec<WaitEntry> {
        let mut all = Vec::new();
        for item in self.items.iter().filter(|item| item.epoll == epoll && !item.is_spent) {
            match item.object {
                Some(object) => all.push(item.entry(object)),
                None if depth > 0 => all.extend(self.entries(item.fd, depth - 1)),
                None => {}
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
        let is_list = |item: &&Item| item.epoll == epoll && item.object.is_none() && !item.is_spent && lists.contains(&item.fd);
        let with_entries = |item: &Item| (*item, self.entries(item.fd, NESTS_MAX));
        self.items.iter().filter(is_list).map(with_entries).filter(|(_, entries)| !entries.is_empty()).collect()
    }
}

/// Reports inner epoll descriptors with a ready entry, behind the first `count` events. Returns their
/// number. The kernel may have reported them already.
pub(super) fn tell(inner: &[(Item, Vec<WaitEntry>)], mut entries: &[WaitEntry], room: &mut [MaybeUninit<epoll_event>], count: usize) -> usize {
    let mut told = 0;
    for (item, asked) in inner {
        let (own, rest) = entries.split_at(asked.len().min(entries.len()));
        entries = rest;
        // SAFETY: the first `count` events are written.
        let is_told = room[..count].iter().any(|event| unsafe { event.assume_init_ref() }.u64 == item.data);
        let events = libc::EPOLLIN as u32 & item.events;
        if events == 0 || is_told || count + told >= room.len() || own.iter().all(|entry| entry.ready == 0) {
            continue;
        }
        room[count + told].write(epoll_event { events, u64: item.data });
        told += 1;
        if item.events & ONESHOT != 0 {
            with_table(|table| {
                if let Some(index) = table.position(item.epoll, item.fd, None) {
                    table.items[index].is_spent = true;
                }
            });
        }
    }
    told
}
