//! Properties of a fabric before a run: path MTUs, connected components, credit loops.

pub(crate) mod connected_components;
pub(crate) mod credit_loops;
pub(crate) mod path_mtu;
