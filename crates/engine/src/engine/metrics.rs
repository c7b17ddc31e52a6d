//! The counters of all ports, for exporters of metrics.

use crate::engine::Engine;
use crate::host::files::bytes_per_second;
use crate::protocol::convert;
use serde_json::Value;
use softband_fabric::{NodeOfPort, PortStatistics};
use softband_metrics::ports::{Counters, Hardware, Node, Port};

impl Engine {
    /// Returns the list of all ports.
    pub(super) fn metrics(&mut self) -> Value {
        self.plane().count_direct_traffic();
        let ports: Vec<Port> = self.world.statistics().iter().map(|port| self.described(port)).collect();
        serde_json::to_value(ports).unwrap_or_default()
    }

    fn described(&self, port: &PortStatistics) -> Port {
        let node = match port.node {
            NodeOfPort::Hca(hca) => {
                let (host, index) = self.world.place_of(hca);
                let spec = &self.world.spec().hosts[host];
                Node::Hca { host: spec.name.clone(), device: spec.hcas[index].device.clone() }
            }
            NodeOfPort::Switch(switch) => {
                let name = self.world.spec().switches[switch].name.clone();
                Node::Switch { name, guid: port.node_guid.0, lid: port.lid.0 }
            }
        };
        Port {
            node,
            port: port.port.0,
            state: convert::state_code(port.state),
            physical_state: convert::physical_state_code(port.state, port.is_disabled),
            bytes_per_second: port.rate.map_or(0, |rate| bytes_per_second(port.link_layer, rate)),
            counters: counters(port),
            hardware: self.hardware(port),
        }
    }

    fn hardware(&self, port: &PortStatistics) -> Hardware {
        let NodeOfPort::Hca(hca) = port.node else { return Hardware::default() };
        let of = self.world.hardware_counters(hca, port.port).unwrap_or_default();
        Hardware {
            duplicate_request: of.duplicate_request,
            implied_nak_seq_err: of.implied_nak_seq_err,
            local_ack_timeout_err: of.local_ack_timeout_err,
            out_of_buffer: of.out_of_buffer,
            out_of_sequence: of.out_of_sequence,
            packet_seq_err: of.packet_seq_err,
            req_cqe_error: of.req_cqe_error,
            req_cqe_flush_error: of.req_cqe_flush_error,
            req_remote_access_errors: of.req_remote_access_errors,
            req_remote_invalid_request: of.req_remote_invalid_request,
            resp_cqe_error: of.resp_cqe_error,
            resp_cqe_flush_error: of.resp_cqe_flush_error,
            resp_local_length_error: of.resp_local_length_error,
            resp_remote_access_errors: of.resp_remote_access_errors,
            rnr_nak_retry_err: of.rnr_nak_retry_err,
            rx_atomic_requests: of.rx_atomic_requests,
            rx_read_requests: of.rx_read_requests,
            rx_write_requests: of.rx_write_requests,
        }
    }
}

fn counters(PortStatistics { counters: narrow, extended: wide, .. }: &PortStatistics) -> Counters {
    Counters {
        port_xmit_data: wide.port_xmit_data,
        port_rcv_data: wide.port_rcv_data,
        port_xmit_packets: wide.port_xmit_pkts,
        port_rcv_packets: wide.port_rcv_pkts,
        unicast_xmit_packets: wide.port_unicast_xmit_pkts,
        unicast_rcv_packets: wide.port_unicast_rcv_pkts,
        multicast_xmit_packets: wide.port_multicast_xmit_pkts,
        multicast_rcv_packets: wide.port_multicast_rcv_pkts,
        port_xmit_wait: narrow.port_xmit_wait.into(),
        port_xmit_discards: narrow.port_xmit_discards.into(),
        port_rcv_errors: narrow.port_rcv_errors.into(),
        symbol_error: narrow.symbol_error_counter.into(),
        link_error_recovery: narrow.link_error_recovery_counter.into(),
        link_downed: narrow.link_downed_counter.into(),
        vl15_dropped: narrow.vl15_dropped.into(),
    }
}
