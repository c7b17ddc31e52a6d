//! The bytes of a packet on a link, for a capture.

use super::{Carried, NakCode, Packet, PacketKind, Position};
use crate::link::Framing;
use softband_types::{Gid, QpType, VirtualLane};
use softband_wire::headers::{Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Opcode, Reth, XrcEth};
use softband_wire::{ATOMIC_WRITE_BYTES, BTH_BYTES};

/// Values of a packet's headers that follow from the link and from the addresses of ports.
#[derive(Clone, Copy, Debug)]
pub struct LinkAddresses {
    /// Virtual lane on this link.
    pub lane: VirtualLane,
    /// GID of the sending port.
    pub source: Gid,
    /// MAC addresses of source and destination. InfiniBand does not use them.
    pub macs: [[u8; 6]; 2],
}

impl Packet {
    /// Returns the bytes of the packet from its LRH to its variant CRC. A frame of Ethernet ends
    /// before its check sequence. If the model only counts payload, its bytes are zeros.
    pub fn image(&self, framing: Framing, addresses: &LinkAddresses) -> Vec<u8> {
        if matches!(self.kind, PacketKind::Frame) {
            return framing.raw_image(self.payload.as_ref().map_or(&[], |payload| payload.bytes()));
        }
        framing.image(self, addresses, &self.transport_image())
    }

    /// Returns the bytes from the BTH to the padding after the payload.
    fn transport_image(&self) -> Vec<u8> {
        let payload_bytes = self.payload_bytes() as usize;
        let padded = payload_bytes.next_multiple_of(4);
        let mut bytes = Vec::with_capacity(BTH_BYTES as usize + padded + 32);
        let bth = Bth {
            opcode: self.opcode(),
            solicited: self.solicited,
            // The model has no alternate paths, so each path counts as migrated (IBTA 17.2.8).
            migrated: true,
            pad_bytes: (padded - payload_bytes) as u8,
            transport_version: 0,
            pkey: self.pkey,
            fecn: self.fecn,
            becn: self.becn,
            destination: self.destination,
            ack_request: self.ack_request,
            psn: self.psn,
        };
        bytes.extend_from_slice(&bth.to_bytes());
        if let Some(srq) = self.xrc_srq() {
            bytes.extend_from_slice(&XrcEth { srq: srq.get() }.to_bytes());
        }
        self.extended_headers(&mut bytes);
        let end = bytes.len() + padded;
        bytes.extend_from_slice(self.payload.as_ref().map_or(&[], |payload| payload.bytes()));
        bytes.resize(end, 0);
        bytes
    }

    /// Returns the operation code (IBTA 9.2.1).
    fn opcode(&self) -> Opcode {
        let service = match self.service {
            QpType::Rc => Opcode::RC,
            QpType::Uc => Opcode::UC,
            QpType::Ud => Opcode::UD,
            QpType::XrcSend | QpType::XrcRecv => Opcode::XRC,
        };
        let by = |position: Position, [first, middle, last, only]: [u8; 4]| match (position.first, position.last) {
            (true, true) => only,
            (true, false) => first,
            (false, true) => last,
            (false, false) => middle,
        };
        let operation = match self.kind {
            PacketKind::Send { position, immediate, invalidate } => {
                let (last, only) = match (immediate, invalidate) {
                    (Some(_), _) => (Opcode::SEND_LAST_IMMEDIATE, Opcode::SEND_ONLY_IMMEDIATE),
                    (None, Some(_)) => (Opcode::SEND_LAST_INVALIDATE, Opcode::SEND_ONLY_INVALIDATE),
                    (None, None) => (Opcode::SEND_LAST, Opcode::SEND_ONLY),
                };
                by(position, [Opcode::SEND_FIRST, Opcode::SEND_MIDDLE, last, only])
            }
            PacketKind::Write { position, immediate, .. } => {
                let (last, only) = match immediate {
                    Some(_) => (Opcode::WRITE_LAST_IMMEDIATE, Opcode::WRITE_ONLY_IMMEDIATE),
                    None => (Opcode::WRITE_LAST, Opcode::WRITE_ONLY),
                };
                by(position, [Opcode::WRITE_FIRST, Opcode::WRITE_MIDDLE, last, only])
            }
            PacketKind::ReadResponse { position } => {
                by(position, [Opcode::READ_RESPONSE_FIRST, Opcode::READ_RESPONSE_MIDDLE, Opcode::READ_RESPONSE_LAST, Opcode::READ_RESPONSE_ONLY])
            }
            PacketKind::ReadRequest { .. } => Opcode::READ_REQUEST,
            PacketKind::CompareSwap { .. } => Opcode::COMPARE_SWAP,
            PacketKind::FetchAdd { .. } => Opcode::FETCH_ADD,
            PacketKind::AtomicWrite { .. } => Opcode::ATOMIC_WRITE,
            PacketKind::Datagram { immediate: None, .. } => Opcode::SEND_ONLY,
            PacketKind::Datagram { immediate: Some(_), .. } => Opcode::SEND_ONLY_IMMEDIATE,
            PacketKind::AtomicAck { .. } => Opcode::ATOMIC_ACKNOWLEDGE,
            PacketKind::Ack | PacketKind::Nak(_) | PacketKind::RnrNak { .. } => Opcode::ACKNOWLEDGE,
            // A frame has no transport header, so that no caller asks for its code.
            PacketKind::CongestionNotification | PacketKind::Frame => return Opcode::CONGESTION_NOTIFICATION,
        };
        service.of(operation)
    }

    /// Appends the extended headers in the order of IBTA 9.3.
    fn extended_headers(&self, bytes: &mut Vec<u8>) {
        match self.kind {
            PacketKind::Send { immediate, invalidate, .. } => {
                for word in [immediate, invalidate].into_iter().flatten() {
                    bytes.extend_from_slice(&word.to_be_bytes());
                }
            }
            PacketKind::Write { range, immediate, .. } => {
                if let Some(range) = range {
                    bytes.extend_from_slice(&Reth { address: range.address, rkey: range.rkey, len_bytes: range.len_bytes }.to_bytes());
                }
                bytes.extend(immediate.into_iter().flat_map(u32::to_be_bytes));
            }
            PacketKind::ReadRequest { range } => {
                bytes.extend_from_slice(&Reth { address: range.address, rkey: range.rkey, len_bytes: range.len_bytes }.to_bytes());
            }
            PacketKind::CompareSwap { address, rkey, compare, swap } => {
                bytes.extend_from_slice(&AtomicEth { address, rkey, swap_or_add: swap, compare }.to_bytes());
            }
            PacketKind::FetchAdd { address, rkey, add } => {
                bytes.extend_from_slice(&AtomicEth { address, rkey, swap_or_add: add, compare: 0 }.to_bytes());
            }
            PacketKind::AtomicWrite { address, rkey, value } => {
                bytes.extend_from_slice(&Reth { address, rkey, len_bytes: ATOMIC_WRITE_BYTES }.to_bytes());
                // The value is payload: bytes of memory in their order.
                bytes.extend_from_slice(&value.to_ne_bytes());
            }
            PacketKind::Datagram { qkey, immediate } => {
                bytes.extend_from_slice(&Deth { qkey, source: self.source }.to_bytes());
                bytes.extend(immediate.into_iter().flat_map(u32::to_be_bytes));
            }
            PacketKind::ReadResponse { position } => {
                if position.first || position.last {
                    bytes.extend_from_slice(&self.aeth(Aeth::ACK));
                }
            }
            PacketKind::AtomicAck { original } => {
                bytes.extend_from_slice(&self.aeth(Aeth::ACK));
                bytes.extend_from_slice(&AtomicAckEth { original }.to_bytes());
            }
            PacketKind::Ack => bytes.extend_from_slice(&self.aeth(Aeth::ACK)),
            PacketKind::Nak(code) => bytes.extend_from_slice(&self.aeth(Aeth::NAK | nak_code(code))),
            PacketKind::RnrNak { timer_code } => bytes.extend_from_slice(&self.aeth(Aeth::RNR_NAK | timer_code & 0x1F)),
            PacketKind::CongestionNotification | PacketKind::Frame => {}
        }
    }

    fn aeth(&self, syndrome: u8) -> [u8; 4] {
        let messages = match self.carried {
            Carried::Messages(count) => count.get(),
            _ => 0,
        };
        Aeth { syndrome, messages }.to_bytes()
    }
}

/// Returns the code of a refusal (IBTA 9.7.5.2.8).
const fn nak_code(code: NakCode) -> u8 {
    match code {
        NakCode::PsnSequenceError => 0,
        NakCode::InvalidRequest => 1,
        NakCode::RemoteAccessError => 2,
        NakCode::RemoteOperationalError => 3,
    }
}

#[cfg(test)]
mod tests;
