//! The metrics of ports. Ports of HCAs have the names of node_exporter's collector `infiniband`,
//! with the host as one more label. Ports of switches have those of infiniband_exporter.

use crate::exposition::{Exposition, Kind};
use serde::{Deserialize, Serialize};

/// State and counters of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    pub node: Node,
    /// Number of the port, from 1.
    pub port: u8,
    /// State as in PortInfo: 1 Down, 2 Init, 3 Armed, 4 Active.
    pub state: u8,
    /// Physical state as in PortInfo: 2 Polling, 3 Disabled, 5 LinkUp.
    pub physical_state: u8,
    /// Rate of the link, 0 without one.
    pub bytes_per_second: u64,
    pub counters: Counters,
    /// Counters of an HCA's queue pairs; zero for a switch.
    pub hardware: Hardware,
}

/// Node of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Node {
    Hca { host: String, device: String },
    Switch { name: String, guid: u64, lid: u16 },
}

macro_rules! counters {
    ($($field:ident $hca:literal $switch:literal $scale:literal $help:literal,)*) => {
        /// Counters of a port, with the names of the kernel. Data in words of 4 bytes.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Counters {
            $(#[doc = concat!($help, ".")] pub $field: u64,)*
        }

        /// All counters, in the order of the text.
        const COUNTERS: &[Counter] = &[$(Counter { hca: $hca, switch: $switch, help: $help, value: |of| of.$field.saturating_mul($scale) },)*];
    };
}

/// A counter: ends of its names, and its value in the unit of the name.
struct Counter {
    hca: &'static str,
    switch: &'static str,
    help: &'static str,
    value: fn(&Counters) -> u64,
}

counters! {
    port_xmit_data "port_data_transmitted_bytes" "port_transmit_data_bytes" 4 "Data sent, from LRH to invariant CRC",
    port_rcv_data "port_data_received_bytes" "port_receive_data_bytes" 4 "Data received, from LRH to invariant CRC",
    port_xmit_packets "port_packets_transmitted" "port_transmit_packets" 1 "Packets sent",
    port_rcv_packets "port_packets_received" "port_receive_packets" 1 "Packets received",
    unicast_xmit_packets "unicast_packets_transmitted" "port_unicast_transmit_packets" 1 "Unicast packets sent",
    unicast_rcv_packets "unicast_packets_received" "port_unicast_receive_packets" 1 "Unicast packets received",
    multicast_xmit_packets "multicast_packets_transmitted" "port_multicast_transmit_packets" 1 "Multicast packets sent",
    multicast_rcv_packets "multicast_packets_received" "port_multicast_receive_packets" 1 "Multicast packets received",
    port_xmit_wait "port_transmit_wait" "port_transmit_wait" 1 "Ticks with data to send but without credits",
    port_xmit_discards "port_discards_transmitted" "port_transmit_discards" 1 "Packets discarded instead of sent",
    port_rcv_errors "port_errors_received" "port_receive_errors" 1 "Packets received with an error",
    symbol_error "symbol_error" "port_symbol_error" 1 "Symbol errors of all lanes",
    link_error_recovery "link_error_recovery" "port_link_error_recovery" 1 "Times that the link recovered",
    link_downed "link_downed" "port_link_downed" 1 "Times that the link went down",
    vl15_dropped "vl15_dropped" "port_vl15_dropped" 1 "Packets on VL 15 discarded",
}

macro_rules! hardware {
    ($($field:ident $name:literal $help:literal,)*) => {
        /// Counters of the queue pairs of an HCA's port, with the names of mlx5.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Hardware {
            $(#[doc = concat!($help, ".")] pub $field: u64,)*
        }

        /// End of the name, help and value of all of them.
        const HARDWARE: &[(&str, &str, fn(&Hardware) -> u64)] = &[$(($name, $help, |of| of.$field)),*];
    };
}

hardware! {
    duplicate_request "duplicate_requests_packets" "Repeated request packets that came",
    implied_nak_seq_err "implied_nak_seq_errors" "Responses that came before an expected one",
    local_ack_timeout_err "local_ack_timeout_errors" "Waits for a response that were too long",
    out_of_buffer "out_of_buffer_drops" "Messages lost or put off for lack of a receive request",
    out_of_sequence "out_of_sequence_packets_received" "Request packets that came before their predecessors",
    packet_seq_err "packet_sequence_errors" "NAKs that came for a missing packet",
    req_cqe_error "req_cqes_errors" "Completions of send queues with an error",
    req_cqe_flush_error "req_cqes_flush_errors" "Flushed completions of send queues",
    req_remote_access_errors "req_remote_access_errors" "Send requests that the peer's memory refused",
    req_remote_invalid_request "req_remote_invalid_request_errors" "Send requests that made no sense to the peer",
    resp_cqe_error "resp_cqes_errors" "Completions of receive queues with an error",
    resp_cqe_flush_error "resp_cqes_flush_errors" "Flushed completions of receive queues",
    resp_local_length_error "resp_local_length_errors" "Messages longer than their receive requests",
    resp_remote_access_errors "resp_remote_access_errors" "Requests without a right to the memory here",
    rnr_nak_retry_err "rnr_nak_retry_packets_received" "RNR NAKs that came",
    rx_atomic_requests "rx_atomic_requests" "Atomics that came",
    rx_read_requests "rx_read_requests" "RDMA reads that came",
    rx_write_requests "rx_write_requests" "RDMA writes that came",
}

/// Name, help and value of a state of ports.
type State = (&'static str, &'static str, fn(&Port) -> u64);

/// Returns the text of all ports.
pub fn to_text(ports: &[Port]) -> String {
    let mut text = Exposition::default();
    for counter in COUNTERS {
        let name = format!("node_infiniband_{}_total", counter.hca);
        text.begin(&name, counter.help, Kind::Counter);
        of_hcas(ports).for_each(|(port, labels)| text.sample(&name, &labels.each(), (counter.value)(&port.counters)));
    }
    for (end, help, value) in HARDWARE {
        let name = format!("node_infiniband_{end}_total");
        text.begin(&name, help, Kind::Counter);
        of_hcas(ports).for_each(|(port, labels)| text.sample(&name, &labels.each(), value(&port.hardware)));
    }
    let states: [State; 3] = [
        ("node_infiniband_state_id", "State of the port (1: down, 2: init, 3: armed, 4: active)", |port| port.state.into()),
        ("node_infiniband_physical_state_id", "Physical state of the port (2: polling, 3: disabled, 5: link up)", |port| port.physical_state.into()),
        ("node_infiniband_rate_bytes_per_second", "Rate of the link", |port| port.bytes_per_second),
    ];
    for (name, help, value) in states {
        text.begin(name, help, Kind::Gauge);
        of_hcas(ports).for_each(|(port, labels)| text.sample(name, &labels.each(), value(port)));
    }
    for counter in COUNTERS {
        let name = format!("infiniband_switch_{}_total", counter.switch);
        text.begin(&name, counter.help, Kind::Counter);
        of_switches(ports).for_each(|(port, labels)| text.sample(&name, &labels.each(), (counter.value)(&port.counters)));
    }
    describe_switches(ports, &mut text);
    text.finish()
}

/// Labels of a sample.
struct Labels<const N: usize>([(&'static str, String); N]);

impl<const N: usize> Labels<N> {
    fn each(&self) -> [(&str, &str); N] {
        self.0.each_ref().map(|(name, value)| (*name, value.as_str()))
    }
}

fn of_hcas(ports: &[Port]) -> impl Iterator<Item = (&Port, Labels<3>)> {
    ports.iter().filter_map(|port| match &port.node {
        Node::Hca { host, device } => Some((port, Labels([("device", device.clone()), ("port", port.port.to_string()), ("host", host.clone())]))),
        Node::Switch { .. } => None,
    })
}

fn of_switches(ports: &[Port]) -> impl Iterator<Item = (&Port, Labels<2>)> {
    ports.iter().filter_map(|port| match &port.node {
        Node::Switch { guid, .. } => Some((port, Labels([("guid", guid_text(*guid)), ("port", port.port.to_string())]))),
        Node::Hca { .. } => None,
    })
}

/// Adds the names of the switches, which join with the other metrics by GUID.
fn describe_switches(ports: &[Port], text: &mut Exposition) {
    let name = "infiniband_switch_info";
    text.begin(name, "Name and LID of a switch", Kind::Gauge);
    let mut last = None;
    for port in ports {
        if let Node::Switch { name: switch, guid, lid } = &port.node
            && last.replace(*guid) != Some(*guid)
        {
            text.sample(name, &[("guid", &guid_text(*guid)), ("switch", switch), ("lid", &lid.to_string())], 1);
        }
    }
}

fn guid_text(guid: u64) -> String {
    format!("{guid:#018x}")
}
