//! Pure state machines: links, switches, buses, transports, verbs, management.
//!
//! `now` is an argument; nothing here knows a clock, a file or another module's state.
//! `bus`, `link`, `switch`, `transport` and `management` do not call each other: the fabric
//! connects them, by value.
#![forbid(unsafe_code)]

pub mod bus;
pub mod link;
pub mod management;
pub mod packet;
pub mod parts;
pub mod switch;
pub mod transport;
pub mod verbs;
