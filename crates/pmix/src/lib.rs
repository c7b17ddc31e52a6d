//! A PMIx server for the ranks of an MPI job.
//!
//! PMIx has no protocol that others could speak: client and server are the same library, and its
//! messages change between versions. So the server loads the very library that the ranks load, and
//! this crate uses its server side. `abi` has the types, `library` the functions, `info` lists of
//! attributes, and `server` the job.
//!
//! One server serves the ranks of all hosts. Each rank learns from its node's attributes which ranks
//! share its host.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // runs on a host of a fabric, beside the ranks

mod abi;
mod info;
mod library;
pub mod server;
