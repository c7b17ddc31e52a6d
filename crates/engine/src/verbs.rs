//! Verbs calls, posted work and completions: between the protocol and the World.

use crate::calls::{After, Answer, END, program_time, reply, request};
use crate::convert;
use crate::objects::{Object, drop_events_of};
use crate::pace::{Engine, Event};
use softband_fabric::notice::Notice;
use softband_ipc::calls::{self, Op};
use softband_ipc::post::{PostRecord, PostSge, kind, record_bytes};
use softband_ipc::ring::{Cqe, flags};
use softband_model::verbs::api::{Completion, MrInit};
use softband_sim::{SimDuration, SimTime};
use softband_types::{AhHandle, CqHandle, HcaId, MrHandle, PdHandle, PortNumber, ProcessId, QpType, Qpn};

/// Asynchronous events, numbered as `enum ibv_event_type`.
const EVENT_CQ_ERROR: u32 = 0;
const PAGE_BYTES: u64 = 4096;

/// Where a completion queue's entries and events go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CqRecord {
    pub(crate) process: usize,
    hca: u32,
    offset: usize,
    capacity: u32,
    channel: u32,
    cookie: u64,
    events: u64,
}

impl Engine {
    /// Verbs that go through the kernel: the thread pays for them.
    pub(crate) fn costly_verb(&mut self, process: usize, op: Op, bytes: &[u8]) -> After {
        let part = &self.world.spec().hosts[self.processes[process].host].part;
        let mut cost = part.control_verb;
        if op == Op::RegisterMr
            && let Ok(mr) = request::<calls::RegisterMr>(bytes)
            && mr.access & convert::ACCESS_ON_DEMAND == 0
        {
            cost += part.register_page * mr.len_bytes.div_ceil(PAGE_BYTES).min(1 << 24);
        }
        match self.verb(process, op, bytes) {
            Ok(reply) => After::ReplyLater(reply, cost),
            Err(errno) => After::Fail(errno),
        }
    }

    pub(crate) fn verb(&mut self, process: usize, op: Op, bytes: &[u8]) -> Answer {
        let owner = self.processes[process].number;
        let handle = || request::<calls::Handle>(bytes).map(|handle| handle.handle);
        match op {
            Op::DeviceList => Ok(self.device_list(process)),
            Op::PortQuery => self.port_query(process, &request(bytes)?),
            Op::AllocPd => {
                let hca = self.own_hca(process, request::<calls::Hca>(bytes)?.hca)?;
                let pd = self.world.alloc_pd(owner, hca).map_err(convert::errno_of)?;
                Ok(reply(&calls::Handle { handle: pd.0, reserved: 0 }))
            }
            Op::DeallocPd => self.world.dealloc_pd(owner, PdHandle(handle()?)).map(|()| Vec::new()).map_err(convert::errno_of),
            Op::RegisterMr => self.register_mr(process, &request(bytes)?),
            Op::DeregisterMr => self.deregister_mr(process, MrHandle(handle()?)),
            Op::CreateCq => self.create_cq(process, &request(bytes)?),
            Op::DestroyCq => self.destroy_cq(process, handle()?),
            Op::CreateChannel | Op::CreateAsyncChannel => self.create_channel(process, op, request::<calls::Hca>(bytes)?.hca),
            Op::ChannelRead | Op::AsyncRead => self.read_channel(process, request::<calls::Object>(bytes)?.object),
            Op::CreateAh => {
                let ah: calls::CreateAh = request(bytes)?;
                let vector = convert::vector(&ah.vector)?;
                let ah = self.world.create_ah(owner, PdHandle(ah.pd), vector).map_err(convert::errno_of)?;
                Ok(reply(&calls::Handle { handle: ah.0, reserved: 0 }))
            }
            Op::DestroyAh => self.world.destroy_ah(owner, AhHandle(handle()?)).map(|()| Vec::new()).map_err(convert::errno_of),
            Op::CreateQp | Op::ModifyQp | Op::QueryQp | Op::DestroyQp => self.qp_verb(process, op, bytes),
            _ => Err(libc::ENOSYS),
        }
    }

    /// A program sees its own host's HCAs only.
    fn own_hca(&self, process: usize, hca: u32) -> Result<HcaId, i32> {
        let host = self.processes[process].host;
        let count = self.world.spec().hosts[host].hcas.len();
        (0..count).map(|index| self.world.hca_id(host, index)).find(|own| own.0 == hca).ok_or(libc::ENODEV)
    }

    fn device_list(&self, process: usize) -> Vec<u8> {
        let host = self.processes[process].host;
        let hcas = &self.world.spec().hosts[host].hcas;
        let mut bytes = reply(&calls::DeviceList { count: hcas.len() as u32, reserved: 0 });
        for (index, spec) in hcas.iter().enumerate() {
            let part = &spec.part;
            bytes.extend(reply(&calls::Device {
                hca: self.world.hca_id(host, index).0,
                vendor_id: part.vendor_id,
                vendor_part_id: part.vendor_part_id,
                hardware_version: part.hardware_version,
                node_guid: spec.node_guid.0,
                name: padded(&spec.device),
                firmware_version: padded(&part.firmware_version),
                board_id: padded(&part.board_id),
                ports: u32::from(part.ports),
                max_qp: part.max_qp,
                max_qp_wr: part.max_qp_wr,
                max_sge: part.max_sge,
                max_cq: part.max_cq,
                max_cqe: part.max_cqe,
                max_mr: part.max_mr,
                max_pd: part.max_pd,
                max_ah: part.max_ah,
                max_inline: part.max_inline_bytes,
                max_rd_atomic: part.max_rd_atomic,
                max_srq: part.optional.max_srq,
                max_srq_wr: part.optional.max_srq_wr,
                max_srq_sge: part.optional.max_srq_sge,
                max_xrcd: part.optional.max_xrcd,
                max_mw: part.optional.max_mw,
                max_multicast_groups: part.optional.max_multicast_groups,
                max_multicast_members: part.optional.max_multicast_members,
                gid_table_len: part.optional.gid_table_len.max(1),
                on_demand_paging: u32::from(part.optional.on_demand_paging),
            }));
        }
        bytes
    }

    fn port_query(&self, process: usize, query: &calls::PortQuery) -> Answer {
        let hca = self.own_hca(process, query.hca)?;
        let number = u8::try_from(query.port).map_err(|_| libc::EINVAL)?;
        let port = self.world.port(hca, PortNumber(number)).ok_or(libc::EINVAL)?;
        Ok(reply(&calls::PortReply {
            state: if port.active { 4 } else { 1 },
            lid: u32::from(port.lid.0),
            sm_lid: u32::from(port.sm_lid.0),
            mtu_max_code: convert::mtu_code(port.mtu_max),
            mtu_active_code: convert::mtu_code(port.mtu_active),
            vl_cap_code: u32::from(port.vl_cap.code()),
            width_code: u32::from(port.width_code),
            speed_code: u32::from(port.speed_code),
            physical_state: if port.active { 5 } else { 2 },
            reserved: 0,
            gid: port.gid.0,
        }))
    }

    fn register_mr(&mut self, process: usize, mr: &calls::RegisterMr) -> Answer {
        let hca = self.own_hca(process, mr.hca)?;
        let owner = self.processes[process].number;
        let access = convert::access(mr.access)?;
        let init = MrInit { owner, pd: PdHandle(mr.pd), address: mr.address, len_bytes: mr.len_bytes, iova: mr.iova, access };
        let (handle, lkey, rkey) = self.world.register_mr(hca, init).map_err(convert::errno_of)?;
        self.processes[process].remotely_writable += u32::from(access.remote_write || access.remote_atomic);
        Ok(reply(&calls::RegisterMrReply { handle: handle.0, lkey: lkey.0, rkey: rkey.0, reserved: 0 }))
    }

    fn deregister_mr(&mut self, process: usize, mr: MrHandle) -> Answer {
        let owner = self.processes[process].number;
        // Bytes that have been accepted must be there before the program may unmap their place.
        self.memory.flush(owner);
        self.world.deregister_mr(owner, mr).map_err(convert::errno_of)?;
        Ok(Vec::new())
    }

    fn create_cq(&mut self, process: usize, cq: &calls::CreateCq) -> Answer {
        let hca = self.own_hca(process, cq.hca)?;
        if cq.channel != 0 {
            self.held(process, cq.channel)?;
        }
        let owner = self.processes[process].number;
        let handle = self.world.create_cq(owner, hca, cq.entries).map_err(convert::errno_of)?;
        let capacity = cq.entries.max(1);
        let Some(offset) = self.processes[process].shared.allocate_ring(capacity) else {
            let _ = self.world.destroy_cq(owner, handle);
            return Err(libc::ENOMEM);
        };
        let record = CqRecord { process, hca: cq.hca, offset, capacity, channel: cq.channel, cookie: cq.cookie, events: 0 };
        self.cqs.insert(handle.0, record);
        Ok(reply(&calls::CreateCqReply { handle: handle.0, capacity, ring_offset: offset as u64 }))
    }

    fn destroy_cq(&mut self, process: usize, cq: u32) -> Answer {
        let owner = self.processes[process].number;
        self.world.destroy_cq(owner, CqHandle(cq)).map_err(convert::errno_of)?;
        let Some(record) = self.cqs.remove(&cq) else { return Err(libc::EINVAL) };
        self.processes[process].shared.free_ring(record.offset, record.capacity);
        if let Some(channel) = self.objects.get_mut(record.channel) {
            drop_events_of(channel, cq);
        }
        Ok(reply(&calls::Count { count: record.events }))
    }

    fn create_channel(&mut self, process: usize, op: Op, hca: u32) -> Answer {
        let hca = self.own_hca(process, hca)?;
        let object = match op {
            Op::CreateChannel => Object::CompletionChannel(Default::default()),
            _ => Object::AsyncChannel { process: process as u32, hca: hca.0, events: Default::default() },
        };
        let object = self.objects.add(object);
        self.hold(process, object);
        Ok(reply(&calls::Object { object, reserved: 0 }))
    }

    fn read_channel(&mut self, process: usize, object: u32) -> Answer {
        let object = self.held(process, object)?;
        let now = self.now;
        match self.objects.get_mut(object) {
            Some(Object::CompletionChannel(events)) if events.front().is_some_and(|(at, ..)| *at <= now) => {
                let (_, cookie, cq) = events.pop_front().ok_or(libc::EAGAIN)?;
                Ok(reply(&calls::ChannelEvent { cookie, cq, reserved: 0 }))
            }
            Some(Object::AsyncChannel { events, .. }) if events.front().is_some_and(|(at, ..)| *at <= now) => {
                let (_, event, element) = events.pop_front().ok_or(libc::EAGAIN)?;
                Ok(reply(&calls::AsyncEvent { event, element }))
            }
            Some(Object::CompletionChannel(_) | Object::AsyncChannel { .. }) => Err(libc::EAGAIN),
            _ => Err(libc::EINVAL),
        }
    }

    fn qp_verb(&mut self, process: usize, op: Op, bytes: &[u8]) -> Answer {
        let owner = self.processes[process].number;
        let snapshot = match op {
            Op::CreateQp => {
                let fields: calls::QpFields = request(bytes)?;
                let hca = self.own_hca(process, fields.hca)?;
                let init = convert::qp_init(&fields)?;
                (fields.hca, self.world.create_qp(owner, hca, init))
            }
            Op::ModifyQp => {
                let modify: calls::ModifyQp = request(bytes)?;
                let hca = self.own_hca(process, modify.fields.hca)?;
                let change = convert::modification(modify.mask, &modify.fields)?;
                (modify.fields.hca, self.world.modify_qp(self.now, owner, hca, Qpn(modify.fields.qpn), &change))
            }
            _ => {
                let name: calls::QpName = request(bytes)?;
                let hca = self.own_hca(process, name.hca)?;
                if op == Op::DestroyQp {
                    self.world.destroy_qp(self.now, owner, hca, Qpn(name.qpn)).map_err(convert::errno_of)?;
                    return Ok(Vec::new());
                }
                (name.hca, self.world.query_qp(owner, hca, Qpn(name.qpn)))
            }
        };
        let (hca, qp) = snapshot;
        Ok(reply(&convert::qp_fields(hca, &qp.map_err(convert::errno_of)?)))
    }

    /// Takes what a thread has posted since its last turn and schedules it at the times at which it was posted.
    pub(crate) fn take_posts(&mut self, process: usize, slot: u32) {
        let mut posted = std::mem::take(&mut self.posted);
        self.processes[process].shared.take_posted(slot, &mut posted);
        let mut at = 0;
        while at < posted.len() {
            match parse_post(&posted[at..]) {
                Some((record, entries, inline, len)) => {
                    self.post(process, &record, &entries, inline);
                    at += len;
                }
                None => {
                    let whose = self.command_of(process);
                    self.warnings.push(format!("{whose} posted work that makes no sense; it was dropped"));
                    break;
                }
            }
        }
        self.posted = posted;
    }

    fn post(&mut self, process: usize, record: &PostRecord, entries: &[PostSge], inline: &[u8]) {
        let owner = self.processes[process].number;
        let Ok(hca) = self.own_hca(process, record.hca) else { return };
        // A lying program cannot post into the past.
        let at = program_time(record.time_ps).unwrap_or(END).max(self.now).max(self.world.now());
        let qpn = Qpn(record.object);
        match record.kind {
            kind::SEND => {
                let datagram = self.world.query_qp(owner, hca, qpn).is_ok_and(|qp| qp.init.qp_type == QpType::Ud);
                if let Some(send) = convert::send_request(record, entries, inline, datagram) {
                    self.world.post_send(at, owner, hca, qpn, send);
                }
            }
            kind::RECEIVE => self.world.post_receive(at, owner, hca, qpn, convert::receive_request(record, entries)),
            kind::ARM_CQ => self.world.arm_cq(at, owner, CqHandle(record.object), record.flags & 1 != 0),
            _ => {}
        }
    }

    /// Passes on what the fabric tells.
    pub(crate) fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Completed { process, cq, completion } => self.completed(process, cq, &completion),
            Notice::CqEvent { process, cq } => self.cq_event(process, cq),
            Notice::CqError { process, cq } => {
                if let Some(hca) = self.cqs.get(&cq.0).map(|record| record.hca) {
                    self.async_event(process, HcaId(hca), EVENT_CQ_ERROR, cq.0);
                }
            }
            Notice::MemoryWritten { process, whole } => self.touch_memory(process, whole),
            Notice::QpEvent { process, hca, qpn, event } => self.async_event(process, hca, event, qpn.0),
            Notice::PortEvent { hca, port, event } => {
                for process in 0..self.processes.len() as u32 {
                    self.async_event(ProcessId(process), hca, event, u32::from(port.0));
                }
            }
        }
    }

    fn completed(&mut self, process: ProcessId, cq: CqHandle, completion: &Completion) {
        let Some(record) = self.cqs.get(&cq.0).copied() else { return };
        let cqe = cqe_of(completion, self.now);
        if self.processes[record.process].shared.produce(record.offset, record.capacity, cqe) {
            self.touch(process);
        } else {
            // The World answers with a notice of the CQ's error.
            self.world.overflow_cq(self.now, cq);
        }
    }

    fn cq_event(&mut self, process: ProcessId, cq: CqHandle) {
        let wakeup = self.wakeup_of(process);
        let Some(record) = self.cqs.get_mut(&cq.0) else { return };
        record.events += 1;
        let (channel, cookie) = (record.channel, record.cookie);
        let at = self.now + wakeup;
        if let Some(Object::CompletionChannel(events)) = self.objects.get_mut(channel) {
            events.push_back((at, cookie, cq.0));
            self.queue.push(at, u32::MAX, Event::ObjectChanged { object: channel });
        }
    }

    fn async_event(&mut self, process: ProcessId, hca: HcaId, event: u32, element: u32) {
        let at = self.now + self.wakeup_of(process);
        for channel in self.objects.async_channel(process.0, hca.0) {
            if let Some(Object::AsyncChannel { events, .. }) = self.objects.get_mut(channel) {
                events.push_back((at, event, element));
                self.queue.push(at, u32::MAX, Event::ObjectChanged { object: channel });
            }
        }
    }

    fn wakeup_of(&self, process: ProcessId) -> SimDuration {
        self.world.spec().hosts[self.processes[process.0 as usize].host].part.event_wakeup
    }
}

fn padded(text: &str) -> [u8; 64] {
    let mut bytes = [0; 64];
    let len = text.len().min(63);
    bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
    bytes
}

fn cqe_of(completion: &Completion, now: SimTime) -> Cqe {
    let receive = completion.opcode as u32 >= 128;
    Cqe {
        wr_id: completion.wr_id,
        time_ps: now.as_picos(),
        status: completion.status as u32,
        opcode: completion.opcode as u32,
        byte_len: completion.byte_len,
        immediate: completion.immediate.unwrap_or(0),
        qpn: completion.qpn.0,
        source_qpn: completion.source_qpn.0,
        flags: (u32::from(completion.has_grh) * flags::GRH)
            | (u32::from(completion.immediate.is_some()) * flags::WITH_IMMEDIATE)
            | (u32::from(receive) * flags::RECEIVE),
        send_retired: completion.send_retired,
        pkey_index: completion.pkey_index,
        source_lid: completion.source_lid.0,
        service_level: completion.service_level.0,
        path_bits: 0,
        reserved: [0; 2],
        vendor_error: 0,
        reserved2: 0,
    }
}

/// One record with its entries and inline bytes, and how long it is. `None` for nonsense.
fn parse_post(bytes: &[u8]) -> Option<(PostRecord, Vec<PostSge>, &[u8], usize)> {
    let record: PostRecord = request(bytes).ok()?;
    let (count, inline_len) = (record.sge_count as usize, record.inline_len as usize);
    if count > bytes.len() || inline_len > bytes.len() {
        return None;
    }
    let len = record_bytes(count, inline_len);
    let rest = bytes.get(size_of::<PostRecord>()..len)?;
    let (entries, tail) = rest.split_at(count * size_of::<PostSge>());
    let entries = entries.chunks_exact(size_of::<PostSge>()).map(bytemuck::pod_read_unaligned).collect();
    Some((record, entries, &tail[..inline_len], len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_with_absurd_counts_is_nonsense_and_not_a_crash() {
        let mut record: PostRecord = bytemuck::Zeroable::zeroed();
        record.sge_count = u32::MAX;
        assert!(parse_post(bytemuck::bytes_of(&record)).is_none());
        record.sge_count = 0;
        record.inline_len = 9;
        assert!(parse_post(bytemuck::bytes_of(&record)).is_none());
        record.inline_len = 0;
        assert!(parse_post(bytemuck::bytes_of(&record)).is_some());
        assert!(parse_post(&bytemuck::bytes_of(&record)[..10]).is_none());
    }
}
