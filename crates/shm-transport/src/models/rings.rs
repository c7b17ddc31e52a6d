//! Rings of remote CQEs: the lone producer without a lock, its hand-over to several producers and
//! back, and a lock whose holder has ended.

use super::{ENTRIES, GONE, Model, RING, WORLD, await_quiescence, check, cqe, spawn};
use crate::connection::Connection;
use crate::queues::{RemoteCqe, RemoteCqeRingHeader};
use crate::remote_cqe_ring::RemoteCqeRing;
use crate::sync::Ordering;
use crate::tables_guard::guard_tables;

fn ring() -> RemoteCqeRing<Model> {
    RemoteCqeRing::map(RING, 64, ENTRIES).expect("a ring")
}

fn header() -> &'static RemoteCqeRingHeader {
    // SAFETY: the block begins with the header.
    unsafe { &*WORLD.ring.0.cast::<RemoteCqeRingHeader>() }
}

fn produce(is_sole_producer: bool, wr_id: u64) {
    let ring = ring();
    let room = ring.reserve(is_sole_producer).expect("room");
    room.write(cqe(wr_id));
    room.publish();
}

/// Returns what the owner finds.
fn taken() -> Vec<u64> {
    let ring = ring();
    let mut found: Vec<u64> = std::iter::from_fn(|| ring.take()).map(|cqe| cqe.wr_id).collect();
    found.sort_unstable();
    found
}

/// Connects the queue pairs 1 and 2 of entries 0 and 1, and names 1 the sole producer of 2's ring.
fn connect(is_sole_producer: bool) {
    let [own, peer] = &WORLD.tables.qps;
    for (entry, qpn, other, index) in [(own, 1, 2, 2), (peer, 2, 1, 1)] {
        entry.pid.store(1, Ordering::Relaxed);
        entry.peer.store(index, Ordering::Relaxed);
        entry.dest_qpn.store(other, Ordering::Relaxed);
        entry.qpn.store(qpn, Ordering::SeqCst);
    }
    peer.is_sole_producer.store(u32::from(is_sole_producer), Ordering::SeqCst);
}

/// One message of the connection, as `libibverbs` sends it: a connection from the cache, or anew.
fn send(cache: &mut Option<Connection>, wr_id: u64) {
    let guard = guard_tables::<Model>().expect("tables");
    if !cache.as_ref().is_some_and(|connection| connection.is_valid(&guard)) {
        *cache = Connection::of(&guard, (0, 1), None);
    }
    produce(cache.as_ref().expect("a connection").is_sole_producer, wr_id);
}

/// The engine names another producer, or none.
fn note_sole_producer(value: u32, awaits: bool) {
    let peer = &WORLD.tables.qps[1];
    peer.is_sole_producer.store(value, Ordering::SeqCst);
    peer.version.fetch_add(1, Ordering::SeqCst);
    if awaits {
        await_quiescence();
    }
}

fn second_producer_joins(awaits: bool) {
    check(move || {
        connect(true);
        let mut cache = Connection::of(&guard_tables::<Model>().expect("tables"), (0, 1), None);
        let first = spawn(1, move || send(&mut cache, 1));
        note_sole_producer(0, awaits);
        let second = spawn(2, || produce(false, 2));
        first.join().expect("the first ends");
        second.join().expect("the second ends");
        assert_eq!(taken(), [1, 2], "a completion is lost");
    });
}

#[test]
fn a_second_producer_joins_without_loss() {
    second_producer_joins(true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_quiescence_both_producers_take_one_place() {
    second_producer_joins(false);
}

fn second_producer_leaves(awaits: bool) {
    check(move || {
        connect(false);
        // The second producer's last message, under its guard.
        let second = spawn(2, || {
            let guard = guard_tables::<Model>().expect("tables");
            if WORLD.tables.qps[0].state.load(Ordering::SeqCst) == 0 {
                produce(false, 2);
            }
            drop(guard);
        });
        // The engine removes the second producer (its entry's state stands for it) and then frees
        // the first one from the lock.
        WORLD.tables.qps[0].state.store(1, Ordering::SeqCst);
        if awaits {
            await_quiescence();
        }
        note_sole_producer(1, false);
        send(&mut None, 1);
        second.join().expect("the second ends");
        let found = taken();
        assert!(found == [1] || found == [1, 2], "a completion is lost: {found:?}");
    });
}

#[test]
fn the_last_producer_drops_the_lock_without_loss() {
    second_producer_leaves(true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_quiescence_the_producer_that_leaves_still_writes() {
    second_producer_leaves(false);
}

#[test]
fn one_of_two_takes_the_lock_of_a_process_that_is_gone() {
    check(|| {
        header().lock.store(GONE, Ordering::Relaxed);
        let producers = [2, 3].map(|pid| spawn(pid, move || produce(false, u64::from(pid))));
        for producer in producers {
            producer.join().expect("a producer ends");
        }
        assert_eq!(taken(), [2, 3]);
    });
}

#[test]
fn an_entry_that_a_process_wrote_before_its_end_stays() {
    check(|| {
        header().lock.store(GONE, Ordering::Relaxed);
        // SAFETY: the first entry follows the header.
        let first = unsafe { &*WORLD.ring.0.add(size_of::<RemoteCqeRingHeader>()).cast::<RemoteCqe>() };
        first.sequence.store(1, Ordering::Release);
        let producer = spawn(2, || produce(false, 2));
        producer.join().expect("it ends");
        assert_eq!(taken(), [0, 2]);
    });
}

#[test]
fn an_owner_sees_all_of_a_completion_or_nothing() {
    check(|| {
        let producer = spawn(2, || {
            produce(true, 1);
            produce(true, 2);
        });
        let owner = ring();
        let mut found: Vec<u64> = (0..2).filter_map(|_| owner.take()).map(|cqe| cqe.wr_id).collect();
        producer.join().expect("it ends");
        found.extend(std::iter::from_fn(|| owner.take()).map(|cqe| cqe.wr_id));
        assert_eq!(found, [1, 2]);
    });
}

#[test]
fn a_full_ring_takes_nothing_until_its_owner_has() {
    check(|| {
        produce(true, 1);
        produce(true, 2);
        let producer = spawn(2, || {
            let ring = ring();
            let Some(room) = ring.reserve(true) else { return false };
            room.write(cqe(3));
            room.publish();
            true
        });
        let owner = ring();
        let first = owner.take().expect("the first").wr_id;
        let has_third = producer.join().expect("it ends");
        assert_eq!(first, 1);
        assert_eq!(taken(), if has_third { vec![2, 3] } else { vec![2] });
    });
}
