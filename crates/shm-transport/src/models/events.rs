//! Armed completion queues: a completion that the owner does not see after it has armed the queue
//! raises the event.

use super::{ENTRIES, Model, RING, check, cqe, spawn};
use crate::remote_cqe_ring::RemoteCqeRing;
use loom::sync::Arc;

fn ring() -> RemoteCqeRing<Model> {
    RemoteCqeRing::map(RING, 64, ENTRIES).expect("a ring")
}

fn owner_and_producer(looks_again: bool) {
    check(move || {
        let owner = Arc::new(ring());
        owner.want_events();
        let producer = spawn(2, || {
            let ring = ring();
            let room = ring.reserve(true).expect("room");
            room.write(cqe(1));
            room.publish();
            ring.raises_event(false)
        });
        owner.arm(false);
        let is_seen = looks_again && owner.holds(1);
        let is_raised = producer.join().expect("the producer ends");
        assert!(is_seen || is_raised || !looks_again, "the event is lost");
        assert!(is_raised || looks_again, "the owner must look again after it has armed the queue");
    });
}

#[test]
fn no_event_is_lost() {
    owner_and_producer(true);
}

#[test]
#[should_panic(expected = "must look again")]
fn an_owner_that_does_not_look_again_sleeps_for_ever() {
    owner_and_producer(false);
}

#[test]
fn one_arming_raises_one_event() {
    check(|| {
        let owner = ring();
        owner.want_events();
        owner.arm(false);
        let producers = [2, 3].map(|pid| {
            spawn(pid, move || {
                let ring = ring();
                let room = ring.reserve(false).expect("room");
                room.write(cqe(u64::from(pid)));
                room.publish();
                ring.raises_event(false)
            })
        });
        let raised = producers.into_iter().map(|producer| producer.join().expect("it ends")).filter(|raised| *raised).count();
        assert_eq!(raised, 1);
        assert!(owner.holds(2));
    });
}
