//! Requests: the next packet, whether it may go, and its contents.

use super::{Chunk, Requester, SendWqe};
use crate::packet::{Carried, Packet, PacketKind, Position, RemoteRange, SrqNumber};
use crate::transport::MessageKind;
use crate::transport::queue_pair::Environment;
use crate::verbs::api::{AddressVector, PayloadSlice, QpSnapshot, SendOperation};
use crate::verbs::{ChunkPool, MESSAGE_BYTES_MAX, Reach, Verbs};
use softband_sim::SimTime;
use softband_types::{HcaId, PortLids, Psn, QKey, QpState, QpType, Qpn, ServiceLevel, WcStatus};

/// Limit of unacknowledged request packets; far below 2^23, where PSNs become ambiguous (IBTA
/// 9.7.3).
const WINDOW_PACKETS: u32 = 1 << 14;
/// Packets of a long message between requests for an acknowledgement, so that the timer sees
/// progress.
const ACK_INTERVAL_PACKETS: u32 = 128;
/// Chunks of payload beyond the present chunk for which [`Requester::middles`] looks at memory.
const CHUNKS_AHEAD: u32 = 2;

/// Packet that the requester would send next.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// Kind of the message, if this is its first packet.
    pub starts: Option<MessageKind>,
    /// Service level of the packet.
    pub service_level: ServiceLevel,
    /// Bytes of inline data in the message's WQE.
    pub inline_bytes: u32,
}

/// Packets of one length in the middle of a message.
#[derive(Clone, Copy, Debug)]
pub struct Middles {
    /// Number of packets, at least 1.
    pub count: u32,
    /// PSN of the first.
    pub psn: Psn,
    /// PSN of the message's first packet.
    pub message_psn: Psn,
    /// Payload of each, in bytes.
    pub len: u32,
    /// Whether they belong to an RDMA write, not to a send.
    pub writes: bool,
}

/// Result of the send engine's request for a packet.
pub enum Emission {
    /// A packet to send.
    Packet {
        /// The packet.
        packet: Box<Packet>,
        /// Bytes of payload that have to come over the bus first.
        dma_bytes: u32,
        /// Whether its departure completes the message, for want of acknowledgements.
        completes_when_sent: bool,
    },
    /// Nothing to send: a request or reply failed, or local work is done.
    Settled,
}

impl Requester {
    /// Returns the next packet, or `None` if there is none or it has to wait.
    pub fn pending(&self, a: &QpSnapshot, verbs: &Verbs) -> Option<Pending> {
        let wqe = self.queue.get(self.cursor)?;
        let mid_message = self.cursor_packet > 0;
        // A drain completes requests that were begun, and sends them again if necessary (IBTA
        // 10.3.1.5).
        let running = a.state == QpState::Rts || a.state == QpState::Sqd && wqe.started;
        if !running || self.waits_for_receiver || self.halted || wqe.outcome.is_some() {
            return None;
        }
        if !mid_message {
            let fenced = wqe.request.fence && self.reads_outstanding > 0;
            // Without any allowance, the request fails when it starts instead of waiting forever.
            let full = wqe.expects_response() && a.max_rd_atomic > 0 && self.reads_outstanding >= u32::from(a.max_rd_atomic);
            if fenced || full {
                return None;
            }
        }
        if a.init.qp_type.is_reliable() {
            let done = if wqe.is_read() { wqe.received } else { self.cursor_packet };
            let psn = if wqe.started { wqe.first_psn.plus(done) } else { self.next_psn };
            if psn.since(self.unacked_psn) >= WINDOW_PACKETS {
                return None;
            }
        }
        let datagram = wqe.request.datagram.and_then(|to| verbs.ahs.get(to.ah.0));
        let service_level = datagram.map_or(a.address_vector.service_level, |ah| ah.vector.service_level);
        let starts = (!mid_message).then(|| wqe.kind(a.init.qp_type));
        let inline_bytes = wqe.request.inline.as_ref().map_or(0, |inline| inline.len);
        Some(Pending { starts, service_level, inline_bytes })
    }

    /// Returns the next packet. Call it when [`Self::pending`] names one.
    pub fn emit(&mut self, a: &QpSnapshot, hca: HcaId, env: &mut Environment, now: SimTime) -> Emission {
        let Some(wqe) = self.queue.get_mut(self.cursor) else { return Emission::Settled };
        if wqe.is_local() {
            return self.execute_local(a, hca, env.verbs);
        }
        if !wqe.started {
            match wqe.start(a, hca, env.verbs) {
                Ok(()) => {
                    wqe.first_psn = self.next_psn;
                    self.next_psn = self.next_psn.plus(wqe.packets);
                }
                Err(status) => return self.fail_at_cursor(status),
            }
        }
        if wqe.expects_response() { self.emit_fetch(a, hca, env, now) } else { self.emit_payload(a, hca, env, now) }
    }

    /// Executes work on this side's own keys. It keeps the order of the queue, but waits for no
    /// answer of the peer.
    fn execute_local(&mut self, a: &QpSnapshot, hca: HcaId, verbs: &mut Verbs) -> Emission {
        let by = Reach { hca, pd: a.init.pd, qpn: a.qpn };
        let wqe = &mut self.queue[self.cursor];
        let outcome = match wqe.request.operation {
            _ if a.init.qp_type == QpType::Ud => return self.fail_at_cursor(WcStatus::LocalQpOperationError),
            SendOperation::BindWindow(bind) => verbs.bind_window(by, &bind),
            SendOperation::LocalInvalidate { rkey } => verbs.invalidate(by, rkey),
            _ => unreachable!("the caller looked"),
        };
        if outcome.is_err() {
            return self.fail_at_cursor(WcStatus::WindowBindError);
        }
        wqe.started = true;
        wqe.outcome = Some(WcStatus::Success);
        self.cursor += 1;
        self.cursor_packet = 0;
        self.pass_local();
        self.skip_local();
        Emission::Settled
    }

    /// Fails the request before it is sent. Nothing passes it, but requests before it still
    /// complete.
    fn fail_at_cursor(&mut self, status: WcStatus) -> Emission {
        self.queue[self.cursor].outcome = Some(status);
        Emission::Settled
    }

    /// Returns a packet of a send, RDMA write or datagram.
    fn emit_payload(&mut self, a: &QpSnapshot, hca: HcaId, env: &mut Environment, now: SimTime) -> Emission {
        let number = self.cursor_packet;
        let wqe = &mut self.queue[self.cursor];
        let mtu = if a.init.qp_type == QpType::Ud { wqe.len_bytes.max(1) } else { a.path_mtu.bytes() };
        let offset = number * mtu;
        let len = (wqe.len_bytes - offset).min(mtu);
        let payload = match wqe.payload(a, hca, env, offset, len) {
            Ok(payload) => payload,
            Err(status) => return self.fail_at_cursor(status),
        };
        let position = Position { first: number == 0, last: number + 1 == wqe.packets };
        let (to, destination) = wqe.destination(a, env.verbs);
        let reliable = a.init.qp_type.is_reliable();
        let packet = Packet {
            psn: wqe.first_psn.plus(number),
            ack_request: reliable && (position.last || number % ACK_INTERVAL_PACKETS == ACK_INTERVAL_PACKETS - 1),
            solicited: wqe.request.solicited && position.last,
            kind: wqe.packet_kind(a, position),
            carried: wqe.carried(),
            payload,
            ..base(a, env.lids, &to, destination)
        };
        let dma_bytes = if wqe.request.inline.is_some() { 0 } else { len };
        let (psn, asks) = (packet.psn, packet.ack_request);
        if position.last {
            self.cursor += 1;
            self.cursor_packet = 0;
            self.skip_local();
        } else {
            self.cursor_packet += 1;
        }
        self.note_sent(psn.plus(1), a, now, asks);
        Emission::Packet { packet: env.packets.place(packet), dma_bytes, completes_when_sent: position.last && !reliable }
    }

    /// Returns the request of an RDMA read or atomic. A read goes on after the data that it has
    /// received.
    fn emit_fetch(&mut self, a: &QpSnapshot, hca: HcaId, env: &mut Environment, now: SimTime) -> Emission {
        let wqe = &mut self.queue[self.cursor];
        let mut value = [0; 8];
        let mut dma_bytes = 0;
        if wqe.is_atomic_write() {
            match wqe.payload(a, hca, env, 0, 8) {
                Ok(payload) => value.copy_from_slice(payload.as_ref().map_or(&[0; 8], PayloadSlice::bytes)),
                Err(status) => return self.fail_at_cursor(status),
            }
            dma_bytes = if wqe.request.inline.is_some() { 0 } else { 8 };
        }
        wqe.requested = true;
        let (psn, end) = (wqe.first_psn.plus(wqe.received), wqe.first_psn.plus(wqe.packets));
        let done_bytes = wqe.received * a.path_mtu.bytes();
        let kind = match wqe.request.operation {
            SendOperation::CompareSwap { remote_address, rkey, compare, swap } => {
                PacketKind::CompareSwap { address: remote_address, rkey: rkey.0, compare, swap }
            }
            SendOperation::FetchAdd { remote_address, rkey, add } => PacketKind::FetchAdd { address: remote_address, rkey: rkey.0, add },
            SendOperation::AtomicWrite { remote_address, rkey } => {
                PacketKind::AtomicWrite { address: remote_address, rkey: rkey.0, value: u64::from_ne_bytes(value) }
            }
            SendOperation::RdmaRead { remote_address, rkey } => {
                let address = remote_address.wrapping_add(u64::from(done_bytes));
                PacketKind::ReadRequest { range: RemoteRange { address, rkey: rkey.0, len_bytes: wqe.len_bytes - done_bytes } }
            }
            _ => unreachable!("these carry payload or stay here"),
        };
        let packet = Packet { psn, ack_request: true, kind, carried: wqe.carried(), ..base(a, env.lids, &a.address_vector, a.dest_qpn) };
        self.reads_outstanding += 1;
        self.cursor += 1;
        self.cursor_packet = 0;
        self.skip_local();
        self.note_sent(end, a, now, true);
        Emission::Packet { packet: env.packets.place(packet), dma_bytes, completes_when_sent: false }
    }

    /// Notes that everything before `end` was sent. The timer runs from the oldest packet that asks
    /// for an answer.
    fn note_sent(&mut self, end: Psn, a: &QpSnapshot, now: SimTime, asks: bool) {
        if end.since(self.unacked_psn) > self.sent_psn.since(self.unacked_psn) {
            self.sent_psn = end;
        }
        if asks && self.deadline.is_none() {
            self.deadline = self.ack_timeout(a).map(|timeout| now.saturating_add(timeout));
        }
    }

    /// Returns the packets in the middle of a message that could go next, one after the other, if only
    /// their number and length count. They ask for no acknowledgement, and their memory allows the reads.
    pub fn middles(&self, a: &QpSnapshot, hca: HcaId, verbs: &Verbs) -> Option<Middles> {
        let wqe = self.queue.get(self.cursor)?;
        let number = self.cursor_packet;
        let is_running = a.state == QpState::Rts && !self.waits_for_receiver && !self.halted && wqe.outcome.is_none();
        let chunk = wqe.chunk.as_ref().filter(|chunk| chunk.payload.buffer.is_none())?;
        let (len, psn) = (a.path_mtu.bytes(), wqe.first_psn.plus(number));
        if !is_running || number == 0 || number * len < chunk.base || a.init.qp_type != QpType::Rc {
            return None;
        }
        let writes = matches!(wqe.request.operation, SendOperation::RdmaWrite { .. });
        // Each chunk needs a look at memory.
        let of_chunk = (chunk.base + ChunkPool::CHUNK_BYTES) / len;
        let (base, rest) = (of_chunk * len, (CHUNKS_AHEAD * ChunkPool::CHUNK_BYTES).min(wqe.len_bytes - (of_chunk * len).min(wqe.len_bytes)));
        let is_allowed = verbs.walk_local(hca, a.init.pd, &wqe.request.entries, (u64::from(base), rest), false, |_| ()).is_some();
        let of_memory = if is_allowed { (base + rest) / len } else { of_chunk };
        let asks = number - number % ACK_INTERVAL_PACKETS + ACK_INTERVAL_PACKETS - 1;
        let in_window = number + WINDOW_PACKETS.saturating_sub(psn.since(self.unacked_psn));
        let end = of_memory.min(asks).min(wqe.packets - 1).min(in_window);
        (end > number).then(|| Middles { count: end - number, psn, message_psn: wqe.first_psn, len, writes })
    }

    /// Returns the first packet of [`Self::middles`], if there are any.
    pub fn middle_packet(&self, a: &QpSnapshot, lids: PortLids) -> Option<Packet> {
        let (psn, len) = (self.queue.get(self.cursor)?.first_psn.plus(self.cursor_packet), a.path_mtu.bytes());
        let wqe = self.queue.get(self.cursor)?;
        let kind = wqe.packet_kind(a, Position { first: false, last: false });
        let payload = Some(PayloadSlice { buffer: None, offset: 0, len });
        Some(Packet { psn, kind, carried: wqe.carried(), payload, ..base(a, lids, &a.address_vector, a.dest_qpn) })
    }

    /// Counts the first packets of [`Self::middles`] as sent.
    pub fn pass_middles(&mut self, a: &QpSnapshot, count: u32, now: SimTime) {
        let Some(wqe) = self.queue.get_mut(self.cursor).filter(|_| count > 0) else { return };
        self.cursor_packet += count;
        let (last, end) = ((self.cursor_packet - 1) * a.path_mtu.bytes(), wqe.first_psn.plus(self.cursor_packet));
        let base = last - last % ChunkPool::CHUNK_BYTES;
        if let Some(chunk) = &mut wqe.chunk
            && chunk.base != base
        {
            let len = (wqe.len_bytes - base).min(ChunkPool::CHUNK_BYTES);
            *chunk = Chunk { base, payload: PayloadSlice { buffer: None, offset: 0, len } };
        }
        self.note_sent(end, a, now, false);
    }

    /// Completes an unreliable message whose last bit has left.
    pub fn on_sent(&mut self) {
        if let Some(wqe) = self.queue.get_mut(self.settled)
            && self.settled < self.cursor
        {
            wqe.outcome = Some(WcStatus::Success);
            self.settled += 1;
            self.pass_local();
        }
    }
}

fn base(a: &QpSnapshot, lids: PortLids, to: &AddressVector, destination: Qpn) -> Packet {
    Packet {
        slid: lids.with_path_bits(to.source_path_bits),
        dlid: to.dlid,
        service_level: to.service_level,
        pkey: a.pkey,
        source: a.qpn,
        destination,
        psn: Psn::new(0),
        ack_request: false,
        solicited: false,
        fecn: false,
        becn: false,
        grh: to.grh,
        carried: Carried::Nothing,
        service: a.init.qp_type,
        kind: PacketKind::Ack,
        payload: None,
    }
}

impl SendWqe {
    /// Checks the request and measures the message (IBTA 10.7.2, 10.8.3).
    fn start(&mut self, a: &QpSnapshot, hca: HcaId, verbs: &Verbs) -> Result<(), WcStatus> {
        let listed = || self.request.entries.iter().map(|entry| u64::from(entry.len_bytes)).sum();
        let len = self.request.inline.as_ref().map_or_else(listed, |payload| u64::from(payload.len));
        let atomic = self.kind(a.init.qp_type) == MessageKind::Atomic;
        let limit = if a.init.qp_type == QpType::Ud { u64::from(a.path_mtu.bytes()) } else { MESSAGE_BYTES_MAX };
        if len > limit || atomic && len != 8 {
            return Err(WcStatus::LocalLengthError);
        }
        if self.is_atomic_write() && !verbs.offers_atomic_write(hca) {
            return Err(WcStatus::LocalQpOperationError);
        }
        self.check_operation(a, verbs)?;
        if self.request.inline.is_none() {
            let writes = self.expects_response() && !self.is_atomic_write();
            let checked = verbs.walk_local(hca, a.init.pd, &self.request.entries, (0, len as u32), writes, |_| ());
            checked.ok_or(WcStatus::LocalProtectionError)?;
        }
        self.len_bytes = len as u32;
        let one_packet = atomic || a.init.qp_type == QpType::Ud;
        self.packets = if one_packet { 1 } else { self.len_bytes.div_ceil(a.path_mtu.bytes()).max(1) };
        self.started = true;
        Ok(())
    }

    /// Checks whether the transport offers the operation (IBTA 9.4, table of operations by
    /// service).
    fn check_operation(&self, a: &QpSnapshot, verbs: &Verbs) -> Result<(), WcStatus> {
        let send = matches!(self.request.operation, SendOperation::Send { .. });
        let invalidates = matches!(self.request.operation, SendOperation::SendAndInvalidate { .. });
        let offered = match a.init.qp_type {
            QpType::Rc => !self.expects_response() || a.max_rd_atomic > 0,
            QpType::XrcSend => self.request.xrc_srq.is_some() && (!self.expects_response() || a.max_rd_atomic > 0),
            QpType::XrcRecv => false,
            QpType::Uc => !self.expects_response() && !invalidates,
            QpType::Ud => send && self.datagram_path(a, verbs).is_some(),
        };
        if offered { Ok(()) } else { Err(WcStatus::LocalQpOperationError) }
    }

    /// Returns the number in the request's extended headers.
    fn carried(&self) -> Carried {
        self.request.xrc_srq.map_or(Carried::Nothing, |number| Carried::XrcSrq(SrqNumber::new(number)))
    }

    fn datagram_path(&self, a: &QpSnapshot, verbs: &Verbs) -> Option<AddressVector> {
        let ah = verbs.ahs.get(self.request.datagram?.ah.0)?;
        (ah.pd == a.init.pd).then_some(ah.vector)
    }

    fn destination(&self, a: &QpSnapshot, verbs: &Verbs) -> (AddressVector, Qpn) {
        match (self.request.datagram, self.datagram_path(a, verbs)) {
            (Some(to), Some(vector)) if a.init.qp_type == QpType::Ud => (vector, to.remote_qpn),
            _ => (a.address_vector, a.dest_qpn),
        }
    }

    fn packet_kind(&self, a: &QpSnapshot, position: Position) -> PacketKind {
        match self.request.operation {
            SendOperation::RdmaWrite { remote_address, rkey, immediate } => PacketKind::Write {
                position,
                range: position.first.then_some(RemoteRange { address: remote_address, rkey: rkey.0, len_bytes: self.len_bytes }),
                immediate: immediate.filter(|_| position.last),
            },
            SendOperation::Send { immediate } if a.init.qp_type == QpType::Ud => {
                let wanted = self.request.datagram.map_or(QKey(0), |to| to.remote_qkey);
                // A Q_Key with its highest bit set stands for the queue pair's own Q_Key (IBTA
                // 10.2.5).
                let qkey = if wanted.0 >> 31 == 1 { a.qkey } else { wanted };
                PacketKind::Datagram { qkey, immediate }
            }
            SendOperation::Send { immediate } => PacketKind::Send { position, immediate: immediate.filter(|_| position.last), invalidate: None },
            SendOperation::SendAndInvalidate { rkey } => PacketKind::Send { position, immediate: None, invalidate: position.last.then_some(rkey.0) },
            _ => unreachable!("these carry no payload"),
        }
    }

    /// Returns bytes `offset..offset + len` of the message. Reads the next chunk from memory if
    /// they lie beyond the current chunk.
    fn payload(&mut self, a: &QpSnapshot, hca: HcaId, env: &mut Environment, offset: u32, len: u32) -> Result<Option<PayloadSlice>, WcStatus> {
        if len == 0 {
            return Ok(None);
        }
        if let Some(inline) = &self.request.inline {
            return Ok(Some(part_of(inline, offset, len)));
        }
        let base = offset - offset % ChunkPool::CHUNK_BYTES;
        if self.chunk.as_ref().is_none_or(|chunk| chunk.base != base) {
            let size = (self.len_bytes - base).min(ChunkPool::CHUNK_BYTES);
            let range = (u64::from(base), size);
            let payload = env.verbs.gather(env.chunks, env.memory, (hca, a.init.pd), &self.request.entries, range)?;
            self.chunk = Some(Chunk { base, payload });
        }
        let chunk = self.chunk.as_ref().expect("just read");
        Ok(Some(part_of(&chunk.payload, offset - base, len)))
    }
}

fn part_of(whole: &PayloadSlice, offset: u32, len: u32) -> PayloadSlice {
    PayloadSlice { buffer: whole.buffer.clone(), offset: whole.offset + offset, len }
}
