//! Violations: the ways in which a run can be wrong.

use std::fmt;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: Rule,
    pub detail: String,
}

impl Violation {
    pub(crate) fn new(rule: Rule, detail: impl Into<String>) -> Self {
        Self { rule, detail: detail.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule.name(), self.detail)
    }
}

/// The invariants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Credits and packets of a link add up to its buffer.
    Credits,
    /// A responder takes packets in the order of their PSNs, and none that was not sent.
    PsnOrder,
    /// Each signaled request has exactly one completion, in posting order.
    Completions,
    /// A request that nothing disturbs succeeds, and a failed request has a reason.
    Outcome,
    /// Every request completes, or its queue pair is in error and flushed.
    Progress,
    /// Bytes land only where a request or a receive expects them, and only while it is open.
    StaleMemory,
    /// Received and read bytes are those that were posted.
    Content,
    /// Bytes of a reliable connection arrive once and in posting order.
    Order,
    /// Atomics execute once and return the value before.
    Atomics,
    /// Time never goes back.
    Time,
    /// A deadlock needs a credit loop.
    Deadlock,
    /// A run ends.
    End,
    /// The model panics nowhere.
    Panic,
    /// The reader of fabric files accepts the fabric. A shrunk fabric must not fail for this.
    Fabric,
    /// One seed gives one run.
    Determinism,
    /// Trains change no result.
    Trains,
}

impl Rule {
    pub fn name(self) -> &'static str {
        match self {
            Self::Credits => "credits are not conserved",
            Self::PsnOrder => "packets were accepted out of order",
            Self::Completions => "completions do not match the requests",
            Self::Outcome => "a request has an outcome without a reason",
            Self::Progress => "a request is lost",
            Self::StaleMemory => "stale memory was accessed",
            Self::Content => "wrong bytes arrived",
            Self::Order => "bytes arrived out of order",
            Self::Atomics => "an atomic is wrong",
            Self::Time => "time went back",
            Self::Deadlock => "a deadlock without a credit loop",
            Self::End => "the run does not end",
            Self::Panic => "the model panicked",
            Self::Fabric => "the fabric was refused",
            Self::Determinism => "two runs of one seed differ",
            Self::Trains => "runs with and without trains differ",
        }
    }
}
