//! The drop-in libibverbs: convert, call, convert back.
//!
//! This library defines all public symbols of libibverbs, and all entries of the tables that the
//! header's inline functions use. Unsupported functions return `EOPNOTSUPP` and warn once on
//! standard error.
//!
//! The functions that programs call are short and alike: catch panics, check pointers, convert,
//! call the engine, convert back. The manual page of the same name documents each function. Objects
//! are boxes that begin with the header's structure and end with our part.
//!
//! No thread holds a lock over a call to the engine. While it waits there, the engine may wait for
//! another thread of the process, and that thread for the lock.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // program side: the walls of the model do not hold here

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
mod work_queue;
mod xrc;
