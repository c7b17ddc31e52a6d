//! Kernels of hosts with modelled network interfaces: their events, and news of sockets.

use crate::host::kernel::Kernels;
use crate::rpc::host_calls::HostCalls;
use crate::scheduler::agenda::Event;
use softband_fabric::notice::Notice;
use softband_ipc::calls::readiness;
use softband_model::management::ManagementPacket;
use softband_net::Events;
use softband_sim::SimTime;
use softband_types::{HcaId, PortNumber};

/// Node number of the kernels' events in the order of events, after all processes.
const NODE: u32 = u32::MAX;

impl HostCalls<'_> {
    /// Returns the time of the kernels for an event at `at`. In wall pace it is the model's own: the
    /// engine may be behind the clock for a while, and cores must not be behind the links then.
    fn kernels_now(&mut self, at: SimTime) -> SimTime {
        self.host.relay_mut().map_or(self.scheduler.now(), |(relay, _)| relay.advance_to(at))
    }

    /// Executes the events of kernels that are due.
    pub(crate) fn kernels_due(&mut self) {
        let next = self.kernels.as_ref().and_then(Kernels::next_time).unwrap_or(SimTime::ZERO);
        let now = self.kernels_now(next);
        if let Some(kernels) = self.kernels {
            kernels.run(self.world, now);
        }
        self.settle_kernels();
    }

    /// Stops the kernel of a host that has died.
    pub(crate) fn kernel_died(&mut self, host: usize) {
        if let Some(kernels) = self.kernels {
            kernels.host_died(host);
        }
        self.relay_host_died(host);
    }

    /// Passes a notice about an object of a kernel on. The kernel needs completions and frames only.
    pub(crate) fn kernel_notice(&mut self, notice: &Notice) {
        let now = self.kernels_now(self.world.now());
        let Some(kernels) = &mut *self.kernels else { return };
        match notice {
            Notice::Completed { cq, completion, .. } => kernels.completed(self.world, now, *cq, completion),
            Notice::FrameSent { hca, port } => kernels.frame_sent(self.world, now, (*hca, *port)),
            Notice::FrameArrived { hca, port, frame } => kernels.frame_arrived(self.world, now, (*hca, *port), frame.clone()),
            _ => return,
        }
        self.settle_kernels();
    }

    /// Hands a MAD that has arrived at a port to the kernels. Returns whether one has asked for it.
    pub(crate) fn kernels_take(&mut self, port: (HcaId, PortNumber), packet: &ManagementPacket) -> bool {
        let now = self.kernels_now(self.world.now());
        let is_taken = self.kernels.as_mut().is_some_and(|kernels| kernels.arrived(self.world, now, port, packet));
        self.settle_kernels();
        is_taken
    }

    /// Tells the kernels of an event of a port.
    pub(crate) fn kernels_port_event(&mut self, port: (HcaId, PortNumber), event: u32) {
        let now = self.kernels_now(self.world.now());
        if let Some(kernels) = self.kernels {
            kernels.port_event(self.world, now, port, event);
            self.settle_kernels();
        }
    }

    /// Announces news of sockets to programs, and schedules the next event of the kernels. Follows
    /// each use of the kernels.
    pub(crate) fn settle_kernels(&mut self) {
        let Some(kernels) = &mut *self.kernels else { return };
        let now = self.scheduler.now();
        // In wall pace the main loop runs the kernels, and all their sockets are relayed.
        if let Some((relay, _)) = self.host.relay_mut() {
            kernels.take_news().into_iter().for_each(|(_, host, socket, _)| relay.hear(host, socket));
            return;
        }
        let due = kernels.take_due();
        let news: Vec<_> = kernels.take_news();
        let objects: Vec<_> = news.iter().map(|(_, host, socket, _)| kernels.object_of(*host, *socket)).collect();
        for ((at, host, _, events), object) in news.into_iter().zip(objects) {
            if let Some(object) = object {
                self.announce((at.max(now), host), object, events);
            }
        }
        if let Some(at) = due {
            self.scheduler.push(at.max(now), NODE, Event::KernelsDue);
        }
    }

    /// Announces news of a socket. A sleeping thread wakes up later than the kernel has news for it.
    fn announce(&mut self, (at, host): (SimTime, usize), object: u32, events: Events) {
        let wakes_at = at + self.world.spec().hosts[host].part.event_wakeup;
        // A thread that looks before sees the news. Readiness and edge change together: a look that
        // knew the edge alone would take it for reported.
        self.look_at_stack(object);
        self.host.note_edge(object, edge_of(events));
        self.scheduler.push(wakes_at, NODE, Event::ObjectChanged { object, edge: 0 });
        if let Some(owner) = self.host.stack_sockets().owner(object).filter(|_| events.intersects(Events::URGENT)) {
            self.scheduler.set_alarm(self.processes, owner, libc::SIGURG as u32, (wakes_at.as_picos(), 0));
        }
    }
}

/// Returns the readiness bits that events of a socket concern.
fn edge_of(events: Events) -> u32 {
    let pairs = [
        (Events::READABLE, readiness::READABLE),
        (Events::WRITABLE | Events::CONNECTED, readiness::WRITABLE),
        (Events::ERROR, readiness::ERROR),
        (Events::HANG_UP | Events::GONE | Events::LINGERED, readiness::HANG_UP),
        (Events::READ_CLOSED, readiness::PEER_ENDED),
        (Events::URGENT, readiness::ANY),
    ];
    pairs.into_iter().filter(|(event, _)| events.intersects(*event)).fold(0, |bits, (_, bit)| bits | bit)
}
