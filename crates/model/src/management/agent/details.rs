//! Details of counters: reasons of errors and discards, waits of lanes, and marks of congestion (IBTA
//! 16.1.4 and annex A10).

use super::performance::{Data, narrowed};
use super::{Agent, Details, Hardware, Refusal};
use softband_types::PortNumber;
use softband_wire::mad::{
    AttributeId, Layout, PortRcvConCtrl, PortRcvErrorDetails, PortVlXmitWaitCounters, PortXmitConCtrl, PortXmitDiscardDetails, Status,
};

/// Finds the counters of an attribute.
type Group = fn(&mut Details) -> &mut [u64];

/// Returns the counters of an attribute; `None` if it has no details.
fn group_of(attribute: AttributeId) -> Option<Group> {
    Some(match attribute {
        AttributeId::PORT_RCV_ERROR_DETAILS => |details| &mut details.rcv_errors,
        AttributeId::PORT_XMIT_DISCARD_DETAILS => |details| &mut details.xmit_discards,
        AttributeId::PORT_VL_XMIT_WAIT_COUNTERS => |details| &mut details.lane_waits,
        AttributeId::PORT_RCV_CON_CTRL => |details| &mut details.rcv_marks,
        AttributeId::PORT_XMIT_CON_CTRL => |details| &mut details.time_congested,
        _ => return None,
    })
}

impl Agent {
    /// Answers a request for details.
    pub(super) fn details(&mut self, attribute: AttributeId, is_set: bool, request: &Data, hardware: &dyn Hardware) -> Result<Data, Refusal> {
        let group = group_of(attribute).ok_or(Status::METHOD_ATTRIBUTE_NOT_SUPPORTED)?;
        // The selections have the same place in each of these attributes.
        let request = PortXmitConCtrl::parse(request).map_err(|_| Status::INVALID_FIELD)?;
        let ports = self.selected(request.port_select)?;
        if is_set {
            ports.iter().for_each(|port| self.reset_details(*port, group, request.counter_select, hardware));
        }
        let mut sum = Details::default();
        for port in ports {
            let mut now = hardware.details(port);
            let mut at_reset = self.ports[usize::from(port)].resets.details.as_deref().copied().unwrap_or_default();
            for ((sum, now), at_reset) in group(&mut sum).iter_mut().zip(group(&mut now)).zip(group(&mut at_reset)) {
                *sum += now.saturating_sub(*at_reset);
            }
        }
        Ok(written(attribute, request.port_select, &sum))
    }

    fn reset_details(&mut self, port: u8, group: Group, select: u16, hardware: &dyn Hardware) {
        let mut now = hardware.details(port);
        let resets = self.ports[usize::from(port)].resets.details.get_or_insert_default();
        let counters = group(resets).iter_mut().zip(group(&mut now)).enumerate();
        for (_, (reset, now)) in counters.filter(|(index, _)| select & 1 << index != 0) {
            *reset = *now;
        }
    }
}

/// Writes the counters of an attribute. They stop at their largest value (IBTA 16.1.3.5).
fn written(attribute: AttributeId, port_select: PortNumber, sum: &Details) -> Data {
    let mut data = [0; size_of::<Data>()];
    match attribute {
        AttributeId::PORT_RCV_ERROR_DETAILS => {
            let [physical, malformed, overrun, dlid_mapping, vl_mapping, looping] = sum.rcv_errors.map(narrowed);
            let details = PortRcvErrorDetails {
                port_select,
                port_local_physical_errors: physical,
                port_malformed_packet_errors: malformed,
                port_buffer_overrun_errors: overrun,
                port_dlid_mapping_errors: dlid_mapping,
                port_vl_mapping_errors: vl_mapping,
                port_looping_errors: looping,
                ..PortRcvErrorDetails::default()
            };
            details.emit(&mut data);
        }
        AttributeId::PORT_XMIT_DISCARD_DETAILS => {
            let [inactive, neighbor_mtu, lifetime, head_lifetime] = sum.xmit_discards.map(narrowed);
            let details = PortXmitDiscardDetails {
                port_select,
                port_inactive_discards: inactive,
                port_neighbor_mtu_discards: neighbor_mtu,
                port_sw_lifetime_limit_discards: lifetime,
                port_sw_hoq_lifetime_limit_discards: head_lifetime,
                ..PortXmitDiscardDetails::default()
            };
            details.emit(&mut data);
        }
        AttributeId::PORT_VL_XMIT_WAIT_COUNTERS => {
            let waits = PortVlXmitWaitCounters { port_select, counter_select: 0, port_vl_xmit_wait: sum.lane_waits.map(narrowed) };
            waits.emit(&mut data);
        }
        AttributeId::PORT_RCV_CON_CTRL => {
            let [fecn, becn] = sum.rcv_marks.map(narrowed);
            PortRcvConCtrl { port_select, counter_select: 0, port_pkt_rcv_fecn: fecn, port_pkt_rcv_becn: becn }.emit(&mut data);
        }
        _ => {
            let [time] = sum.time_congested.map(narrowed);
            PortXmitConCtrl { port_select, counter_select: 0, port_xmit_time_cong: time }.emit(&mut data);
        }
    }
    data
}
