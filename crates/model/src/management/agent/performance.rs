//! The performance management agent: counters, and their reset (IBTA 16.1.3).

use super::{Agent, Answer, Details, Hardware, Refusal, Tally, response_to};
use softband_types::PortNumber;
use softband_wire::mad::{
    AttributeId, ClassPortInfo, CounterSelect, CounterSelect2, ExtendedCounterSelect, Header, Layout, Method, PerformanceCapabilities,
    PerformanceMad, PortCounters, PortCountersExtended, Status,
};

/// PortSelect of a request for all ports.
const ALL_PORTS: u8 = 255;
const DATA_BYTES: usize = 192;
/// Time to answer: 4.096 us * 2^16 is 268 ms.
const RESPONSE_TIME: u8 = 16;

/// Counts of a port at the last reset of each counter.
#[derive(Clone, Default)]
pub(super) struct Resets {
    /// Of PortCounters.
    narrow: Tally,
    narrow_dropped: u64,
    /// Of PortCountersExtended.
    wide: Tally,
    /// Of the details; `None` before the first reset.
    pub(super) details: Option<Box<Details>>,
}

pub(super) type Data = [u8; DATA_BYTES];

impl Agent {
    /// Turns a request to the PMA into its response.
    pub(super) fn answer_performance(&mut self, mad: &mut [u8], hardware: &dyn Hardware) -> Answer {
        let header = Header::view(mad);
        let method = header.method();
        if method == Method::TRAP_REPRESS {
            return Answer::None;
        }
        let status = if header.base_version() != Header::BASE_VERSION || header.class_version() != 1 {
            Status::BAD_VERSION
        } else if !matches!(method, Method::GET | Method::SET) {
            Status::METHOD_NOT_SUPPORTED
        } else {
            let (attribute, is_set) = (header.attribute_id(), method == Method::SET);
            match self.counters(attribute, is_set, &PerformanceMad::view(mad).data(), hardware) {
                Ok(data) => {
                    PerformanceMad::view_mut(mad).data(data);
                    Status::SUCCESS
                }
                Err(Refusal::Silent) => return Answer::None,
                Err(Refusal::Status(status)) => status,
            }
        };
        Header::view_mut(mad).method(response_to(method)).status(status);
        Answer::Response
    }

    fn counters(&mut self, attribute: AttributeId, is_set: bool, request: &Data, hardware: &dyn Hardware) -> Result<Data, Refusal> {
        let mut data = [0; DATA_BYTES];
        match attribute {
            AttributeId::CLASS_PORT_INFO if !is_set => class_port_info().emit(&mut data),
            AttributeId::PORT_COUNTERS => {
                let request = PortCounters::parse(request).map_err(|_| Status::INVALID_FIELD)?;
                let ports = self.selected(request.port_select)?;
                if is_set {
                    ports.iter().for_each(|port| self.reset_narrow(*port, &request, hardware));
                }
                self.narrow(&ports, request.port_select, hardware).emit(&mut data);
            }
            AttributeId::PORT_COUNTERS_EXTENDED => {
                let request = PortCountersExtended::parse(request).map_err(|_| Status::INVALID_FIELD)?;
                let ports = self.selected(request.port_select)?;
                if is_set {
                    ports.iter().for_each(|port| self.reset_wide(*port, request.counter_select, hardware));
                }
                self.wide(&ports, request.port_select, hardware).emit(&mut data);
            }
            _ => return self.details(attribute, is_set, request, hardware),
        }
        Ok(data)
    }

    /// Returns the counters of a port, as both attributes state them.
    pub fn statistics(&self, port: PortNumber, hardware: &dyn Hardware) -> (PortCounters, PortCountersExtended) {
        (self.narrow(&[port.0], port, hardware), self.wide(&[port.0], port, hardware))
    }

    /// Returns the ports that a request selects.
    pub(super) fn selected(&self, port: PortNumber) -> Result<Vec<u8>, Refusal> {
        let first = if self.facts.is_switch() { 0 } else { 1 };
        match port.0 {
            ALL_PORTS => Ok((first..=self.facts.ports).collect()),
            port if (first..=self.facts.ports).contains(&port) => Ok(vec![port]),
            _ => Err(Status::INVALID_FIELD.into()),
        }
    }

    fn narrow(&self, ports: &[u8], port_select: PortNumber, hardware: &dyn Hardware) -> PortCounters {
        let mut sum = Tally::default();
        let mut dropped = 0;
        for port in ports {
            let registers = &self.ports[usize::from(*port)];
            sum.add(&hardware.tally(*port).since(&registers.resets.narrow));
            dropped += u64::from(registers.vl15_dropped) - registers.resets.narrow_dropped;
        }
        // A counter stops at its largest value (IBTA 16.1.3.5).
        PortCounters {
            port_select,
            symbol_error_counter: narrowed(sum.symbol_errors),
            link_error_recovery_counter: narrowed(sum.link_error_recoveries),
            link_downed_counter: narrowed(sum.link_downed),
            port_rcv_errors: narrowed(sum.rcv_errors),
            port_xmit_discards: narrowed(sum.xmit_discards),
            port_rcv_switch_relay_errors: narrowed(sum.rcv_switch_relay_errors),
            port_rcv_constraint_errors: narrowed(sum.rcv_constraint_errors),
            port_xmit_constraint_errors: narrowed(sum.xmit_constraint_errors),
            vl15_dropped: narrowed(dropped),
            port_xmit_data: narrowed(sum.xmit_data),
            port_rcv_data: narrowed(sum.rcv_data),
            port_xmit_pkts: narrowed(sum.xmit_pkts),
            port_rcv_pkts: narrowed(sum.rcv_pkts),
            port_xmit_wait: narrowed(sum.xmit_wait),
            ..PortCounters::default()
        }
    }

    fn wide(&self, ports: &[u8], port_select: PortNumber, hardware: &dyn Hardware) -> PortCountersExtended {
        let mut sum = Tally::default();
        for port in ports {
            sum.add(&hardware.tally(*port).since(&self.ports[usize::from(*port)].resets.wide));
        }
        PortCountersExtended {
            port_select,
            port_xmit_data: sum.xmit_data,
            port_rcv_data: sum.rcv_data,
            port_xmit_pkts: sum.xmit_pkts,
            port_rcv_pkts: sum.rcv_pkts,
            port_unicast_xmit_pkts: sum.unicast_xmit_pkts,
            port_unicast_rcv_pkts: sum.unicast_rcv_pkts,
            port_multicast_xmit_pkts: sum.multicast_xmit_pkts,
            port_multicast_rcv_pkts: sum.multicast_rcv_pkts,
            ..PortCountersExtended::default()
        }
    }

    fn reset_narrow(&mut self, port: u8, request: &PortCounters, hardware: &dyn Hardware) {
        let now = hardware.tally(port);
        let registers = &mut self.ports[usize::from(port)];
        let (resets, select) = (&mut registers.resets, request.counter_select);
        let marks = [
            (CounterSelect::SYMBOL_ERROR_COUNTER, &mut resets.narrow.symbol_errors, now.symbol_errors),
            (CounterSelect::LINK_ERROR_RECOVERY_COUNTER, &mut resets.narrow.link_error_recoveries, now.link_error_recoveries),
            (CounterSelect::LINK_DOWNED_COUNTER, &mut resets.narrow.link_downed, now.link_downed),
            (CounterSelect::PORT_RCV_ERRORS, &mut resets.narrow.rcv_errors, now.rcv_errors),
            (CounterSelect::PORT_XMIT_DISCARDS, &mut resets.narrow.xmit_discards, now.xmit_discards),
            (CounterSelect::PORT_RCV_SWITCH_RELAY_ERRORS, &mut resets.narrow.rcv_switch_relay_errors, now.rcv_switch_relay_errors),
            (CounterSelect::PORT_RCV_CONSTRAINT_ERRORS, &mut resets.narrow.rcv_constraint_errors, now.rcv_constraint_errors),
            (CounterSelect::PORT_XMIT_CONSTRAINT_ERRORS, &mut resets.narrow.xmit_constraint_errors, now.xmit_constraint_errors),
            (CounterSelect::VL15_DROPPED, &mut resets.narrow_dropped, u64::from(registers.vl15_dropped)),
            (CounterSelect::PORT_XMIT_DATA, &mut resets.narrow.xmit_data, now.xmit_data),
            (CounterSelect::PORT_RCV_DATA, &mut resets.narrow.rcv_data, now.rcv_data),
            (CounterSelect::PORT_XMIT_PKTS, &mut resets.narrow.xmit_pkts, now.xmit_pkts),
            (CounterSelect::PORT_RCV_PKTS, &mut resets.narrow.rcv_pkts, now.rcv_pkts),
        ];
        for (_, mark, now) in marks.into_iter().filter(|(flag, ..)| select.contains(*flag)) {
            *mark = now;
        }
        if request.counter_select2.contains(CounterSelect2::PORT_XMIT_WAIT) {
            resets.narrow.xmit_wait = now.xmit_wait;
        }
    }

    fn reset_wide(&mut self, port: u8, select: ExtendedCounterSelect, hardware: &dyn Hardware) {
        let now = hardware.tally(port);
        let wide = &mut self.ports[usize::from(port)].resets.wide;
        let marks = [
            (ExtendedCounterSelect::PORT_XMIT_DATA, &mut wide.xmit_data, now.xmit_data),
            (ExtendedCounterSelect::PORT_RCV_DATA, &mut wide.rcv_data, now.rcv_data),
            (ExtendedCounterSelect::PORT_XMIT_PKTS, &mut wide.xmit_pkts, now.xmit_pkts),
            (ExtendedCounterSelect::PORT_RCV_PKTS, &mut wide.rcv_pkts, now.rcv_pkts),
            (ExtendedCounterSelect::PORT_UNICAST_XMIT_PKTS, &mut wide.unicast_xmit_pkts, now.unicast_xmit_pkts),
            (ExtendedCounterSelect::PORT_UNICAST_RCV_PKTS, &mut wide.unicast_rcv_pkts, now.unicast_rcv_pkts),
            (ExtendedCounterSelect::PORT_MULTICAST_XMIT_PKTS, &mut wide.multicast_xmit_pkts, now.multicast_xmit_pkts),
            (ExtendedCounterSelect::PORT_MULTICAST_RCV_PKTS, &mut wide.multicast_rcv_pkts, now.multicast_rcv_pkts),
        ];
        for (_, mark, now) in marks.into_iter().filter(|(flag, ..)| select.contains(*flag)) {
            *mark = now;
        }
    }
}

fn class_port_info() -> ClassPortInfo {
    let capabilities = PerformanceCapabilities::ALL_PORT_SELECT
        | PerformanceCapabilities::IS_EXTENDED_WIDTH_SUPPORTED
        | PerformanceCapabilities::PORT_COUNTERS_XMIT_WAIT_SUPPORTED;
    ClassPortInfo { base_version: 1, class_version: 1, capability_mask: capabilities.0, resp_time_value: RESPONSE_TIME, ..ClassPortInfo::default() }
}

/// Returns a count in a counter that stops at its largest value.
pub(super) fn narrowed<T: Bounded>(count: u64) -> T {
    T::try_from(count).unwrap_or(T::LARGEST)
}

/// Integer with a largest value, at which a counter stops.
pub(super) trait Bounded: TryFrom<u64> {
    const LARGEST: Self;
}

impl Bounded for u8 {
    const LARGEST: Self = Self::MAX;
}

impl Bounded for u16 {
    const LARGEST: Self = Self::MAX;
}

impl Bounded for u32 {
    const LARGEST: Self = Self::MAX;
}
