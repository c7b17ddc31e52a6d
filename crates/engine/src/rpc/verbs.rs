//! Verbs calls: passes them from the protocol to the World.

use crate::engine::{Engine, Event, Pace};
use crate::host::objects::{self, About, Object};
use crate::rpc::calls::{After, Answer, reply, request};
use crate::rpc::convert;
use softband_fabric::notice::Notice;
use softband_ipc::calls::{self, Op};
use softband_model::verbs::api::{PortSnapshot, QpSnapshot};
use softband_sim::{SimDuration, SimTime};
use softband_types::{
    AhHandle, Gid, HcaId, Lid, LinkLayer, MrHandle, MwHandle, PdHandle, PortNumber, ProcessId, QpState, Qpn, SrqHandle, XrcdHandle,
};

/// Returns the LID that programs see; on Ethernet they see none.
pub(crate) fn abi_lid(layer: LinkLayer, lid: Lid) -> Lid {
    if layer == LinkLayer::Ethernet { Lid::NONE } else { lid }
}

/// Returns the index of an Ethernet port's network interface, for programs that request it. Only
/// this index of the interface exists. It is far from those of the machine's own interfaces.
pub(crate) fn interface_index(port: &PortSnapshot) -> u32 {
    const FIRST: u32 = 1 << 16;
    if port.link_layer == LinkLayer::Ethernet && port.active { FIRST + u32::from(port.lid.0) } else { 0 }
}

/// Asynchronous event, numbered as in `enum ibv_event_type`.
const EVENT_CQ_ERROR: u32 = 0;
const PAGE_BYTES: u64 = 4096;

impl Engine {
    /// Carries out a verb that goes through the kernel. The thread pays its time.
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

    /// Carries out a verb after its cost in time. The verb therefore sees completions that arrive
    /// while it is on its way to the HCA.
    pub(crate) fn pay_first(&mut self, process: usize, slot: u32, op: Op, bytes: &[u8]) -> After {
        let record = &mut self.processes[process];
        let paid = &mut record.threads[slot as usize].paid;
        *paid = !*paid;
        if *paid {
            let cost = self.world.spec().hosts[record.host].part.control_verb;
            self.queue.push(self.now + cost, process as u32, Event::Execute { process, slot });
            return After::Nothing;
        }
        self.verb(process, op, bytes).map_or_else(After::Fail, After::Reply)
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
            Op::ReregisterMr => self.reregister_mr(process, &request(bytes)?),
            Op::DeregisterMr => self.deregister_mr(process, MrHandle(handle()?)),
            Op::CreateCq => self.create_cq(process, &request(bytes)?),
            Op::ResizeCq => self.resize_cq(process, &request(bytes)?),
            Op::DestroyCq => self.destroy_cq(process, handle()?),
            Op::CreateChannel | Op::CreateAsyncChannel => self.create_channel(process, op, request::<calls::Hca>(bytes)?.hca),
            Op::ChannelRead | Op::AsyncRead => self.read_channel(process, request::<calls::Object>(bytes)?.object),
            Op::CreateAh => self.create_ah(process, &request(bytes)?),
            Op::DestroyAh => self.world.destroy_ah(owner, AhHandle(handle()?)).map(|()| Vec::new()).map_err(convert::errno_of),
            Op::AllocMw => self.alloc_mw(process, &request(bytes)?),
            Op::DeallocMw => self.world.dealloc_mw(owner, MwHandle(handle()?)).map(|()| Vec::new()).map_err(convert::errno_of),
            Op::OpenXrcd => self.open_xrcd(process, &request(bytes)?),
            Op::CloseXrcd => self.world.close_xrcd(owner, XrcdHandle(handle()?)).map(|()| Vec::new()).map_err(convert::errno_of),
            Op::OpenQp => self.open_qp(process, &request(bytes)?),
            Op::AttachMulticast | Op::DetachMulticast => self.multicast(process, op, &request(bytes)?),
            Op::FindDatagramReceiver => self.find_datagram_receiver(process, &request(bytes)?),
            Op::FindGroup => self.find_group(process, &request(bytes)?),
            Op::EventSocket => self.note_event_socket(process, &request(bytes)?),
            Op::FindXrcQueue => self.find_xrc_queue(process, &request(bytes)?),
            Op::CreateSrq => self.create_srq(process, &request(bytes)?),
            Op::ModifySrq => self.modify_srq(process, &request(bytes)?),
            Op::QuerySrq => self.query_srq(process, SrqHandle(handle()?)),
            Op::DestroySrq => self.destroy_srq(process, SrqHandle(handle()?)),
            Op::CreateQp | Op::ModifyQp | Op::QueryQp | Op::DestroyQp => self.qp_verb(process, op, bytes),
            _ => Err(libc::ENOSYS),
        }
    }

    /// Returns the HCA `hca` if it is on the program's own host. Otherwise returns ENODEV.
    pub(crate) fn own_hca(&self, process: usize, hca: u32) -> Result<HcaId, i32> {
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
                // At least the entries of its first port.
                gid_table_len: part.optional.gid_table_len.max(if spec.link_layer == LinkLayer::Ethernet { 2 } else { 1 }),
                on_demand_paging: u32::from(part.optional.on_demand_paging),
                atomic_write: u32::from(part.optional.atomic_write),
                reserved: 0,
            }));
        }
        bytes
    }

    fn port_query(&self, process: usize, query: &calls::PortQuery) -> Answer {
        let hca = self.own_hca(process, query.hca)?;
        let number = u8::try_from(query.port).map_err(|_| libc::EINVAL)?;
        let port = self.world.port(hca, PortNumber(number)).ok_or(libc::EINVAL)?;
        let mut pkeys = [0; 32];
        for (entry, key) in pkeys.iter_mut().zip(self.world.pkeys(hca)) {
            *entry = key.0;
        }
        Ok(reply(&calls::PortReply {
            state: if port.active { 4 } else { 1 },
            lid: u32::from(abi_lid(port.link_layer, port.lid).0),
            sm_lid: u32::from(abi_lid(port.link_layer, port.sm_lid).0),
            mtu_max_code: convert::mtu_code(port.mtu_max),
            mtu_active_code: convert::mtu_code(port.mtu_active),
            vl_cap_code: if port.link_layer == LinkLayer::Ethernet { 0 } else { u32::from(port.vl_cap.code()) },
            width_code: u32::from(port.rate.width.code()),
            speed_code: convert::speed_code(port.link_layer, port.rate.speed),
            physical_state: if port.active { 5 } else { 2 },
            pkey_count: self.world.pkeys(hca).len() as u32,
            link_layer: convert::link_layer_code(port.link_layer),
            interface_index: interface_index(&port),
            gid_count: port.gids.iter().flatten().count() as u32,
            gids: port.gids.map(|gid| gid.unwrap_or_default().0),
            pkeys,
        }))
    }

    fn create_ah(&mut self, process: usize, wanted: &calls::CreateAh) -> Answer {
        let owner = self.processes[process].number;
        let hca = self.own_hca(process, wanted.hca)?;
        let vector = self.world.resolve(hca, &convert::vector(&wanted.vector)?).map_err(convert::errno_of)?;
        let ah = self.world.create_ah(owner, PdHandle(wanted.pd), vector).map_err(convert::errno_of)?;
        let gids = self.world.port(hca, vector.port).map(|port| port.gids).unwrap_or_default();
        let source = vector.grh.and_then(|route| gids.get(usize::from(route.sgid_index)).copied().flatten()).and_then(Gid::ipv4);
        Ok(reply(&calls::AhReply {
            handle: ah.0,
            dlid: u32::from(vector.dlid.0),
            link_layer: convert::link_layer_code(self.world.link_layer(hca)),
            source_ipv4: source.map_or(0, u32::from_be_bytes),
        }))
    }

    /// Returns a queue pair as its program sees it: on Ethernet without the LID of its peer's GID.
    pub(crate) fn abi_queue_pair(&self, hca: HcaId, qp: &QpSnapshot) -> calls::QpFields {
        let mut fields = convert::qp_fields(hca.0, qp);
        if self.world.link_layer(hca) == LinkLayer::Ethernet {
            fields.vector.dlid = 0;
        }
        fields
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
                if let Some(record) = self.cqs.get_mut(&cq) {
                    record.unread = record.unread.saturating_sub(1);
                }
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
        let mut since_ps = 0;
        let snapshot = match op {
            Op::CreateQp => {
                let fields: calls::QpFields = request(bytes)?;
                let hca = self.own_hca(process, fields.hca)?;
                let init = convert::qp_init(&fields)?;
                let made = self.world.create_qp(owner, hca, init);
                since_ps = self.begin_anew();
                if let Ok(qp) = &made {
                    self.make_receive_queue(process, hca, qp);
                    self.note_user_of_shared_queue(hca, qp);
                }
                (fields.hca, made)
            }
            Op::ModifyQp => {
                let modify: calls::ModifyQp = request(bytes)?;
                let hca = self.own_hca(process, modify.fields.hca)?;
                let change = convert::modification(modify.mask, &modify.fields)?;
                let qpn = Qpn(modify.fields.qpn);
                let ends = matches!(change.state, Some(QpState::Reset | QpState::Error));
                if ends && self.world.query_qp(owner, hca, qpn).is_ok() {
                    self.take_over_receive_queue(hca, qpn);
                }
                let around = if ends { self.queues_around(hca, qpn) } else { Vec::new() };
                let changed = self.world.modify_qp(self.now, owner, hca, qpn, &change);
                if changed.as_ref().is_ok_and(|qp| qp.state == QpState::Reset) {
                    since_ps = self.begin_anew();
                    self.restart_receive_queue(hca, qpn);
                    self.raise_all_due(&around);
                    self.look_at_limits();
                }
                if change.state.is_some() && self.world.is_in_group(hca, qpn) {
                    self.note_groups_changed(); // the queue pair may have gained or lost its port
                }
                (modify.fields.hca, changed)
            }
            _ => {
                let name: calls::QpName = request(bytes)?;
                let hca = self.own_hca(process, name.hca)?;
                if op == Op::DestroyQp {
                    let around = self.queues_around(hca, Qpn(name.qpn));
                    self.world.destroy_qp(self.now, owner, hca, Qpn(name.qpn)).map_err(convert::errno_of)?;
                    self.publish_queue_pair(hca, Qpn(name.qpn));
                    self.drop_receive_queue(hca, Qpn(name.qpn));
                    self.raise_all_due(&around);
                    self.look_at_limits();
                    return Ok(self.drop_async_events(owner, hca, About::QueuePair, name.qpn));
                }
                (name.hca, self.world.query_qp(owner, hca, Qpn(name.qpn)))
            }
        };
        let (hca, qp) = (snapshot.0, snapshot.1.map_err(convert::errno_of)?);
        if op != Op::QueryQp {
            self.publish_queue_pair(HcaId(hca), qp.qpn);
        }
        if since_ps != 0 {
            self.direct.set_since(HcaId(hca), qp.qpn, since_ps);
        }
        let direct = self.direct.entry_of(HcaId(hca), qp.qpn);
        Ok(reply(&calls::QpFields { direct, since_ps: [since_ps as u32, (since_ps >> 32) as u32], ..self.abi_queue_pair(HcaId(hca), &qp) }))
    }

    /// Returns a moment after every completion so far, in wall pace. It separates completions of a
    /// new queue pair from those of a former queue pair with its number. In simulated time the time
    /// of the answer separates them.
    fn begin_anew(&mut self) -> u64 {
        if self.pace != Pace::Wall {
            return 0;
        }
        self.now = SimTime::from_picos(self.now.max(self.world.now()).as_picos() + 1);
        self.now.as_picos()
    }

    /// Passes on a notice of the fabric.
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
            Notice::QpEvent { process, hca, qpn, event } => {
                self.publish_queue_pair(hca, qpn);
                if self.world.find_qp(hca, qpn).is_some() {
                    self.async_event(process, hca, event, qpn.0);
                }
            }
            // Programs do not get events of an object that no longer exists.
            Notice::SrqEvent { process, hca, srq, event } if self.world.query_srq(process, srq).is_ok() => {
                self.async_event(process, hca, event, srq.0);
            }
            // The engine keeps its own wake-ups.
            Notice::SrqEvent { .. } | Notice::Wakeup { .. } => {}
            Notice::Deadlock { waits, is_broken_up } => self.deadlocked(waits, is_broken_up),
            Notice::HostDied { host } => self.host_died(host),
            Notice::PortEvent { hca, port, event } => {
                self.port_changed(hca, port);
                self.note_groups_changed();
                let mut nth = 0;
                while let Some(process) = self.processes.nth_living(nth) {
                    nth += 1;
                    self.async_event(ProcessId(process as u32), hca, event, u32::from(port.0));
                }
            }
        }
    }

    /// Handles a deadlock. In simulated time a permanent deadlock ends the run. In wall pace
    /// programs may not need the stuck packets.
    fn deadlocked(&mut self, waits: String, is_broken_up: bool) {
        if is_broken_up {
            self.warn(format!(
                "deadlock in the fabric: {waits}; switches discard packets there when head_of_queue_lifetime or packet_life_time is over"
            ));
        } else if self.pace == Pace::Virtual {
            self.deadlock.get_or_insert(waits);
        } else {
            self.warn(format!("deadlock in the fabric: {waits}; with head_of_queue_lifetime = 18 switches would discard packets there"));
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

    /// Drops the unread events of a destroyed object, and replies with their number.
    pub(crate) fn drop_async_events(&mut self, process: ProcessId, hca: HcaId, about: About, element: u32) -> Vec<u8> {
        let channels = self.objects.async_channel(process.0, hca.0);
        let mut count = 0;
        for channel in &channels {
            count += self.objects.get_mut(*channel).map_or(0, |channel| objects::drop_async_events(channel, about, element)) as u64;
        }
        // Each of several contexts got the events, and the program cannot match them to contexts.
        reply(&calls::Count { count: if channels.len() == 1 { count } else { 0 } })
    }

    pub(crate) fn wakeup_of(&self, process: ProcessId) -> SimDuration {
        if self.pace == Pace::Wall {
            return SimDuration::ZERO; // in wall pace a wakeup costs the host's own time
        }
        self.world.spec().hosts[self.processes[process.0 as usize].host].part.event_wakeup
    }
}

fn padded(text: &str) -> [u8; 64] {
    let mut bytes = [0; 64];
    let len = text.len().min(63);
    bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
    bytes
}
