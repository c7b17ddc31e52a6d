//! HCAs: queue pairs, the send engine, packets in, completions.

pub(crate) mod complete;
pub(crate) mod congestion;
pub(crate) mod counters;
pub(crate) mod queue_pairs;
pub(crate) mod receive;
pub(crate) mod receive_requests;
pub(crate) mod send_engine;
pub(crate) mod transfers;
pub(crate) mod verbs;
pub(crate) mod views;
