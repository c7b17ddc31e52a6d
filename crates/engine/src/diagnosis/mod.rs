//! Answers to "who waits for what" and "who polls in vain". This code only reads the rooms.

pub(crate) mod call_names;
pub(crate) mod native_waits;
pub(crate) mod observer;
pub(crate) mod vain_polls;
pub(crate) mod waits;
pub(crate) mod work;
