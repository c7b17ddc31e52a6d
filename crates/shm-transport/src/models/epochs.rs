//! Announcements and quiescence: a thread never uses an entry that the engine has removed and
//! awaited.

use super::{Model, WORLD, await_quiescence, check, spawn, spawn_thread};
use crate::platform::Platform;
use crate::sync::{AtomicU32, Ordering, Track};
use crate::tables_guard::{TablesGuard, announce, guard_tables};
use loom::sync::Arc;

const QPN: u32 = 7;

/// Uses the object of entry 0, if the entry is there.
fn use_entry(guard: &TablesGuard<Model>, object: &Track) {
    if guard.queue_pair(0, QPN).is_some() {
        object.read();
    }
}

/// The engine removes the entry and frees its object.
fn remove(object: &Track, awaits: bool) {
    WORLD.tables.qps[0].qpn.store(0, Ordering::SeqCst);
    if awaits {
        await_quiescence();
    }
    object.write();
}

fn publish() {
    WORLD.tables.qps[0].pid.store(1, Ordering::Relaxed);
    WORLD.tables.qps[0].qpn.store(QPN, Ordering::SeqCst);
}

fn removed_under(awaits: bool, program: fn(&Track, &AtomicU32)) {
    check(move || {
        publish();
        let object = Arc::new((Track::default(), AtomicU32::new(0)));
        let theirs = object.clone();
        let thread = spawn(1, move || {
            // The first guard finds an owner for the slot. The second is the usual one.
            drop(guard_tables::<Model>());
            program(&theirs.0, &theirs.1);
        });
        remove(&object.0, awaits);
        thread.join().expect("the program ends");
    });
}

fn by_a_guard(object: &Track, _lock: &AtomicU32) {
    let guard = guard_tables::<Model>().expect("tables");
    use_entry(&guard, object);
}

/// As `SpinLock::lock_and_guard`: the lock's locked instruction orders the announcement.
fn by_a_lock(object: &Track, lock: &AtomicU32) {
    let pending = announce::<Model>().expect("tables");
    assert!(lock.compare_exchange(0, Model::own_number(), Ordering::SeqCst, Ordering::Relaxed).is_ok());
    use_entry(&pending.guard_after_lock(), object);
}

fn by_an_announcement_without_lock(object: &Track, _lock: &AtomicU32) {
    let pending = announce::<Model>().expect("tables");
    use_entry(&pending.guard_after_lock(), object);
}

#[test]
fn an_entry_is_not_used_after_quiescence() {
    removed_under(true, by_a_guard);
}

#[test]
fn the_locked_instruction_of_a_lock_orders_the_announcement() {
    removed_under(true, by_a_lock);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_a_locked_instruction_the_read_comes_first() {
    removed_under(true, by_an_announcement_without_lock);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_quiescence_the_object_is_still_in_use() {
    removed_under(false, by_a_guard);
}

#[test]
fn two_threads_of_a_process_have_slots_of_their_own() {
    check(|| {
        publish();
        let object = Arc::new(Track::default());
        // Both hash to the same slot at first.
        let threads = [3, 5].map(|thread| {
            let object = object.clone();
            spawn_thread(1, thread, move || by_a_guard(&object, &AtomicU32::new(0)))
        });
        remove(&object, true);
        for thread in threads {
            thread.join().expect("the program ends");
        }
    });
}
