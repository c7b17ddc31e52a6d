//! The host that a program sees besides its HCAs: sockets, files, and objects behind descriptors.

pub(crate) mod addresses;
pub(crate) mod cm;
pub(crate) mod counter_files;
pub(crate) mod datagrams;
pub(crate) mod disks;
pub(crate) mod files;
pub(crate) mod interfaces;
pub(crate) mod kernel;
mod mad_files;
pub(crate) mod mads;
mod name_files;
mod net_files;
pub(crate) mod network;
pub(crate) mod objects;
pub(crate) mod ports;
mod processor_files;
pub(crate) mod relay;
pub(crate) mod room;
mod shared_files;
pub(crate) mod sockets;
pub(crate) mod stack_sockets;
