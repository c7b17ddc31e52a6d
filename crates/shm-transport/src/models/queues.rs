//! Receive queues: takeover and return by the engine, and several consumers. Each request is
//! consumed once.

use super::{ENTRIES, GONE, Model, QUEUE, WORLD, await_quiescence, check, spawn};
use crate::queue_memory::QueueMemory;
use crate::queues::{consumer, mode};
use crate::receive_queue::{Posted, ReceiveQueue};
use crate::sync::Ordering;
use crate::tables::QpEntry;
use crate::tables_guard::guard_tables;

fn entry() -> QpEntry {
    let entry = QpEntry::default();
    entry.receive_queue.store(64, Ordering::Relaxed);
    entry.file.store(QUEUE, Ordering::Relaxed);
    entry.receive_entries.store(ENTRIES, Ordering::Relaxed);
    entry
}

fn queue() -> ReceiveQueue<Model> {
    ReceiveQueue::of(&entry()).expect("a queue")
}

fn memory() -> QueueMemory {
    // SAFETY: the world has a queue of this size.
    unsafe { QueueMemory::new(WORLD.queue.0, ENTRIES, 0) }
}

fn post(queue: &ReceiveQueue<Model>, wr_id: u64) -> Posted {
    let guard = guard_tables::<Model>().expect("tables");
    queue.post(&guard, wr_id, &[])
}

/// A message of the only sender, as `libibverbs` takes a request. Returns it.
fn take_alone(queue: &ReceiveQueue<Model>) -> Option<u64> {
    let _guard = guard_tables::<Model>().expect("tables");
    let mode = queue.mode();
    if mode.is_shared() != Some(true) {
        return None;
    }
    let wr_id = queue.front(mode)?.wr_id;
    if queue.mode() != mode {
        return None;
    }
    queue.take_front();
    Some(wr_id)
}

/// A message of one of several senders. `writes`: it writes into the memory of the request.
fn take_locked(queue: &ReceiveQueue<Model>, writes: bool) -> Option<u64> {
    let mode = queue.mode();
    if mode.is_shared() != Some(true) {
        return None;
    }
    let lock = queue.try_lock_consumer(true)?;
    let wr_id = queue.front(mode)?.wr_id;
    if !lock.is_valid() {
        return None;
    }
    if writes {
        WORLD.buffers[wr_id as usize - 1].write();
    }
    lock.take_front().then_some(wr_id)
}

fn drained() -> Vec<u64> {
    memory().drain().into_iter().map(|(wr_id, _)| wr_id).collect()
}

fn give_back(first: u32, requests: &[u64], epoch: u32) {
    memory().give_back(first, requests.iter().map(|wr_id| (*wr_id, std::iter::empty())), 0, 0, epoch);
}

/// The engine takes the queue over while the sender takes and the owner posts.
fn taken_over(awaits: bool) {
    check(move || {
        let owner = queue();
        assert_eq!(post(&owner, 1), Posted::Here);
        let sender = spawn(2, || {
            let queue = queue();
            take_alone(&queue)
        });
        let poster = spawn(1, move || post(&owner, 2));
        assert!(memory().take_over());
        if awaits {
            await_quiescence();
        }
        let mut all = drained();
        all.extend(sender.join().expect("the sender ends"));
        all.extend((poster.join().expect("the owner ends") == Posted::ForEngine).then_some(2));
        all.sort_unstable();
        assert_eq!(all, [1, 2], "each request is there once");
    });
}

#[test]
fn a_takeover_gets_each_request_once() {
    taken_over(true);
}

#[test]
#[should_panic(expected = "each request is there once")]
fn a_takeover_without_quiescence_gets_some_twice_or_never() {
    taken_over(false);
}

/// The engine returns the queue with another request, while the sender still knows the counters of
/// the former epoch.
#[test]
fn a_sender_takes_the_requests_of_the_new_epoch_after_a_return() {
    check(|| {
        let sender_queue = queue();
        assert_eq!(post(&sender_queue, 1), Posted::Here);
        assert_eq!(take_alone(&sender_queue), Some(1));
        assert_eq!(post(&sender_queue, 2), Posted::Here);
        let sender = spawn(2, move || (take_alone(&sender_queue), take_alone(&sender_queue)));
        assert!(memory().take_over());
        await_quiescence();
        let rest = drained();
        memory().begin_return();
        await_quiescence();
        assert!(memory().is_returning());
        give_back(0, &[3], 1);
        let taken = sender.join().expect("the sender ends");
        match taken {
            (Some(2), other) => assert!(rest.is_empty() && [None, Some(3)].contains(&other)),
            (None, other) | (other @ Some(3), None) => assert!(rest == [2] && [None, Some(3)].contains(&other)),
            others => panic!("{others:?}"),
        }
    });
}

/// The sender has seen two requests and taken one. The engine returns the queue without the other.
#[test]
fn a_sender_forgets_its_counters_with_the_epoch() {
    check(|| {
        let sender_queue = queue();
        post(&sender_queue, 1);
        post(&sender_queue, 2);
        assert_eq!(take_alone(&sender_queue), Some(1));
        let sender = spawn(2, move || take_alone(&sender_queue));
        assert!(memory().take_over());
        await_quiescence();
        let rest = drained();
        memory().begin_return();
        await_quiescence();
        give_back(0, &[], 1);
        let taken = sender.join().expect("the sender ends");
        assert_eq!(taken.is_none(), rest == [2], "the sender takes a request that is not there");
    });
}

/// The owner posts while the engine returns the queue. A request for the engine goes into its ring
/// under the guard.
fn returned_under_a_post(awaits: bool) {
    check(move || {
        assert!(memory().take_over());
        let poster = spawn(1, || {
            let queue = queue();
            loop {
                let guard = guard_tables::<Model>().expect("tables");
                match queue.post(&guard, 1, &[]) {
                    Posted::Here => return,
                    Posted::ForEngine => return WORLD.given.store(1, Ordering::Release),
                    Posted::Later => {}
                }
                drop(guard);
                loom::thread::yield_now();
            }
        });
        memory().begin_return();
        if awaits {
            await_quiescence();
        }
        let given = WORLD.given.load(Ordering::Acquire);
        give_back(0, if given == 0 { &[9] } else { &[9, 1] }, 1);
        poster.join().expect("the owner ends");
        assert_eq!(drained(), [9, 1], "each request is there once");
    });
}

#[test]
fn a_return_keeps_a_request_that_comes_meanwhile() {
    returned_under_a_post(true);
}

#[test]
#[should_panic(expected = "each request is there once")]
fn a_return_without_quiescence_leaves_a_request_behind() {
    returned_under_a_post(false);
}

#[test]
fn one_of_two_takes_the_lock_of_a_consumer_that_is_gone() {
    check(|| {
        post(&queue(), 1);
        memory().header().consumer.0.store(consumer(mode::SHARED, GONE), Ordering::Relaxed);
        let consumers = [2, 3].map(|pid| spawn(pid, || take_locked(&queue(), true)));
        let mut taken: Vec<u64> = consumers.into_iter().filter_map(|consumer| consumer.join().expect("it ends")).collect();
        taken.extend(drained());
        assert_eq!(taken, [1]);
    });
}

#[test]
fn two_posts_reach_a_sender_in_order() {
    check(|| {
        let sender = spawn(2, || {
            let queue = queue();
            (take_alone(&queue), take_alone(&queue))
        });
        let owner = queue();
        post(&owner, 1);
        post(&owner, 2);
        let taken = sender.join().expect("the sender ends");
        assert!([(None, None), (None, Some(1)), (Some(1), None), (Some(1), Some(2))].contains(&taken), "{taken:?}");
    });
}

#[test]
fn two_consumers_take_different_requests() {
    check(|| {
        let owner = queue();
        post(&owner, 1);
        post(&owner, 2);
        let consumers = [2, 3].map(|pid| spawn(pid, || take_locked(&queue(), true)));
        let mut taken: Vec<u64> = consumers.into_iter().filter_map(|consumer| consumer.join().expect("it ends")).collect();
        taken.extend(drained());
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
    });
}

/// The engine has given up on a stopped consumer: it drains without quiescence.
#[test]
fn a_consumer_that_the_engine_gave_up_and_the_engine_never_have_the_same_request() {
    check(|| {
        let owner = queue();
        post(&owner, 1);
        post(&owner, 2);
        let consumer = spawn(2, || take_locked(&queue(), false));
        assert!(memory().take_over());
        let mut all = drained();
        all.extend(consumer.join().expect("it ends"));
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}

fn stopped_consumer(continues_counters: bool) {
    check(move || {
        let owner = queue();
        post(&owner, 1);
        let consumer = spawn(2, move || take_locked(&queue(), false));
        assert!(memory().take_over());
        let mut all = drained();
        // The consumer is still there when the queue is shared again, with other requests.
        give_back(if continues_counters { memory().next_counter() } else { 0 }, &[7], 1);
        let taken = consumer.join().expect("it ends");
        all.extend(taken);
        let left = if memory().take_over() { drained() } else { Vec::new() };
        all.extend(left);
        all.sort_unstable();
        assert_eq!(all, [1, 7], "a consumer of an earlier epoch took a later request");
    });
}

#[test]
fn a_stopped_consumer_takes_nothing_of_a_later_epoch() {
    stopped_consumer(true);
}

#[test]
#[should_panic(expected = "earlier epoch")]
fn counters_that_begin_anew_let_it() {
    stopped_consumer(false);
}
