//! The drop-in libibverbs: convert, call, convert back.
//!
//! Every public symbol of libibverbs is here, and every entry of the tables that the header's inline functions go through. What
//! the fabric does not offer answers `EOPNOTSUPP` and says so once on standard error.
//!
//! The functions that programs call are short and alike: catch panics, check pointers, convert, call the engine, convert back.
//! Their documentation is the manual page of the same name. Objects are boxes whose head is the structure that the header shows
//! and whose tail is ours.
//!
//! No lock is held over a turn of the engine: while this thread waits there, the engine may wait for another thread of the same
//! process, and that one for the lock.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // program side: the walls of the model do not hold here
#![allow(clippy::missing_safety_doc)] // the manual pages say what callers owe
#![allow(unreachable_pub)] // C programs reach the exported functions, whose modules are private

mod ah;
mod ah_from_wc;
mod builder;
mod channel;
mod context;
mod convert;
mod cq;
mod cq_ex;
mod device;
mod direct;
mod event_count;
mod events;
mod guard;
mod kernel_copies;
mod mr;
mod multicast;
mod mw;
mod patience;
mod pd;
mod poll;
mod post;
mod qp;
mod qp_attributes;
mod qp_ex;
mod query;
mod rates;
mod spin_lock;
mod srq;
mod strings;
mod sysfs;
mod unsupported;
mod xrc;
