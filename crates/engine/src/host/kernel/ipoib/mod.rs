//! IP over InfiniBand (RFC 4391): a UD queue pair of the kernel for each interface, and in connected
//! mode a reliable connection to each neighbour.
//!
//! The interface joins the broadcast group of its partition by packets to subnet administration. It
//! sends multicast to this group, too. Its rings are finite: a full send ring holds packets back, and
//! an empty receive ring loses them.

mod address;
mod connected;
mod frames;
mod group;
mod offloads;
mod receive;
mod send;

use super::Common;
use crate::host::kernel::interrupts::Moderation;
use crate::host::kernel::store::SLOTS_MAX;
use address::{BROADCAST_QKEY, link_address};
use connected::Connections;
pub(super) use offloads::Offloads;
use receive::Receiver;
use send::Sender;
use softband_fabric::World;
use softband_model::verbs::api::{MrInit, QpCapabilities, QpInit, QpModification, VerbsError};
use softband_net::{InterfaceId, LinkAddress};
use softband_sim::SimTime;
use softband_spec::IpoibMode;
use softband_types::{Access, AhHandle, HcaId, LKey, Lid, PKey, PdHandle, PortNumber, ProcessId, Psn, QKey, QpState, QpType, Qpn};
use std::collections::BTreeMap;

/// Packets in the send ring (`IPOIB_TX_RING_SIZE` of Linux before 4.20).
pub(super) const SEND_RING_PACKETS: u32 = 128;
/// Packets in the receive ring (`IPOIB_RX_RING_SIZE` of Linux before 4.20).
const RECEIVE_RING_PACKETS: u32 = 256;
/// Bytes of a GRH, for which receive buffers of datagrams have room (IBTA 11.4.1.2).
const GRH_BYTES: u32 = 40;
/// Mark of receive requests among the numbers of work requests.
const RECEIVE: u64 = 1 << 32;

/// Numbers of port events (`ibv_event_type`).
const PORT_ACTIVE: u32 = 9;
const PORT_ERROR: u32 = 10;
const LID_CHANGE: u32 = 11;
const CLIENT_REREGISTER: u32 = 17;

/// The port and the partition of an interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) host: usize,
    pub(super) interface: InterfaceId,
    pub(super) owner: ProcessId,
    pub(super) hca: HcaId,
    pub(super) port: PortNumber,
    pub(super) pkey: PKey,
    pub(super) mode: IpoibMode,
}

/// Port of a neighbour, and the handle of its address.
#[derive(Clone, Copy, Debug)]
struct Neighbour {
    handle: AhHandle,
    peer: (HcaId, PortNumber),
    lid: Lid,
}

/// Interface of IPoIB.
#[derive(Debug)]
pub(super) struct IpoibLink {
    place: Place,
    pd: PdHandle,
    lkey: LKey,
    qpn: Qpn,
    pkey_index: u16,
    /// Area of its packets in the store.
    area: u32,
    sender: Sender,
    receiver: Receiver,
    /// Address handle of the broadcast group, while the port is a member.
    group: Option<AhHandle>,
    /// Q_Key of the group.
    qkey: QKey,
    /// Neighbours that got datagrams.
    handles: BTreeMap<LinkAddress, Neighbour>,
    /// Address handles that only frames before a number may still name.
    retired: Vec<(u64, AhHandle)>,
    /// Whether subnet administration has refused membership too often: packets are lost.
    has_given_up: bool,
    /// Connections, in connected mode.
    connections: Option<Connections>,
    offloads: Offloads,
}

impl IpoibLink {
    /// Creates the queue pair of an interface.
    ///
    /// # Errors
    /// If the HCA has no room for its objects.
    pub(super) fn new(
        place: Place,
        (moderation, offloads): (Moderation, Offloads),
        world: &mut World,
        common: &mut Common,
    ) -> Result<Self, VerbsError> {
        let Place { owner, hca, port, pkey, .. } = place;
        let pd = world.alloc_pd(owner, hca)?;
        let access = Access { local_write: true, ..Access::default() };
        let (_, lkey, _) = world.register_mr(hca, MrInit { owner, pd, address: 0, len_bytes: super::store::SPAN_BYTES, iova: 0, access })?;
        let most = world.hca_part(hca).max_qp_wr;
        let datagram_bytes = world.port(hca, port).map_or(0, |port| port.mtu_active.bytes());
        let sends = (SEND_RING_PACKETS * offloads.packets_max(datagram_bytes)).min(most).min(SLOTS_MAX);
        let receives = RECEIVE_RING_PACKETS.min(most);
        let is_connected = place.mode == IpoibMode::Connected;
        let cq = world.create_cq(owner, hca, 2 * (sends + receives))?;
        let capabilities = QpCapabilities { max_send_wr: sends, max_recv_wr: receives, ..QpCapabilities::default() };
        let init = QpInit { capabilities, block_own_multicast: true, ..QpInit::new(QpType::Ud, pd, cq) };
        let qpn = world.create_qp(owner, hca, init)?.qpn;
        let pkey_index = world.pkeys(hca).iter().position(|key| key.partition() == pkey.partition()).unwrap_or(0) as u16;
        let to_init = QpModification {
            state: Some(QpState::Init),
            port: Some(port),
            pkey_index: Some(pkey_index),
            qkey: Some(BROADCAST_QKEY),
            ..QpModification::default()
        };
        let to_rtr = QpModification { state: Some(QpState::Rtr), ..QpModification::default() };
        let to_rts = QpModification { state: Some(QpState::Rts), send_psn: Some(Psn::new(0)), ..QpModification::default() };
        for step in [to_init, to_rtr, to_rts] {
            world.modify_qp(SimTime::ZERO, owner, hca, qpn, &step)?;
        }
        let area = common.store.add(owner, sends, if is_connected { 2 * receives } else { receives });
        common.queues.insert(cq, (place.host, place.interface));
        let mut link = Self {
            place,
            pd,
            lkey,
            qpn,
            pkey_index,
            area,
            sender: Sender::new(sends),
            receiver: Receiver::new(GRH_BYTES, moderation),
            group: None,
            qkey: BROADCAST_QKEY,
            handles: BTreeMap::new(),
            retired: Vec::new(),
            has_given_up: false,
            connections: None,
            offloads,
        };
        link.receiver = Receiver::new(link.datagram_bytes(world) + GRH_BYTES, moderation);
        if is_connected {
            link.connections = Some(Connections::new(&link, cq, receives, world)?);
            for number in 0..receives {
                link.post_shared_receive(world, SimTime::ZERO, number);
            }
        }
        for slot in 0..receives {
            link.post_receive(world, SimTime::ZERO, slot);
        }
        Ok(link)
    }

    /// Returns the link address of the interface; `None` if its port does not exist.
    pub(super) fn address(&self, world: &World) -> Option<LinkAddress> {
        let gid = world.port(self.place.hca, self.place.port)?.gids[0]?;
        link_address(self.qpn, gid, self.connections.is_some())
    }

    /// Returns the port of the interface.
    pub(super) fn port(&self) -> (HcaId, PortNumber) {
        (self.place.hca, self.place.port)
    }

    /// Destroys an address handle as soon as no frame in the ring names it.
    fn retire(&mut self, handle: AhHandle) {
        self.retired.push((self.sender.next(), handle));
    }

    fn destroy_retired(&mut self, world: &mut World) {
        let (owner, sender) = (self.place.owner, &self.sender);
        for (_, handle) in self.retired.extract_if(.., |(frame, _)| sender.has_sent_before(*frame)) {
            // A handle of this owner exists until it is destroyed here.
            let _ = world.destroy_ah(owner, handle);
        }
    }

    fn is_active(&self, world: &World) -> bool {
        world.port(self.place.hca, self.place.port).is_some_and(|port| port.active)
    }
}
