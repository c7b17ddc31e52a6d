//! Connections from outside: admission of programs, the control socket, the daemon.

pub(crate) mod admission;
pub(crate) mod daemon;
pub(crate) mod events;
pub(crate) mod quota;
pub(crate) mod remote;
pub(crate) mod socket;
pub(crate) mod tickets;
