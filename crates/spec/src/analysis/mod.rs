//! Properties of a fabric before a run: connected components, credit loops, loops of Ethernet switches, path
//! MTUs.

pub(crate) mod connected_components;
pub(crate) mod credit_loops;
pub(crate) mod ethernet_loop;
pub(crate) mod path_mtu;
