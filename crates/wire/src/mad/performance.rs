//! Performance management (IBTA 16.1): counters of ports.

use super::codes::{code, flags};
use super::header::Header;
use super::layout::layout;
use softband_types::PortNumber;

layout! {
    /// A datagram of performance management (IBTA 16.1.1).
    pub struct PerformanceMad: 256 bytes {
        /// The header, with the class
        /// [`ManagementClass::PERFORMANCE`](super::ManagementClass::PERFORMANCE).
        header: Header @ 0, 192;
        /// The attribute.
        data: [u8; 192] @ 512, 1536;
    }
}

flags! {
    /// Abilities in [`ClassPortInfo`](super::ClassPortInfo) of performance management (IBTA
    /// 16.1.2.1).
    pub struct PerformanceCapabilities(u16) {
        /// The agent sends traps.
        IS_TRAP_SUPPORTED = 1 << 0;
        /// The agent answers Get and Set of Notice.
        IS_GET_SET_NOTICE_SUPPORTED = 1 << 1;
        /// PortSelect 255 selects all ports.
        ALL_PORT_SELECT = 1 << 8;
        /// All counters of PortCountersExtended are supported.
        IS_EXTENDED_WIDTH_SUPPORTED = 1 << 9;
        /// PortCountersExtended is supported, without unicast and multicast counters.
        IS_EXTENDED_WIDTH_SUPPORTED_NO_IETF = 1 << 10;
        /// Counters exist that only sampling reads.
        SAMPLES_ONLY_SUPPORTED = 1 << 11;
        /// PortCounters contains PortXmitWait.
        PORT_COUNTERS_XMIT_WAIT_SUPPORTED = 1 << 12;
    }
}

layout! {
    /// Counters of a port (IBTA 16.1.3.5). They stop at their largest value. In a request to set
    /// them, the flags select counters. In a response, flags have no meaning.
    pub struct PortCounters: 44 bytes {
        /// The port, or 255 for all ports.
        port_select: PortNumber @ 8, 8;
        /// Counters that the request sets.
        counter_select: CounterSelect @ 16, 16;
        /// Symbol errors of all lanes.
        symbol_error_counter: u16 @ 32, 16;
        /// Times that the link recovered.
        link_error_recovery_counter: u8 @ 48, 8;
        /// Times that the link went down.
        link_downed_counter: u8 @ 56, 8;
        /// Packets with an error.
        port_rcv_errors: u16 @ 64, 16;
        /// Packets that the sender marked as bad.
        port_rcv_remote_physical_errors: u16 @ 80, 16;
        /// Packets that the switch could not forward.
        port_rcv_switch_relay_errors: u16 @ 96, 16;
        /// Packets that the port discarded instead of sending.
        port_xmit_discards: u16 @ 112, 16;
        /// Packets that the port did not send because of a rule.
        port_xmit_constraint_errors: u8 @ 128, 8;
        /// Packets that the port discarded because of a rule.
        port_rcv_constraint_errors: u8 @ 136, 8;
        /// More counters that the request sets.
        counter_select2: CounterSelect2 @ 144, 8;
        /// Times that the link had many errors.
        local_link_integrity_errors: u8 @ 152, 4;
        /// Times that a buffer overran often.
        excessive_buffer_overrun_errors: u8 @ 156, 4;
        /// Packets to QP 1 that the port discarded.
        qp1_dropped: u16 @ 160, 16;
        /// Packets on VL 15 that the port discarded.
        vl15_dropped: u16 @ 176, 16;
        /// Sent data, without packets of VL 15, in units of 4 bytes.
        port_xmit_data: u32 @ 192, 32;
        /// Received data, without packets of VL 15, in units of 4 bytes.
        port_rcv_data: u32 @ 224, 32;
        /// Sent packets, without VL 15.
        port_xmit_pkts: u32 @ 256, 32;
        /// Received packets, without VL 15.
        port_rcv_pkts: u32 @ 288, 32;
        /// Time with data to send but without credits, in ticks.
        port_xmit_wait: u32 @ 320, 32;
    }
}

flags! {
    /// Counters of [`PortCounters`] that a request sets.
    pub struct CounterSelect(u16) {
        /// SymbolErrorCounter.
        SYMBOL_ERROR_COUNTER = 1 << 0;
        /// LinkErrorRecoveryCounter.
        LINK_ERROR_RECOVERY_COUNTER = 1 << 1;
        /// LinkDownedCounter.
        LINK_DOWNED_COUNTER = 1 << 2;
        /// PortRcvErrors.
        PORT_RCV_ERRORS = 1 << 3;
        /// PortRcvRemotePhysicalErrors.
        PORT_RCV_REMOTE_PHYSICAL_ERRORS = 1 << 4;
        /// PortRcvSwitchRelayErrors.
        PORT_RCV_SWITCH_RELAY_ERRORS = 1 << 5;
        /// PortXmitDiscards.
        PORT_XMIT_DISCARDS = 1 << 6;
        /// PortXmitConstraintErrors.
        PORT_XMIT_CONSTRAINT_ERRORS = 1 << 7;
        /// PortRcvConstraintErrors.
        PORT_RCV_CONSTRAINT_ERRORS = 1 << 8;
        /// LocalLinkIntegrityErrors.
        LOCAL_LINK_INTEGRITY_ERRORS = 1 << 9;
        /// ExcessiveBufferOverrunErrors.
        EXCESSIVE_BUFFER_OVERRUN_ERRORS = 1 << 10;
        /// VL15Dropped.
        VL15_DROPPED = 1 << 11;
        /// PortXmitData.
        PORT_XMIT_DATA = 1 << 12;
        /// PortRcvData.
        PORT_RCV_DATA = 1 << 13;
        /// PortXmitPkts.
        PORT_XMIT_PKTS = 1 << 14;
        /// PortRcvPkts.
        PORT_RCV_PKTS = 1 << 15;
    }
}

flags! {
    /// More counters of [`PortCounters`] that a request sets.
    pub struct CounterSelect2(u8) {
        /// PortXmitWait.
        PORT_XMIT_WAIT = 1 << 0;
        /// QP1Dropped.
        QP1_DROPPED = 1 << 1;
    }
}

layout! {
    /// Wide counters of a port (IBTA 16.1.4.11). The counters from `symbol_error_counter` on need
    /// an ability of the agent. Other agents leave them 0.
    pub struct PortCountersExtended: 184 bytes {
        /// The port, or 255 for all ports.
        port_select: PortNumber @ 8, 8;
        /// Counters that the request sets.
        counter_select: ExtendedCounterSelect @ 16, 16;
        /// Counters from `symbol_error_counter` on that the request sets: bit n is the counter n.
        counter_select2: u32 @ 32, 32;
        /// Sent data, without packets of VL 15, in units of 4 bytes.
        port_xmit_data: u64 @ 64, 64;
        /// Received data, without packets of VL 15, in units of 4 bytes.
        port_rcv_data: u64 @ 128, 64;
        /// Sent packets, without VL 15.
        port_xmit_pkts: u64 @ 192, 64;
        /// Received packets, without VL 15.
        port_rcv_pkts: u64 @ 256, 64;
        /// Sent unicast packets.
        port_unicast_xmit_pkts: u64 @ 320, 64;
        /// Received unicast packets.
        port_unicast_rcv_pkts: u64 @ 384, 64;
        /// Sent multicast packets.
        port_multicast_xmit_pkts: u64 @ 448, 64;
        /// Received multicast packets.
        port_multicast_rcv_pkts: u64 @ 512, 64;
        /// Symbol errors of all lanes.
        symbol_error_counter: u64 @ 576, 64;
        /// Times that the link recovered.
        link_error_recovery_counter: u64 @ 640, 64;
        /// Times that the link went down.
        link_downed_counter: u64 @ 704, 64;
        /// Packets with an error.
        port_rcv_errors: u64 @ 768, 64;
        /// Packets that the sender marked as bad.
        port_rcv_remote_physical_errors: u64 @ 832, 64;
        /// Packets that the switch could not forward.
        port_rcv_switch_relay_errors: u64 @ 896, 64;
        /// Packets that the port discarded instead of sending.
        port_xmit_discards: u64 @ 960, 64;
        /// Packets that the port did not send because of a rule.
        port_xmit_constraint_errors: u64 @ 1024, 64;
        /// Packets that the port discarded because of a rule.
        port_rcv_constraint_errors: u64 @ 1088, 64;
        /// Times that the link had many errors.
        local_link_integrity_errors: u64 @ 1152, 64;
        /// Times that a buffer overran often.
        excessive_buffer_overrun_errors: u64 @ 1216, 64;
        /// Packets on VL 15 that the port discarded.
        vl15_dropped: u64 @ 1280, 64;
        /// Time with data to send but without credits, in ticks.
        port_xmit_wait: u64 @ 1344, 64;
        /// Packets to QP 1 that the port discarded.
        qp1_dropped: u64 @ 1408, 64;
    }
}

flags! {
    /// Counters of [`PortCountersExtended`] that a request sets.
    pub struct ExtendedCounterSelect(u16) {
        /// PortXmitData.
        PORT_XMIT_DATA = 1 << 0;
        /// PortRcvData.
        PORT_RCV_DATA = 1 << 1;
        /// PortXmitPkts.
        PORT_XMIT_PKTS = 1 << 2;
        /// PortRcvPkts.
        PORT_RCV_PKTS = 1 << 3;
        /// PortUnicastXmitPkts.
        PORT_UNICAST_XMIT_PKTS = 1 << 4;
        /// PortUnicastRcvPkts.
        PORT_UNICAST_RCV_PKTS = 1 << 5;
        /// PortMulticastXmitPkts.
        PORT_MULTICAST_XMIT_PKTS = 1 << 6;
        /// PortMulticastRcvPkts.
        PORT_MULTICAST_RCV_PKTS = 1 << 7;
    }
}

layout! {
    /// Reasons of PortRcvErrors and PortRcvSwitchRelayErrors (IBTA 16.1.4). In a request to set
    /// them, bit n selects counter n.
    pub struct PortRcvErrorDetails: 16 bytes {
        /// The port, or 255 for all ports.
        port_select: PortNumber @ 8, 8;
        /// Counters that the request sets.
        counter_select: u16 @ 16, 16;
        /// Packets with a bad check value or code.
        port_local_physical_errors: u16 @ 32, 16;
        /// Packets with a bad header or length.
        port_malformed_packet_errors: u16 @ 48, 16;
        /// Packets for which the buffer had no room.
        port_buffer_overrun_errors: u16 @ 64, 16;
        /// Packets to a LID without an entry in the forwarding table.
        port_dlid_mapping_errors: u16 @ 80, 16;
        /// Packets without a lane at their output.
        port_vl_mapping_errors: u16 @ 96, 16;
        /// Packets whose output is the port by which they came.
        port_looping_errors: u16 @ 112, 16;
    }
}

layout! {
    /// Reasons of PortXmitDiscards (IBTA 16.1.4). In a request to set them, bit n selects counter n.
    pub struct PortXmitDiscardDetails: 12 bytes {
        /// The port, or 255 for all ports.
        port_select: PortNumber @ 8, 8;
        /// Counters that the request sets.
        counter_select: u16 @ 16, 16;
        /// Packets for a port that was not active.
        port_inactive_discards: u16 @ 32, 16;
        /// Packets larger than the neighbor's MTU.
        port_neighbor_mtu_discards: u16 @ 48, 16;
        /// Packets that stayed too long in the switch.
        port_sw_lifetime_limit_discards: u16 @ 64, 16;
        /// Packets that waited too long at the head of their queue.
        port_sw_hoq_lifetime_limit_discards: u16 @ 80, 16;
    }
}

layout! {
    /// Time with data to send but without credits, for each lane (IBTA 16.1.4). In a request to set
    /// them, bit n selects the counter of lane n.
    pub struct PortVlXmitWaitCounters: 36 bytes {
        /// The port, or 255 for all ports.
        port_select: PortNumber @ 8, 8;
        /// Counters that the request sets.
        counter_select: u16 @ 16, 16;
        /// Ticks that each lane has waited.
        port_vl_xmit_wait: [u16; 16] @ 32, 256;
    }
}

layout! {
    /// Received marks of congestion (IBTA annex A10). In a request to set them, bit n selects counter
    /// n.
    pub struct PortRcvConCtrl: 12 bytes {
        /// The port, or 255 for all ports.
        port_select: PortNumber @ 8, 8;
        /// Counters that the request sets.
        counter_select: u16 @ 16, 16;
        /// Packets that arrived with a FECN.
        port_pkt_rcv_fecn: u32 @ 32, 32;
        /// Packets that arrived with a BECN.
        port_pkt_rcv_becn: u32 @ 64, 32;
    }
}

layout! {
    /// Time in congestion (IBTA annex A10). In a request to set it, bit 0 selects the counter.
    pub struct PortXmitConCtrl: 8 bytes {
        /// The port, or 255 for all ports.
        port_select: PortNumber @ 8, 8;
        /// Counters that the request sets.
        counter_select: u16 @ 16, 16;
        /// Ticks spent sending packets of congested lanes.
        port_xmit_time_cong: u32 @ 32, 32;
    }
}

layout! {
    /// Controls a sampling of counters (IBTA 16.1.3.2).
    pub struct PortSamplesControl: 80 bytes {
        /// Operation, by the vendor; 0 samples.
        op_code: u8 @ 0, 8;
        /// The port.
        port_select: PortNumber @ 8, 8;
        /// Tick of the sampling clock: an exponent, by the device.
        tick: u8 @ 16, 8;
        /// Width of the counters, as a code.
        counter_width: u8 @ 29, 3;
        /// Kinds of counters that counter 0 can sample.
        counter_mask_0: u8 @ 34, 3;
        /// Kinds of counters that counters 1 to 9 can sample, with 3 bits each.
        counter_masks_1_to_9: u32 @ 37, 27;
        /// Kinds of counters that counters 10 to 14 can sample, with 3 bits each.
        counter_masks_10_to_14: u16 @ 65, 15;
        /// Number of sampling mechanisms beside this.
        sample_mechanisms: u8 @ 80, 8;
        /// State of the sampling.
        sample_status: SampleStatus @ 94, 2;
        /// Optional counters that the port can sample.
        option_mask: u64 @ 96, 64;
        /// Counters of the vendor that the port can sample.
        vendor_mask: u64 @ 160, 64;
        /// Ticks until the start of the sampling.
        sample_start: u32 @ 224, 32;
        /// Length of the sampling in ticks.
        sample_interval: u32 @ 256, 32;
        /// Number that the result repeats.
        tag: u16 @ 288, 16;
        /// Counters to sample.
        counter_select: [u16; 15] @ 304, 240;
        /// Optional counters that only sampling reads.
        samples_only_option_mask: u64 @ 576, 64;
    }
}

code! {
    /// State of a sampling.
    pub struct SampleStatus(u8) {
        /// The result is ready.
        DONE = 0;
        /// The start is not reached.
        START_TIMER_RUNNING = 1;
        /// The sampling runs.
        SAMPLING = 2;
    }
}

layout! {
    /// Result of a sampling (IBTA 16.1.3.4).
    pub struct PortSamplesResult: 64 bytes {
        /// Number of the request.
        tag: u16 @ 0, 16;
        /// State of the sampling.
        sample_status: SampleStatus @ 30, 2;
        /// The sampled counters.
        counters: [u32; 15] @ 32, 480;
    }
}

#[cfg(test)]
mod tests {
    use super::{
        CounterSelect, CounterSelect2, ExtendedCounterSelect, PortCounters, PortCountersExtended, PortRcvErrorDetails, PortSamplesControl,
        PortVlXmitWaitCounters,
    };
    use crate::mad::Layout;
    use softband_types::PortNumber;

    #[test]
    fn counters_are_read_as_in_the_specification() {
        let mut bytes = [0; 44];
        bytes[1..4].copy_from_slice(&[3, 0xF0, 0x01]);
        bytes[4..8].copy_from_slice(&[0, 9, 2, 1]);
        bytes[18..20].copy_from_slice(&[0x01, 0x35]);
        bytes[24..28].copy_from_slice(&[0, 1, 0, 0]);
        bytes[40..].copy_from_slice(&[0, 0, 0, 7]);
        let counters = PortCounters::parse(&bytes).unwrap();
        assert_eq!(counters.port_select, PortNumber(3));
        assert!(counters.counter_select.contains(CounterSelect::PORT_RCV_PKTS | CounterSelect::SYMBOL_ERROR_COUNTER));
        assert_eq!((counters.symbol_error_counter, counters.link_error_recovery_counter, counters.link_downed_counter), (9, 2, 1));
        assert_eq!((counters.counter_select2, counters.local_link_integrity_errors), (CounterSelect2::PORT_XMIT_WAIT, 3));
        assert_eq!((counters.excessive_buffer_overrun_errors, counters.port_xmit_data, counters.port_xmit_wait), (5, 0x1_0000, 7));
        assert_eq!(counters.to_bytes(), bytes);
    }

    #[test]
    fn wide_counters_begin_after_eight_bytes() {
        let select = ExtendedCounterSelect::PORT_MULTICAST_RCV_PKTS;
        let counters = PortCountersExtended { counter_select: select, port_xmit_data: 1, port_multicast_rcv_pkts: 2, ..Default::default() };
        let bytes = counters.to_bytes();
        assert_eq!((bytes[3], bytes[15], bytes[71]), (0x80, 1, 2));
    }

    #[test]
    fn details_begin_after_the_selection_of_counters() {
        let details = PortRcvErrorDetails { port_select: PortNumber(3), counter_select: 0x21, port_looping_errors: 7, ..Default::default() };
        let bytes = details.to_bytes();
        assert_eq!((&bytes[1..4], &bytes[14..16]), (&[3, 0, 0x21][..], &[0, 7][..]));
        let waits = PortVlXmitWaitCounters { port_vl_xmit_wait: std::array::from_fn(|lane| lane as u16), ..Default::default() };
        assert_eq!((waits.to_bytes()[5], waits.to_bytes()[7], waits.to_bytes()[35]), (0, 1, 15));
    }

    #[test]
    fn a_sampling_selects_up_to_fifteen_counters() {
        let mut control = PortSamplesControl { tag: 0x0102, ..Default::default() };
        control.counter_select[14] = 0x0304;
        let bytes = control.to_bytes();
        assert_eq!((&bytes[36..38], &bytes[66..68]), (&[1, 2][..], &[3, 4][..]));
    }
}
