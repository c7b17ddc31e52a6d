//! The order of programs: turns of their threads, context switches, and the waits between them.

pub(crate) mod agenda;
pub(crate) mod alarms;
pub(crate) mod busy_machine;
pub(crate) mod context_switch;
pub(crate) mod room;
pub(crate) mod threads;
pub(crate) mod time_limit;
pub(crate) mod tsc;
