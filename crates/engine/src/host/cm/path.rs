//! Ports of hosts, paths between them, and packets on these paths.

use softband_model::management::ManagementPacket;
use softband_types::{Gid, Guid, HcaId, Lid, PKey, PortNumber, QKey, Qpn, ServiceLevel};
use softband_wire::mad::{AttributeId, CmMad, Header, Layout, ManagementClass, Method, MtuCode, RateCode};

/// A port, by its HCA.
pub(crate) type Port = (HcaId, PortNumber);

/// Q_Key of QP 1 (IBTA 3.5.3).
pub(super) const GENERAL_QKEY: QKey = QKey(0x8001_0000);
/// Hop limit of IP packets (`IPV6_DEFAULT_HOPLIMIT` of the kernel).
pub(super) const HOP_LIMIT: u8 = 64;
/// Version of the class of communication management (IBTA 12.6.2).
const CLASS_VERSION: u8 = 2;

/// The facts about a port of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalPort {
    pub(crate) host: usize,
    pub(crate) hca: HcaId,
    pub(crate) port: PortNumber,
    /// On Ethernet, the number by which the fabric knows the port. Programs never see it.
    pub(crate) lid: Lid,
    pub(crate) gid: Gid,
    /// Index of `gid` in the port's table.
    pub(crate) gid_index: u8,
    /// IPv4 address of the port's interface, on Ethernet only.
    pub(crate) interface: Option<u32>,
    pub(crate) node_guid: Guid,
    /// Key of the partition that its packets belong to, with its index in the port's table.
    pub(crate) pkey: PKey,
    pub(crate) pkey_index: u16,
    /// LID of the subnet manager that has configured the port.
    pub(crate) sm_lid: Lid,
}

impl LocalPort {
    /// Returns whether packets of the port find their way by IP addresses (RoCE v2, IBTA annex A17).
    pub(super) fn is_ethernet(&self) -> bool {
        self.interface.is_some()
    }
}

/// A path from a port to another, as a path record states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) source: LocalPort,
    pub(crate) dlid: Lid,
    pub(crate) dgid: Gid,
    pub(crate) service_level: ServiceLevel,
    pub(crate) mtu: MtuCode,
    pub(crate) rate: RateCode,
    /// Longest time of a packet: code n is 4.096 us x 2^n.
    pub(crate) packet_life_time: u8,
    /// Traffic class of the IP header, on Ethernet only.
    pub(crate) traffic_class: u8,
}

impl Path {
    /// Returns the hop limit of the path's packets. 0 stands for a path without a global route.
    pub(super) fn hop_limit(&self) -> u8 {
        if self.source.is_ethernet() { HOP_LIMIT } else { 0 }
    }

    /// Returns the LIDs of the source and of the destination. A path on Ethernet has none.
    pub(super) fn lids(&self) -> [Lid; 2] {
        if self.source.is_ethernet() { [Lid::NONE; 2] } else { [self.source.lid, self.dlid] }
    }
}

/// Returns a port with its key of a partition, preferably that of a full member
/// (`ib_find_cached_pkey` of the kernel); `None` without a key.
pub(super) fn in_partition(port: &LocalPort, pkey: PKey, subnet: &dyn Subnet) -> Option<LocalPort> {
    let keys = (0..).zip(subnet.pkeys(port).iter().copied());
    let mut of_partition: Vec<_> = keys.filter(|(_, key)| key.partition() == pkey.partition()).collect();
    of_partition.sort_by_key(|(_, key)| !key.is_full_member());
    of_partition.first().map(|(pkey_index, pkey)| LocalPort { pkey: *pkey, pkey_index: *pkey_index, ..*port })
}

/// The subnet, as far as identifiers need it.
pub(crate) trait Subnet {
    /// Returns the host of an address: its own, or that of an interface on Ethernet.
    fn host_of(&self, ip: u32) -> Option<usize>;
    /// Returns the address of a host.
    fn address_of(&self, host: usize) -> u32;
    /// Returns the ports of a host with a cable, those of InfiniBand first.
    fn ports(&self, host: usize) -> Vec<LocalPort>;
    /// Returns the InfiniBand port with this GID.
    fn port_with_gid(&self, gid: Gid) -> Option<LocalPort>;
    /// Returns the P_Key table of a port.
    fn pkeys(&self, port: &LocalPort) -> &[PKey];
    /// Returns the facts about a port.
    fn local_port(&self, port: Port) -> Option<LocalPort>;
    /// Returns whether a program of the host may yet listen.
    fn may_listen(&self, host: usize) -> bool;
    /// Returns the path between two ports, if a route exists.
    fn path(&self, from: &LocalPort, to: &LocalPort) -> Option<Path>;
}

/// Returns the packet of a message of communication management.
pub(super) fn packet<Message: Layout>(path: &Path, attribute: AttributeId, transaction: u64, message: &Message) -> (Port, Box<ManagementPacket>) {
    let header = Header {
        base_version: Header::BASE_VERSION,
        mgmt_class: ManagementClass::COMMUNICATION,
        class_version: CLASS_VERSION,
        method: Method::SEND,
        transaction_id: transaction,
        attribute_id: attribute,
        ..Header::default()
    };
    let mut data = [0; 232];
    message.emit(&mut data);
    let mut mad = Box::new([0; softband_wire::mad::MAD_BYTES]);
    CmMad { header, data }.emit(&mut mad[..]);
    let packet = ManagementPacket {
        slid: path.source.lid,
        dlid: path.dlid,
        service_level: path.service_level,
        source: Qpn(1),
        destination: Qpn(1),
        qkey: GENERAL_QKEY,
        pkey: path.source.pkey,
        mad,
    };
    ((path.source.hca, path.source.port), Box::new(packet))
}

/// Returns the private data of a message, filled up with zeros.
///
/// # Errors
/// `EINVAL` if the data are longer than the message's.
pub(super) fn private<const N: usize>(parts: &[&[u8]]) -> Result<[u8; N], i32> {
    let data = parts.concat();
    let mut room = [0; N];
    room.get_mut(..data.len()).ok_or(libc::EINVAL)?.copy_from_slice(&data);
    Ok(room)
}
