//! The order of programs: turns of their threads, context switches, and the waits between them.

pub(crate) mod agenda;
pub(crate) mod context_switch;
pub(crate) mod native_waits;
pub(crate) mod threads;
pub(crate) mod time_limit;
pub(crate) mod tsc;
pub(crate) mod vain_polls;
pub(crate) mod waits;
pub(crate) mod work;
