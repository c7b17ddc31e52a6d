//! The reasons for which a request goes to the engine instead of the direct path, and their
//! counters. A program counts only when it falls back, so the direct path pays nothing.

use softband_ipc::layout::FALLBACKS_MAX;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! reasons {
    ($($variant:ident $name:literal $text:literal,)*) => {
        /// Reason why a poster gives a request to the engine.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum FallbackReason {
            $(#[doc = concat!("Meaning: ", $text, ".")] $variant,)*
        }

        impl FallbackReason {
            /// All reasons, in the order of their counters.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the name in results for programs.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns an explanation of a few words.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

reasons! {
    UnsupportedOperation "unsupported_operation" "only the engine carries out this operation",
    NotPublished "not_published" "the queue pair has no entry in the tables",
    PeerNotConnected "peer_not_connected" "no peer is connected with attributes that fit",
    FaultPlan "fault_plan" "packets may meet a fault, or the port is down",
    PeerNotReady "peer_not_ready" "a side of the connection is not in RTR or RTS",
    UnknownDestination "unknown_destination" "no queue in the tables has this destination",
    EngineHasWork "engine_has_work" "the engine has earlier work of the queue pair",
    QueueTakenOver "queue_taken_over" "the engine has the receive queue",
    QueueNotMapped "queue_not_mapped" "the receiver has no queue or ring that can be mapped here",
    QueueBusy "queue_busy" "another consumer holds the receive queue",
    NoReceiveRequest "no_receive_request" "the receiver has posted no receive request",
    ReceiveTooShort "receive_too_short" "the receive request is too short, or its memory refuses access",
    KeyRefused "key_refused" "a key does not allow this access",
    AccessRefused "access_refused" "the queue pair of the peer does not allow this access",
    MemoryNotMapped "memory_not_mapped" "the memory of an atomic is misaligned or not mapped here",
    TooLong "too_long" "the message is longer than the direct path or the path MTU allows",
    TooManySpans "too_many_spans" "the request has too many pieces",
    CopyFailed "copy_failed" "the system refused the copy",
    RingFull "ring_full" "the receiver's ring of completions is full or locked",
    ReceiverRefuses "receiver_refuses" "the receiver of a datagram does not accept it",
    Interrupted "interrupted" "the connection changed during the attempt",
}

const _: () = assert!(FallbackReason::ALL.len() <= FALLBACKS_MAX);

/// Counters of a process, one for each reason.
pub type Counters = [AtomicU64; FALLBACKS_MAX];

/// Counts a request that goes to the engine.
#[cold]
pub fn count(counters: &Counters, reason: FallbackReason) {
    counters[reason as usize].fetch_add(1, Ordering::Relaxed);
}

/// Numbers of requests that went to the engine, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FallbackCounts([u64; FALLBACKS_MAX]);

impl FallbackCounts {
    /// Reads the counters of a process. A lying program spoils only its own numbers.
    pub fn of(counters: &Counters) -> Self {
        Self(std::array::from_fn(|reason| counters[reason].load(Ordering::Relaxed)))
    }

    /// Adds the numbers of another process.
    pub fn add(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own = own.saturating_add(other);
        }
    }

    /// Returns the reasons that occurred, with their numbers.
    pub fn nonzero(&self) -> impl Iterator<Item = (FallbackReason, u64)> {
        FallbackReason::ALL.iter().map(|reason| (*reason, self.0[*reason as usize])).filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_reason_has_a_counter_and_a_name_of_its_own() {
        let names: BTreeSet<_> = FallbackReason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), FallbackReason::ALL.len());
        assert!(FallbackReason::ALL.iter().enumerate().all(|(index, reason)| *reason as usize == index));
    }

    #[test]
    fn counts_of_processes_add_up_without_overflow() {
        let counters: Counters = std::array::from_fn(|_| AtomicU64::new(0));
        count(&counters, FallbackReason::QueueTakenOver);
        count(&counters, FallbackReason::QueueTakenOver);
        counters[FallbackReason::TooLong as usize].store(u64::MAX, Ordering::Relaxed);
        let mut all = FallbackCounts::of(&counters);
        all.add(&FallbackCounts::of(&counters));
        let found: Vec<_> = all.nonzero().collect();
        assert_eq!(found, [(FallbackReason::QueueTakenOver, 4), (FallbackReason::TooLong, u64::MAX)]);
    }
}
