//! Links: ports, transmission, forwarding, flow control at its limits.

pub(crate) mod counters;
pub(crate) mod deadlock;
pub(crate) mod ethernet;
pub(crate) mod forwarding;
pub(crate) mod port;
pub(crate) mod sending;
pub(crate) mod tx_pending;
