//! MAD devices of programs.

use crate::host::mads::{MESSAGE_BYTES_MAX, Port, PortFacts, Registration, Times};
use crate::host::objects::Object;
use crate::host::ports::management_ports;
use crate::protocol::Caller;
use crate::rpc::room::Verbs;
use crate::scheduler::agenda::Event;
use softband_fabric::World;
use softband_ipc::calls::{self, MadAgent, MadAgentName, MadOpen, MadReceive, MadReceived, MadSend, WithTail, readiness};
use softband_ipc::layout::PAYLOAD_BYTES;
use softband_model::management::ManagementPacket;
use softband_sim::SimDuration;
use softband_types::HcaId;
use softband_wire::mad::{Header, Layout, ManagementClass};

impl Verbs<'_> {
    pub(crate) fn mad_open(&mut self, caller: Caller, wanted: &MadOpen) -> Result<calls::Object, i32> {
        let ports = management_ports(self.world, self.processes[caller.process].host());
        let port = *ports.get(wanted.device as usize).ok_or(libc::ENXIO)?;
        let object = self.host.add(Object::ManagementDevice);
        let table = self.host.mads_mut();
        let opened = if wanted.is_manager == 0 { table.open(object, port) } else { table.open_manager(object, port) };
        if let Err(errno) = opened {
            self.host.release(object, self.scheduler.now(), |_| unreachable!("the object is no socket"));
            return Err(errno);
        }
        self.processes[caller.process].hold(object);
        self.world.announce_managers(self.host.mads().ports_with_sm());
        Ok(calls::Object { object, reserved: 0 })
    }

    pub(crate) fn mad_register(&mut self, caller: Caller, wanted: &MadAgent) -> Result<MadAgent, i32> {
        let object = self.processes[caller.process].held(wanted.object)?;
        let byte = |value: u32| u8::try_from(value).map_err(|_| libc::EINVAL);
        let registration = Registration {
            qpn: wanted.qpn,
            class: byte(wanted.class)?,
            class_version: byte(wanted.class_version)?,
            methods: u128::from(wanted.methods[0]) | u128::from(wanted.methods[1]) << 64,
            oui: wanted.oui,
            rmpp_version: byte(wanted.rmpp_version)?,
            has_own_rmpp: wanted.own_rmpp != 0,
        };
        let id = self.host.mads_mut().register(object, registration, wanted.is_newer != 0)?;
        Ok(MadAgent { id, ..*wanted })
    }

    pub(crate) fn mad_unregister(&mut self, caller: Caller, agent: &MadAgentName) -> Result<(), i32> {
        let object = self.processes[caller.process].held(agent.object)?;
        self.host.mads_mut().unregister(object, agent.id)
    }

    pub(crate) fn mad_enable_pkey(&mut self, caller: Caller, file: &calls::Object) -> Result<(), i32> {
        let object = self.processes[caller.process].held(file.object)?;
        self.host.mads_mut().enable_pkey_index(object)
    }

    pub(crate) fn mad_send(&mut self, caller: Caller, request: &WithTail<MadSend, u8>) -> Result<(), i32> {
        let head = &request.head;
        let object = self.processes[caller.process].held(head.object)?;
        let port = self.host.mads().port_of(object).ok_or(libc::EBADF)?;
        let thread = (caller.process, caller.slot);
        let part = request.tail.get(..head.len as usize).ok_or(libc::EPROTO)?;
        let record = self.host.outgoing_part(thread, head.offset as usize, part, MESSAGE_BYTES_MAX)?;
        if head.more != 0 {
            self.host.keep_outgoing(thread, record);
            return Ok(());
        }
        self.send_record(object, port, &record)
    }

    fn send_record(&mut self, object: u32, port: Port, record: &[u8]) -> Result<(), i32> {
        let lid = self.world.port(port.0, port.1).map(|port| port.lid).unwrap_or_default();
        let facts = PortFacts { lid, pkeys: self.world.pkeys(port.0) };
        self.host.mads_mut().send(object, record, facts, self.scheduler.now())?;
        self.send_mads();
        Ok(())
    }

    /// Sends a MAD that a program at wall pace has posted. The program awaits no reply, so a MAD that
    /// cannot leave comes back as if its answer were late.
    pub(crate) fn mad_posted(&mut self, process: usize, object: u32, record: &[u8]) {
        let Ok(object) = self.processes[process].held(object) else { return };
        let Some(port) = self.host.mads().port_of(object).filter(|_| self.scheduler.is_wall()) else { return };
        if !self.host.mads_mut().takes_post(object, record) {
            return;
        }
        if self.send_record(object, port, record).is_ok() {
            return;
        }
        let now = self.scheduler.now();
        if let Some(object) = self.host.mads_mut().send_back(object, record, now) {
            self.scheduler.push(now, u32::MAX, Event::ObjectChanged { object, edge: readiness::READABLE });
        }
    }

    pub(crate) fn mad_receive(&mut self, caller: Caller, request: &MadReceive) -> Result<WithTail<MadReceived, u8>, i32> {
        let object = self.processes[caller.process].held(request.object)?;
        let thread = (caller.process, caller.slot);
        let mut error = 0;
        if request.offset == 0 {
            let taken = self.host.mads_mut().receive(object, request.room as usize, self.scheduler.now());
            if taken.as_ref().map_or_else(|errno| *errno != libc::EAGAIN, |taken| taken.error != 0) {
                self.note_mad_left(object);
            }
            let taken = taken?;
            error = taken.error;
            self.host.keep_taken_mad(thread, taken.bytes);
        }
        let record = self.host.taken_mad(thread).ok_or(libc::EPROTO)?;
        let whole = record.len();
        let rest = record.get(request.offset as usize..).ok_or(libc::EPROTO)?;
        let part = rest[..rest.len().min(PAYLOAD_BYTES - size_of::<MadReceived>())].to_vec();
        if part.len() == rest.len() {
            self.host.drop_taken_mad(thread);
        }
        Ok(WithTail { head: MadReceived { len: part.len() as u32, whole: whole as u32, error: error as u32, reserved: 0 }, tail: part })
    }

    /// Announces a MAD again that its reader left. In wall pace the reader took the byte that
    /// announced it.
    fn note_mad_left(&mut self, object: u32) {
        let is_readable = self.host.mads().readiness(object, self.scheduler.now()) & readiness::READABLE != 0;
        if self.scheduler.is_wall() && is_readable {
            self.host.mads_mut().note_left(object);
            // Before the reply: the reader may look for the byte at once.
            self.plane().tell_of_event(object);
        }
    }

    /// Hands a MAD that has arrived at a port to its agent.
    pub(crate) fn mad_arrived(&mut self, port: Port, packet: &ManagementPacket) {
        let lid = self.world.port(port.0, port.1).map(|port| port.lid).unwrap_or_default();
        let facts = PortFacts { lid, pkeys: self.world.pkeys(port.0) };
        let now = self.scheduler.now();
        let visible = now + wakeup(self.world, self.scheduler.is_wall(), port.0);
        if let Some(object) = self.host.mads_mut().arrive(port, packet, facts, Times { now, visible }) {
            self.scheduler.push(visible, u32::MAX, Event::ObjectChanged { object, edge: readiness::READABLE });
        }
        self.send_mads();
    }

    /// Repeats requests without answers, and reports those that have no retries left.
    pub(crate) fn mads_expire(&mut self) {
        let now = self.scheduler.now();
        let (world, is_wall) = (&*self.world, self.scheduler.is_wall());
        let reports = self.host.mads_mut().expire(now, |hca| now + wakeup(world, is_wall, hca));
        for (visible, object) in reports {
            self.scheduler.push(visible, u32::MAX, Event::ObjectChanged { object, edge: readiness::READABLE });
        }
        self.send_mads();
    }

    /// Sends the packets that the last operation has left, and schedules the next deadline.
    fn send_mads(&mut self) {
        // A harness makes calls between events of the World.
        let now = self.scheduler.now().max(self.world.now());
        let packets = self.host.mads_mut().take_outgoing();
        if packets.iter().any(|(_, packet)| is_about_counters(packet)) {
            self.plane().count_direct_traffic(); // before the answer
        }
        for ((hca, port), packet) in packets {
            self.world.send_management(hca, port, packet, now);
        }
        // In wall pace the main loop looks at the deadline.
        if !self.scheduler.is_wall()
            && let Some(at) = self.host.mads_mut().take_due()
        {
            self.scheduler.push(at.max(now), u32::MAX, Event::MadsExpire);
        }
    }
}

/// Checks whether a packet goes to the performance management of a node.
fn is_about_counters(packet: &ManagementPacket) -> bool {
    Header::view(&packet.mad[..]).mgmt_class() == ManagementClass::PERFORMANCE
}

/// Returns the delay of a MAD on its way to a program. In wall pace a wakeup costs the host's own
/// time.
fn wakeup(world: &World, is_wall: bool, hca: HcaId) -> SimDuration {
    let (host, _) = world.place_of(hca);
    if is_wall { SimDuration::ZERO } else { world.spec().hosts[host].part.event_wakeup }
}
