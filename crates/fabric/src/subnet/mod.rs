//! The subnet: addresses, routes, multicast groups.

pub(crate) mod gids;
pub(crate) mod multicast;
pub(crate) mod routes;
