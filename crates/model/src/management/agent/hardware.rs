//! The hardware of a node, as its agents read and change it.

use crate::link::{ArbitrationTables, Sl2Vl};
use crate::switch::LifetimeCode;
use softband_types::{Lid, LinkRate, Mtu, OperationalVls, PKey, PortLids};

/// A link that is up, as one of its ends sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkView {
    /// Width and speed in use.
    pub rate: LinkRate,
    /// Largest packet that the port sends (NeighborMTU).
    pub mtu: Mtu,
    /// Data lanes in operation (OperationalVLs).
    pub vls: OperationalVls,
}

/// Counts of a port since the fabric began (IBTA 16.1.3.5, PortCountersExtended). Data in words of
/// 4 bytes, waits in symbol times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// PortXmitData.
    pub xmit_data: u64,
    /// PortRcvData.
    pub rcv_data: u64,
    /// PortXmitPkts.
    pub xmit_pkts: u64,
    /// PortRcvPkts.
    pub rcv_pkts: u64,
    /// PortUnicastXmitPkts.
    pub unicast_xmit_pkts: u64,
    /// PortUnicastRcvPkts.
    pub unicast_rcv_pkts: u64,
    /// PortMulticastXmitPkts.
    pub multicast_xmit_pkts: u64,
    /// PortMulticastRcvPkts.
    pub multicast_rcv_pkts: u64,
    /// SymbolErrorCounter.
    pub symbol_errors: u64,
    /// LinkErrorRecoveryCounter.
    pub link_error_recoveries: u64,
    /// LinkDownedCounter.
    pub link_downed: u64,
    /// PortRcvErrors.
    pub rcv_errors: u64,
    /// PortXmitDiscards.
    pub xmit_discards: u64,
    /// PortRcvSwitchRelayErrors.
    pub rcv_switch_relay_errors: u64,
    /// PortRcvConstraintErrors.
    pub rcv_constraint_errors: u64,
    /// PortXmitConstraintErrors.
    pub xmit_constraint_errors: u64,
    /// PortXmitWait.
    pub xmit_wait: u64,
}

impl Tally {
    /// Returns the counts since an earlier moment.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    /// Adds the counts of another port.
    pub(super) fn add(&mut self, other: &Self) {
        *self = self.with(other, u64::saturating_add);
    }

    fn with(&self, other: &Self, combine: fn(u64, u64) -> u64) -> Self {
        Self {
            xmit_data: combine(self.xmit_data, other.xmit_data),
            rcv_data: combine(self.rcv_data, other.rcv_data),
            xmit_pkts: combine(self.xmit_pkts, other.xmit_pkts),
            rcv_pkts: combine(self.rcv_pkts, other.rcv_pkts),
            unicast_xmit_pkts: combine(self.unicast_xmit_pkts, other.unicast_xmit_pkts),
            unicast_rcv_pkts: combine(self.unicast_rcv_pkts, other.unicast_rcv_pkts),
            multicast_xmit_pkts: combine(self.multicast_xmit_pkts, other.multicast_xmit_pkts),
            multicast_rcv_pkts: combine(self.multicast_rcv_pkts, other.multicast_rcv_pkts),
            symbol_errors: combine(self.symbol_errors, other.symbol_errors),
            link_error_recoveries: combine(self.link_error_recoveries, other.link_error_recoveries),
            link_downed: combine(self.link_downed, other.link_downed),
            rcv_errors: combine(self.rcv_errors, other.rcv_errors),
            xmit_discards: combine(self.xmit_discards, other.xmit_discards),
            rcv_switch_relay_errors: combine(self.rcv_switch_relay_errors, other.rcv_switch_relay_errors),
            rcv_constraint_errors: combine(self.rcv_constraint_errors, other.rcv_constraint_errors),
            xmit_constraint_errors: combine(self.xmit_constraint_errors, other.xmit_constraint_errors),
            xmit_wait: combine(self.xmit_wait, other.xmit_wait),
        }
    }
}

/// Details of a port's counts since the fabric began, in the order of their attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// PortRcvErrorDetails: physical, malformed, overrun, DLID mapping, VL mapping, looping.
    pub rcv_errors: [u64; 6],
    /// PortXmitDiscardDetails: inactive, neighbor MTU, lifetime limit, lifetime limit at the head.
    pub xmit_discards: [u64; 4],
    /// PortVLXmitWait of each lane, in symbol times.
    pub lane_waits: [u64; 16],
    /// PortRcvConCtrl: packets with a FECN, and with a BECN.
    pub rcv_marks: [u64; 2],
    /// PortXmitConCtrl, in symbol times.
    pub time_congested: [u64; 1],
}

/// Reads and changes a node's hardware. Ports count from 1. Port 0 is a switch's own port, and no
/// port of an HCA.
pub trait Hardware {
    /// Returns the link of a port; `None` without a cable or while the link is down.
    fn link(&self, port: u8) -> Option<LinkView>;
    /// Sets the largest packet and the lanes of a port. The port may keep the former values while
    /// data is under way.
    fn configure(&mut self, port: u8, mtu: Mtu, vls: OperationalVls);
    /// Lets a port send data, or makes it discard all.
    fn let_data_pass(&mut self, port: u8, passes: bool);
    /// Returns the LIDs of a port of an HCA, or of port 0.
    fn lids(&self, port: u8) -> PortLids;
    /// Returns the first LID of a port of an HCA, or the LID of port 0.
    fn lid(&self, port: u8) -> Lid {
        self.lids(port).base
    }
    /// Gives a port of an HCA, or port 0, LIDs.
    fn set_lids(&mut self, port: u8, lids: PortLids);
    /// Returns the output of a switch for a unicast LID. Port 0 is the switch itself.
    fn route(&self, lid: Lid) -> Option<u8>;
    /// Sets the output of a switch for a unicast LID; `None` removes the entry.
    fn set_route(&mut self, lid: Lid, output: Option<u8>);
    /// Returns the outputs of a switch for a multicast LID, in order.
    fn multicast_outputs(&self, mlid: Lid) -> Vec<u8>;
    /// Returns the partition keys of a port.
    fn pkeys(&self, port: u8) -> Vec<PKey>;
    /// Returns the lanes of the service levels for packets from a port to another.
    fn lanes(&self, input: u8, output: u8) -> Sl2Vl;
    /// Sets the outputs of a switch for a multicast LID, among the 16 ports from `first` on.
    fn set_multicast_outputs(&mut self, mlid: Lid, first: u8, mask: u16);
    /// Sets the partition keys of a port.
    fn set_pkeys(&mut self, port: u8, keys: Vec<PKey>);
    /// Lets a port of a switch check the partition keys of packets that come in and go out.
    fn enforce_partitions(&mut self, port: u8, inbound: bool, outbound: bool);
    /// Sets the lanes of the service levels for packets from a port to another.
    fn set_lanes(&mut self, input: u8, output: u8, lanes: Sl2Vl);
    /// Sets the arbitration tables of a port.
    fn set_weights(&mut self, port: u8, tables: &ArbitrationTables);
    /// Returns the limit of a switch's port for packets at the head of a lane (HOQLife).
    fn head_lifetime(&self, port: u8) -> LifetimeCode;
    /// Sets the limit of a switch's port for packets at the head of a lane. Ports of HCAs have none.
    fn set_head_lifetime(&mut self, port: u8, limit: LifetimeCode);
    /// Returns the limit for the stay of packets in the switch (LifeTimeValue).
    fn packet_lifetime(&self) -> LifetimeCode;
    /// Sets the limit for the stay of packets in the switch.
    fn set_packet_lifetime(&mut self, limit: LifetimeCode);
    /// Returns the counts of a port.
    fn tally(&self, port: u8) -> Tally;
    /// Returns details of the counts of a port.
    fn details(&self, port: u8) -> Details;
}
