//! Counters as JSON. Port counters have the same form for programs and workloads.

use serde_json::{Value, json};
use softband_fabric::{HcaCounters, PortCounters};

/// Returns a port's counters by name.
pub(crate) fn port_counters(port: &PortCounters) -> Value {
    let mut counters = json!({
        "port_xmit_data": port.port_xmit_data,
        "port_rcv_data": port.port_rcv_data,
        "port_xmit_pkts": port.port_xmit_pkts,
        "port_rcv_pkts": port.port_rcv_pkts,
        "unicast_xmit_pkts": port.unicast_xmit_pkts,
        "unicast_rcv_pkts": port.unicast_rcv_pkts,
        "multicast_xmit_pkts": port.multicast_xmit_pkts,
        "multicast_rcv_pkts": port.multicast_rcv_pkts,
        "port_xmit_discards": port.port_xmit_discards,
        "port_xmit_time_cong": port.port_xmit_time_cong,
        "port_pkt_rcv_fecn": port.port_pkt_rcv_fecn,
        "port_pkt_rcv_becn": port.port_pkt_rcv_becn,
        "port_xmit_wait": port.port_xmit_wait,
        "credit_stall_picos": port.credit_stall_picos,
    });
    if let Some(ethernet) = port.ethernet {
        counters["pause_frames_sent"] = json!(ethernet.xmit_pauses);
        counters["pause_frames_received"] = json!(ethernet.rcv_pauses);
        counters["buffer_discards"] = json!(ethernet.rcv_discards);
    }
    if let Some(faults) = port.faults {
        counters["link_downed"] = json!(faults.link_downed);
        counters["link_error_recovery"] = json!(faults.link_error_recovery);
        counters["symbol_error"] = json!(faults.symbol_error);
        counters["port_rcv_errors"] = json!(faults.port_rcv_errors);
    }
    counters
}

/// Returns the limits of an HCA, each with its busy time.
pub(crate) fn hca_counters(hca: &HcaCounters) -> Value {
    json!({
        "node": hca.node,
        "slot_read_picos": hca.slot_read_picos,
        "slot_write_picos": hca.slot_write_picos,
        "shared_bus_picos": hca.shared_bus_picos,
        "memory_picos": hca.memory_picos,
        "read_wait_picos": hca.read_wait_picos,
        "message_gap_picos": hca.message_gap_picos,
    })
}
