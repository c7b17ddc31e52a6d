//! Stream sockets between hosts of the fabric. The engine carries the bytes; a socket of the kernel
//! reserves the number.

pub mod address;
pub mod control;
pub mod datagram;
pub mod diag;
pub mod ethtool;
pub mod families;
pub mod host_name;
pub mod interfaces;
pub mod linger;
pub mod message;
pub mod modelled;
pub mod names;
pub mod native;
pub mod netlink;
pub mod open;
pub mod relayed;
pub mod resolver;
pub mod route;
pub mod sdp;
pub mod stream;
