//! Ports of hosts, paths between them, and packets on these paths.

use softband_model::management::ManagementPacket;
use softband_types::{Gid, Guid, HcaId, Lid, PKey, PortNumber, QKey, Qpn, ServiceLevel};
use softband_wire::mad::{AttributeId, CmMad, Header, Layout, ManagementClass, Method, MtuCode, RateCode};

/// A port, by its HCA.
pub(crate) type Port = (HcaId, PortNumber);

/// Q_Key of QP 1 (IBTA 3.5.3).
pub(super) const GENERAL_QKEY: QKey = QKey(0x8001_0000);
/// Version of the class of communication management (IBTA 12.6.2).
const CLASS_VERSION: u8 = 2;

/// The facts about a port of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalPort {
    pub(crate) host: usize,
    pub(crate) hca: HcaId,
    pub(crate) port: PortNumber,
    pub(crate) lid: Lid,
    pub(crate) gid: Gid,
    pub(crate) node_guid: Guid,
    pub(crate) pkey: PKey,
    /// LID of the subnet manager that has configured the port.
    pub(crate) sm_lid: Lid,
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
}

/// The subnet, as far as identifiers need it.
pub(crate) trait Subnet {
    /// Returns the host of an address as host `from` sees it.
    fn host_of(&self, ip: u32) -> Option<usize>;
    /// Returns the address of a host.
    fn address_of(&self, host: usize) -> u32;
    /// Returns the first InfiniBand port of a host with a link.
    fn first_port(&self, host: usize) -> Option<LocalPort>;
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
