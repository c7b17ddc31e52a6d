//! Connections from outside: admission of programs, the control socket, its clients.

pub(crate) mod admission;
pub(crate) mod quota;
pub(crate) mod remote;
pub(crate) mod room;
pub(crate) mod socket;
pub(crate) mod tickets;
