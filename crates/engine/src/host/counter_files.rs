//! The counters of a port below `ports/N/counters`, with the names of the kernel
//! (`drivers/infiniband/core/sysfs.c`), and below `ports/N/hw_counters`, with those of mlx5.

use softband_fabric::{HardwareCounters, PortStatistics};

/// Beginning of the names in the second folder.
const HARDWARE: &str = "hw_counters/";
/// Milliseconds for which the kernel keeps values of that folder (`lifespan`).
const LIFESPAN: &str = "lifespan";
const LIFESPAN_MILLIS: u64 = 10;

/// How a counter follows from the answers of performance management.
type Read = fn(&PortStatistics) -> u64;

/// Each counter with its value. Data and packets come from the wide counters, as in the kernel.
const COUNTERS: [(&str, Read); 21] = [
    ("symbol_error", |port| port.counters.symbol_error_counter.into()),
    ("link_error_recovery", |port| port.counters.link_error_recovery_counter.into()),
    ("link_downed", |port| port.counters.link_downed_counter.into()),
    ("port_rcv_errors", |port| port.counters.port_rcv_errors.into()),
    ("port_rcv_remote_physical_errors", |port| port.counters.port_rcv_remote_physical_errors.into()),
    ("port_rcv_switch_relay_errors", |port| port.counters.port_rcv_switch_relay_errors.into()),
    ("port_xmit_discards", |port| port.counters.port_xmit_discards.into()),
    ("port_xmit_constraint_errors", |port| port.counters.port_xmit_constraint_errors.into()),
    ("port_rcv_constraint_errors", |port| port.counters.port_rcv_constraint_errors.into()),
    ("local_link_integrity_errors", |port| port.counters.local_link_integrity_errors.into()),
    ("excessive_buffer_overrun_errors", |port| port.counters.excessive_buffer_overrun_errors.into()),
    ("VL15_dropped", |port| port.counters.vl15_dropped.into()),
    ("port_xmit_wait", |port| port.counters.port_xmit_wait.into()),
    ("port_xmit_data", |port| port.extended.port_xmit_data),
    ("port_rcv_data", |port| port.extended.port_rcv_data),
    ("port_xmit_packets", |port| port.extended.port_xmit_pkts),
    ("port_rcv_packets", |port| port.extended.port_rcv_pkts),
    ("unicast_xmit_packets", |port| port.extended.port_unicast_xmit_pkts),
    ("unicast_rcv_packets", |port| port.extended.port_unicast_rcv_pkts),
    ("multicast_xmit_packets", |port| port.extended.port_multicast_xmit_pkts),
    ("multicast_rcv_packets", |port| port.extended.port_multicast_rcv_pkts),
];

/// Returns the names of all counters.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COUNTERS.iter().map(|(name, _)| *name)
}

/// Returns the names and first values in the folder of the hardware's counters.
pub(super) fn hardware_names() -> impl Iterator<Item = (&'static str, u64)> {
    HardwareCounters::NAMES.iter().map(|name| (*name, 0)).chain([(LIFESPAN, LIFESPAN_MILLIS)])
}

/// Returns a counter in the folder of the hardware's counters; `None` for an unknown name, and outside
/// of it.
pub(crate) fn hardware_value(name: &[u8], counters: &HardwareCounters) -> Option<u64> {
    let name = std::str::from_utf8(name).ok()?.strip_prefix(HARDWARE)?;
    if name == LIFESPAN { Some(LIFESPAN_MILLIS) } else { counters.by_name(name) }
}

/// Returns a counter of a port; `None` for an unknown name.
pub(crate) fn value(name: &[u8], port: &PortStatistics) -> Option<u64> {
    COUNTERS.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, read)| read(port))
}
