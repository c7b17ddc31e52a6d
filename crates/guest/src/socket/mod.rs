//! Stream sockets between hosts of the fabric: the engine carries the bytes, a socket of the kernel keeps the number.

pub mod address;
pub mod message;
pub mod names;
pub mod native;
pub mod open;
pub mod stream;
