//! The hardware of a node, as its agents read and change it.

use crate::link::Sl2Vl;
use softband_types::{Lid, LinkRate, Mtu, OperationalVls, PKey};

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
    /// PortXmitWait.
    pub xmit_wait: u64,
}

/// Reads and changes a node's hardware. Ports count from 1. Port 0 is a switch's own port, and no
/// port of an HCA.
pub trait Hardware {
    /// Returns the link of a port; `None` without a cable or while the link is down.
    fn link(&self, port: u8) -> Option<LinkView>;
    /// Returns the LID of a port of an HCA, or of port 0.
    fn lid(&self, port: u8) -> Lid;
    /// Gives a port of an HCA, or port 0, a LID.
    fn set_lid(&mut self, port: u8, lid: Lid);
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
    /// Returns the counts of a port.
    fn tally(&self, port: u8) -> Tally;
}
