//! A management datagram (MAD) with the addresses of its packet.

use crate::packet::{Carried, Packet, PacketKind};
use crate::verbs::api::PayloadSlice;
use softband_types::{Lid, PKey, Psn, QKey, QpType, Qpn, ServiceLevel};
use softband_wire as wire;

/// Bytes of every MAD (IBTA 13.4.2).
pub const MAD_BYTES: usize = 256;

/// A MAD, and the fields of its packet's headers that a receiver can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagementPacket {
    /// Source LID: the sending port, or [`Lid::PERMISSIVE`].
    pub slid: Lid,
    /// Destination LID: a port, a multicast group, or [`Lid::PERMISSIVE`].
    pub dlid: Lid,
    /// Service level. It selects the lane of a packet between QPs 1. Packets to QP 0 use lane 15.
    pub service_level: ServiceLevel,
    /// QP that sends the packet: 0, 1, or another that redirection named.
    pub source: Qpn,
    /// QP that receives the packet: 0 or 1.
    pub destination: Qpn,
    /// Q_Key; 0x8001_0000 between QPs 1 (IBTA 10.2.5).
    pub qkey: QKey,
    /// Partition key of the sender.
    pub pkey: PKey,
    /// The MAD itself.
    pub mad: Box<[u8; MAD_BYTES]>,
}

impl ManagementPacket {
    /// Bytes from the LRH to the variant CRC.
    pub const BYTES: u32 = wire::BASE_BYTES + wire::DETH_BYTES + MAD_BYTES as u32;

    /// Checks whether the packet belongs to subnet management: QP 0 and lane 15.
    pub fn is_subnet_management(&self) -> bool {
        self.destination == Qpn(0)
    }

    /// Returns the packet as a datagram between queue pairs.
    pub fn as_datagram(&self) -> Packet {
        Packet {
            slid: self.slid,
            dlid: self.dlid,
            service_level: self.service_level,
            pkey: self.pkey,
            source: self.source,
            destination: self.destination,
            psn: Psn::new(0),
            ack_request: false,
            solicited: false,
            fecn: false,
            becn: false,
            grh: None,
            carried: Carried::Nothing,
            service: QpType::Ud,
            kind: PacketKind::Datagram { qkey: self.qkey, immediate: None },
            payload: Some(PayloadSlice { len: MAD_BYTES as u32, offset: 0, buffer: Some(self.mad.to_vec().into()) }),
        }
    }

    /// Returns the MAD that a datagram for QP 1 carries; `None` for any other packet.
    pub fn of_datagram(packet: &Packet) -> Option<Box<Self>> {
        let PacketKind::Datagram { qkey, .. } = packet.kind else { return None };
        let payload = packet.payload.as_ref().filter(|payload| packet.destination == Qpn(1) && payload.buffer.is_some())?;
        let mad = Box::new(<[u8; MAD_BYTES]>::try_from(payload.bytes()).ok()?);
        let Packet { slid, dlid, service_level, pkey, source, destination, .. } = *packet;
        Some(Box::new(Self { slid, dlid, service_level, source, destination, qkey, pkey, mad }))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_packet_has_290_bytes() {
        // LRH 8, BTH 12, DETH 8, MAD 256, ICRC 4, VCRC 2.
        assert_eq!(super::ManagementPacket::BYTES, 290);
    }
}
