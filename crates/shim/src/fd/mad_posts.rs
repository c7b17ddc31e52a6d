//! The MADs that need no reply of the engine, at wall pace: the kernel would take them, as this side
//! knows. They leave through the ring of posts.

use softband_client::{post, process_id};
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const MAD_BYTES: usize = 256;
/// Bytes of the header with the P_Key index, and without (`rdma/ib_user_mad.h`).
const LONG: usize = 64;
const SHORT: usize = 56;
/// Classes of subnet management (IBTA 13.4.4).
const SUBNET: [u8; 2] = [0x01, 0x81];
/// Most MADs of a file that await their answers. The engine takes 4,096 from all files of a port,
/// and refuses more in its reply.
const AWAITED_MAX: usize = 512;

/// What this process knows of an open file.
#[derive(Debug, Default)]
struct File {
    has_pkey_index: bool,
    has_registered: bool,
    /// Agents of subnet management without RMPP: bit n is agent n.
    agents: u32,
    /// Agents and lower halves of the transaction ids that await answers.
    awaited: BTreeSet<(u32, u32)>,
    /// Records from the socket whose readers had too little room.
    left: Vec<Vec<u8>>,
}

/// The files of a process, and the lock of transfers in parts.
struct Own {
    process: u32,
    files: Mutex<BTreeMap<u32, File>>,
    transfers: Mutex<()>,
}

/// Null before the first use. After a fork it still holds the parent's files.
static OWN: AtomicPtr<Own> = AtomicPtr::new(null_mut());

/// Returns the files of this process. A child of a fork begins anew, because another thread of the
/// parent may have held a lock.
fn own() -> &'static Own {
    own_of(process_id())
}

fn own_of(process: u32) -> &'static Own {
    let mut present = OWN.load(Ordering::Acquire);
    loop {
        // SAFETY: `OWN` is null or a pointer of `Box::into_raw`. This file frees no box that `OWN` has held.
        if let Some(own) = unsafe { present.as_ref() }.filter(|own| own.process == process) {
            return own;
        }
        let new = Box::into_raw(Box::new(Own { process, files: Mutex::default(), transfers: Mutex::default() }));
        match OWN.compare_exchange(present, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => present = new,
            Err(other) => {
                // SAFETY: it comes from `into_raw`, and no other thread has seen it.
                drop(unsafe { Box::from_raw(new) });
                present = other;
            }
        }
    }
}

fn files() -> MutexGuard<'static, BTreeMap<u32, File>> {
    own().files.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the parts of records of several threads apart at wall pace, where the engine takes the calls
/// of a process as those of one thread.
pub(super) fn transfer() -> MutexGuard<'static, ()> {
    own().transfers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes that the object is a newly opened file.
pub(super) fn note_open(object: u32) {
    files().insert(object, File::default());
}

/// Forgets a file. If another descriptor of it goes on, the engine judges its MADs.
pub(super) fn note_close(object: u32) {
    files().remove(&object);
}

pub(super) fn note_pkey_index(object: u32) {
    change(object, |file| file.has_pkey_index = true);
}

/// Notes an agent. The newer request for an agent brings P_Key indices if it is the first.
pub(super) fn note_agent(object: u32, id: u32, is_newer: bool, is_of_subnet: bool) {
    change(object, |file| {
        file.has_pkey_index |= is_newer && !file.has_registered;
        file.has_registered = true;
        file.agents |= u32::from(is_of_subnet).checked_shl(id).unwrap_or(0);
    });
}

pub(super) fn note_no_agent(object: u32, id: u32) {
    change(object, |file| {
        file.agents &= !1u32.checked_shl(id).unwrap_or(0);
        file.awaited.retain(|(agent, _)| *agent != id);
    });
}

/// Keeps a record from the socket of a file for its next reader.
pub(super) fn leave(object: u32, record: &[u8]) {
    change(object, |file| file.left.push(record.to_vec()));
}

/// Takes a record that an earlier reader left.
pub(super) fn take_left(object: u32) -> Option<Vec<u8>> {
    files().get_mut(&object)?.left.pop()
}

/// Notes that a program has read a record.
pub(super) fn note_read(object: u32, record: &[u8]) {
    change(object, |file| {
        if let Some(key) = file.key(record) {
            file.awaited.remove(&key);
        }
    });
}

fn change(object: u32, change: impl FnOnce(&mut File)) {
    if let Some(file) = files().get_mut(&object) {
        change(file);
    }
}

/// Posts a MAD that the kernel would take. Returns false if the engine has to judge it.
pub(super) fn try_post(object: u32, record: &[u8]) -> bool {
    let is_taken = files().get_mut(&object).is_some_and(|file| file.takes(record));
    // Without the lock, as the ring may be full: readers of the files would wait too.
    is_taken && post::post_mad(object, record).is_ok()
}

fn word(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..at + 4)?.try_into().ok()
}

impl File {
    fn header_bytes(&self) -> usize {
        if self.has_pkey_index { LONG } else { SHORT }
    }

    /// Returns the agent of a record, and the half of its transaction id that the program chose.
    fn key(&self, record: &[u8]) -> Option<(u32, u32)> {
        let id = word(record, self.header_bytes() + 12)?;
        Some((u32::from_ne_bytes(word(record, 0)?), u32::from_be_bytes(id)))
    }

    /// Returns whether the kernel would take a record, and notes its transaction.
    fn takes(&mut self, record: &[u8]) -> bool {
        let header = self.header_bytes();
        let (Some(key), Some(destination), Some(class)) = (self.key(record), word(record, 20), record.get(header + 1)) else { return false };
        let is_plain = record.len() == header + MAD_BYTES
            && 1u32.checked_shl(key.0).is_some_and(|agent| self.agents & agent != 0)
            // A queue pair has 24 bits (IBTA 9.2.5).
            && u32::from_be_bytes(destination) << 8 == 0
            && SUBNET.contains(class);
        let has_timeout = word(record, 8) != Some([0; 4]);
        is_plain && (!has_timeout || self.awaited.len() < AWAITED_MAX && self.awaited.insert(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps tests apart that use the process's own files.
    static SERIAL: Mutex<()> = Mutex::new(());

    fn file() -> File {
        File { has_pkey_index: true, has_registered: true, agents: 0b10, ..File::default() }
    }

    /// Returns a request of agent 1 with a timeout.
    fn record(id: u8) -> Vec<u8> {
        let mut record = vec![0; LONG + MAD_BYTES];
        (record[0], record[8], record[LONG + 1], record[LONG + 15]) = (1, 9, 0x81, id);
        record
    }

    #[test]
    fn only_plain_smps_of_known_agents_need_no_judge() {
        assert!(file().takes(&record(1)));
        for (place, value) in [(0, 0), (0, 40), (23, 1), (LONG + 1, 3)] {
            let mut other = record(1);
            other[place] = value;
            assert!(!file().takes(&other), "{place}");
        }
        assert!(!file().takes(&record(1)[1..]) && !file().takes(&[]));
    }

    #[test]
    fn a_transaction_under_way_needs_a_judge() {
        let mut file = file();
        assert!(file.takes(&record(1)) && !file.takes(&record(1)) && file.takes(&record(2)));
        assert_eq!(file.key(&record(1)), Some((1, 1)));
        file.awaited.remove(&(1, 1));
        assert!(file.takes(&record(1)));
        // A MAD that awaits nothing may come again.
        let mut answer = record(1);
        answer[8] = 0;
        assert!(file.takes(&answer) && file.takes(&answer));
    }

    #[test]
    fn a_record_without_room_stays_for_the_next_reader_of_its_file() {
        let _alone = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
        let [object, other] = [u32::MAX, u32::MAX - 1];
        [object, other].into_iter().for_each(note_open);
        leave(object, &[7; 88]);
        assert_eq!([other, object, object].map(take_left), [None, Some(vec![7; 88]), None]);
        [object, other].into_iter().for_each(note_close);
    }

    #[test]
    fn a_child_does_not_wait_for_a_lock_of_its_parent() {
        let _alone = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
        let parent = own();
        let held = (files(), transfer());
        let child = own_of(parent.process.wrapping_add(1));
        assert!(!std::ptr::eq(child, parent));
        assert!(child.files.try_lock().is_ok_and(|files| files.is_empty()) && child.transfers.try_lock().is_ok());
        drop(held);
        assert!(std::ptr::eq(own_of(child.process), child), "a process keeps its own");
    }

    #[test]
    fn a_file_with_many_requests_under_way_needs_a_judge() {
        let mut file = file();
        file.awaited = (0..AWAITED_MAX as u32).map(|id| (0, id)).collect();
        assert!(!file.takes(&record(1)));
    }
}
