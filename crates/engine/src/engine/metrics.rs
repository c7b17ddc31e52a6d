//! The counters of all ports, for exporters of metrics.

use crate::engine::Engine;
use crate::host::files::bytes_per_second;
use crate::protocol::convert;
use serde_json::Value;
use softband_fabric::{NodeOfPort, PortStatistics};
use softband_metrics::ports::{Counters, Hardware, Node, Port};

impl Engine {
    /// Returns the list of all ports of HCAs and switches.
    pub(super) fn metrics(&mut self) -> Value {
        self.plane().count_direct_traffic();
        let statistics = self.world.statistics();
        let ports: Vec<Port> = statistics.iter().filter(|port| !self.is_of_nic(port)).map(|port| self.described(port)).collect();
        serde_json::to_value(ports).unwrap_or_default()
    }

    fn is_of_nic(&self, port: &PortStatistics) -> bool {
        let NodeOfPort::Hca(hca) = port.node else { return false };
        let (host, index) = self.world.place_of(hca);
        self.world.spec().hosts[host].hcas[index].nic.is_some()
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

#[cfg(test)]
mod tests {
    use crate::engine::Engine;
    use crate::options::Pace;
    use softband_catalog::{Catalog, PartKind};
    use softband_model::parts::{CablePart, EthernetCable, HcaPart, HostPart};
    use softband_spec::{FabricBuilder, FabricSpec};
    use softband_types::EthernetRate;
    use std::path::Path;

    /// Returns two hosts with an HCA and a NIC each.
    fn fabric() -> FabricSpec {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let catalog = Catalog::load(&root.join("catalog")).unwrap();
        let mut cards = catalog.parts(PartKind::Nic).into_iter().filter_map(|name| catalog.nic(name));
        let card = cards.find(|card| card.rates.contains(&EthernetRate::G100)).unwrap();
        let mut fabric = FabricBuilder::new("HCAs and NICs");
        let ends = ["a", "b"].map(|name| {
            let host = fabric.host(name, HostPart::ideal());
            (fabric.nic(host, "eth1", card.clone()), fabric.hca(host, HcaPart::ideal()))
        });
        let wire = CablePart { ethernet: Some(EthernetCable { rate_max: EthernetRate::G100, fec_latency: Vec::new() }), ..CablePart::ideal(1_000) };
        fabric.cable(ends[0].0, ends[1].0, wire);
        fabric.cable(ends[0].1, ends[1].1, CablePart::ideal(1_000));
        fabric.build().unwrap()
    }

    #[test]
    fn operators_see_no_nic_among_the_hcas() {
        let mut engine = Engine::for_harness(&fabric(), "", Pace::Virtual).unwrap();
        let devices = engine.world.spec().hosts[0].verbs_devices().map(|(index, hca)| (index, hca.device.clone())).collect::<Vec<_>>();
        let [(1, device)] = devices.as_slice() else { panic!("{devices:?}") };
        let shown = |text: String| (text.contains("eth1"), text.contains(device.as_str()));
        assert_eq!(shown(engine.metrics().to_string()), (false, true));
        assert_eq!(shown(engine.status()["hosts"][0]["devices"].to_string()), (false, true));
    }
}
