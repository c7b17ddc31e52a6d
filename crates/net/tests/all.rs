//! The integration tests of the crate in one binary, which links once. Tests that measure the memory
//! of their process have binaries of their own.

mod common;

mod again;
mod blocks;
mod connection;
mod crowds;
mod datagram;
mod delivery;
mod determinism;
mod echo;
mod ends;
mod families;
mod fragments;
mod groups;
mod listeners;
mod listing;
mod memory;
mod neighbours;
mod options;
mod routes;
mod scopes;
mod sdp;
mod segments;
mod smoltcp;
mod throughput;
mod windows;
mod wire;
