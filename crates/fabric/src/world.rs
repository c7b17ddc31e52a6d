//! The World: all state of a fabric, and the events that change it.

use crate::event::Event;
use crate::faults::{Faults, Loss};
use crate::hca::queue_pairs::{Post, QpSlot};
use crate::hca::receive::InFlight;
use crate::hca::send_engine::Work;
use crate::hca::transfers::Transfers;
use crate::link::port::Port;
use crate::notice::Notice;
use crate::pdes::partition::OwnPartition;
use crate::pdes::timeline::Timeline;
use crate::slab::Slab;
use softband_model::bus::{Bus, MemoryController, SharedBus};
use softband_model::link::{FlowControl, Framing};
use softband_model::management::Routes;
use softband_model::packet::{Packet, PacketPool};
use softband_model::parts::HcaPart;
use softband_model::switch::Switch;
use softband_model::transport::InjectionSettings;
use softband_model::verbs::api::{Completion, HostMemory, PortSnapshot};
use softband_model::verbs::{ChunkPool, Verbs};
use softband_sim::{RandomStream, SimDuration, SimTime};
use softband_spec::FabricSpec;
use softband_types::{CqHandle, Guid, HcaId, Lid, LinkRate, LinkSpeed, LinkWidth, PKey, PortNumber, ProcessId, ServiceLevel, VirtualLane};
use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;

/// A fabric in motion. It reads no clock: callers pass the time to verbs, and `step` executes the
/// next event.
pub struct World {
    pub(crate) spec: FabricSpec,
    pub(crate) queue: Timeline,
    /// Nodes whose events this World executes.
    pub(crate) partition: OwnPartition,
    /// Ports whose packets have waited so long that the whole fabric needs a deadlock check.
    pub(crate) deadlock_checks: Vec<u32>,
    pub(crate) verbs: Verbs,
    pub(crate) chunks: ChunkPool,
    pub(crate) packet_pool: PacketPool,
    pub(crate) hcas: Vec<Hca>,
    /// Controllers, one per host, in the order of the file.
    pub(crate) memories: Vec<MemoryController>,
    pub(crate) buses: Vec<SharedBus>,
    pub(crate) switches: Vec<SwitchNode>,
    /// Rates and framings of the links, indexed by link kind.
    pub(crate) kinds_of_links: Vec<(LinkRate, Framing)>,
    /// Ports of all HCAs, then of all switches.
    pub(crate) ports: Vec<Port>,
    /// Queue pairs by a number that is never reused.
    pub(crate) qps: Vec<Option<Box<QpSlot>>>,
    pub(crate) packets: Slab<Transit>,
    pub(crate) dma_writes: Slab<InFlight>,
    pub(crate) posts: Slab<Post>,
    /// Queue pairs that events refer to.
    pub(crate) qp_refs: Slab<QpRef>,
    pub(crate) completions: Slab<(ProcessId, CqHandle, Completion)>,
    pub(crate) reports: Slab<Notice>,
    pub(crate) copies_left: Slab<u32>,
    /// Payload bytes that this World's HCAs have accepted.
    pub(crate) delivered_bytes: u64,
    pub(crate) transfers: Transfers,
    pub(crate) sm_lid: Lid,
    pub(crate) routes: Routes,
    /// The first port with each LID.
    pub(crate) port_of_lid: Vec<Option<u32>>,
    /// The switch that the end port with a LID is cabled to; `None` without a switch.
    pub(crate) leaf_of_lid: Vec<Option<u32>>,
    /// Packets lost on arrival, in parts per million.
    pub(crate) loss_ppm: u32,
    pub(crate) random: RandomStream,
    pub(crate) ack_wait_max: Option<SimDuration>,
    /// Reported cycles of output ports and lanes that wait for each other.
    pub(crate) deadlocks_told: Vec<Vec<(u32, u8)>>,
    /// The fault plan and its state; `None` without faults.
    pub(crate) faults: Option<Box<Faults>>,
    pub(crate) seed: u64,
    /// Injection control settings of HCAs; `None` without congestion control.
    pub(crate) injection: Option<InjectionSettings>,
}

/// An HCA as a node of the fabric.
pub(crate) struct Hca {
    /// Host, and index of the HCA within it.
    pub place: (usize, usize),
    /// The part with the delays of its slot: see `construct`. Equal HCAs share it.
    pub part: Arc<HcaPart>,
    pub node_guid: Guid,
    pub first_port: u32,
    pub bus: Bus,
    /// Index of the shared bus, which other cards may use too.
    pub shared_bus: u32,
    /// Queue pairs by QPN from the first QPN on; `None` when destroyed.
    pub qp_of_qpn: Vec<Option<u32>>,
    pub qp_count: u32,
    pub engines: Vec<ProcessingEngine>,
    pub ready: VecDeque<Work>,
}

/// An engine that starts messages. All messages of a queue pair use the same engine.
#[derive(Clone, Default)]
pub(crate) struct ProcessingEngine {
    /// Earliest start of the next message.
    pub free: SimTime,
    /// Sum of all gaps between messages.
    pub gaps: SimDuration,
    /// An event for the time when it is free is pending.
    pub waits: bool,
    /// Work whose next packet begins a message, while the engine is busy.
    pub starters: VecDeque<Work>,
}

pub(crate) struct SwitchNode {
    pub switch: Switch,
    pub first_port: u32,
    pub buffer_hold: SimDuration,
}

/// A reference to a queue pair that may outlive it: index and epoch at creation of the reference.
pub(crate) type QpRef = (u32, u32);

/// A packet in flight: the fields of the current hop, on one cache line, and the packet itself for
/// the end nodes.
#[repr(align(64))]
pub(crate) struct Transit {
    pub packet: Box<Packet>,
    /// Arrival times of its first and last bit.
    pub head: SimTime,
    pub tail: SimTime,
    /// Size from LRH to VCRC, or of a whole frame.
    pub bytes: u32,
    /// Time that it occupies the link by which it leaves a switch, in picoseconds.
    pub time_out: u32,
    /// Copied from the packet, so that switches need not read it.
    pub payload_bytes: u16,
    pub dlid: Lid,
    pub service_level: ServiceLevel,
    pub blocks: u16,
    /// Lane on the link by which it arrived.
    pub lane: VirtualLane,
    /// Port by which it arrived; on its way out of an HCA, that HCA's port.
    pub port: u32,
    /// Slab number, plus 1, of a count that the copies of a packet share: the copies still in the
    /// switch.
    pub copies: Option<NonZeroU32>,
    /// Whether it holds a place in the HCA's staging buffer. `completes` names the message (queue
    /// pair and epoch) that its departure completes.
    pub staged: bool,
    pub completes: Option<Box<(u32, u32)>>,
}

impl World {
    /// Builds the fabric, trains its links and runs the small subnet manager: LIDs, forwarding
    /// tables, lanes and MTUs.
    ///
    /// # Panics
    /// Panics if a cable names a port that does not exist. The loader refuses such files.
    pub fn new(spec: &FabricSpec, seed: u64) -> Self {
        crate::construct::world(spec, seed)
    }

    /// Counts payload from now on instead of moving it, for runs whose memory nobody reads.
    pub fn count_payload_only(&mut self) {
        self.chunks = ChunkPool::counting_only();
    }

    pub fn spec(&self) -> &FabricSpec {
        &self.spec
    }

    /// Makes HCAs lose `ppm` of a million arriving packets from now on, as with a bad CRC. The seed
    /// selects the packets.
    pub fn set_packet_loss(&mut self, ppm: u32) {
        self.loss_ppm = ppm;
    }

    /// # Panics
    /// Panics if the fabric file has no such HCA.
    pub fn hca_id(&self, host: usize, hca_index: usize) -> HcaId {
        // HCAs are in the order of the file.
        let index = self.hcas.binary_search_by_key(&(host, hca_index), |hca| hca.place).ok();
        HcaId(index.expect("the caller knows the fabric file") as u32)
    }

    /// Returns the host of an HCA, and the HCA's index within that host.
    ///
    /// # Panics
    /// Panics if `hca` is not part of this fabric.
    pub fn place_of(&self, hca: HcaId) -> (usize, usize) {
        self.hcas[hca.0 as usize].place
    }

    /// # Panics
    /// Panics if `hca` is not part of this fabric.
    pub fn hca_part(&self, hca: HcaId) -> &HcaPart {
        &self.hcas[hca.0 as usize].part
    }

    /// Returns the P_Key table of an HCA's ports, as the subnet manager wrote it.
    pub fn pkeys(&self, hca: HcaId) -> &[PKey] {
        let (host, index) = self.hcas[hca.0 as usize].place;
        &self.spec.hosts[host].hcas[index].pkeys
    }

    pub fn node_guid(&self, hca: HcaId) -> Guid {
        self.hcas[hca.0 as usize].node_guid
    }

    /// Returns the state of a port; `None` if the HCA has no such port.
    pub fn port(&self, hca: HcaId, number: PortNumber) -> Option<PortSnapshot> {
        let node = self.hcas.get(hca.0 as usize)?;
        let index = self.port_index(hca, number)?;
        let port = &self.ports[index as usize];
        let is_up = !self.is_link_down(index);
        let mtu_active = port.cabling.map_or(node.part.mtu_max, |cabling| cabling.mtu);
        Some(PortSnapshot {
            hca,
            active: port.cabling.is_some() && is_up,
            lid: port.lid,
            sm_lid: if port.cabling.is_some() { self.sm_lid } else { Lid::NONE },
            mtu_max: node.part.mtu_max,
            mtu_active,
            vl_cap: node.part.vl_cap,
            rate: port.cabling.map_or(LinkRate { width: LinkWidth::X1, speed: LinkSpeed::Sdr }, |cabling| cabling.rate),
            link_layer: port.framing.link_layer(),
            gids: self.gids(port),
        })
    }

    pub(crate) fn port_index(&self, hca: HcaId, number: PortNumber) -> Option<u32> {
        let node = self.hcas.get(hca.0 as usize)?;
        (1..=node.part.ports).contains(&number.0).then(|| node.first_port + u32::from(number.0) - 1)
    }

    /// Returns the time of the next event.
    pub fn next_event_time(&self) -> Option<SimTime> {
        self.queue.next_time()
    }

    /// Limits the acknowledgement timeout of queue pairs created from now on.
    pub fn limit_ack_wait(&mut self, at_most: SimDuration) {
        self.ack_wait_max = Some(at_most);
    }

    /// Returns the time of the last executed event.
    pub fn now(&self) -> SimTime {
        self.queue.now()
    }

    /// Returns the time and node of the last executed event.
    pub fn present(&self) -> (SimTime, u32) {
        (self.queue.now(), self.queue.node())
    }

    /// Returns the payload bytes of messages and responses that the HCAs here have accepted.
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// Returns the number of packets in flight. Tests check that none remain.
    pub fn packets_under_way(&self) -> usize {
        self.packets.len()
    }

    /// Executes the next event and appends its program-visible effects to `notices`.
    pub fn step(&mut self, memory: &mut dyn HostMemory, notices: &mut Vec<Notice>) {
        while self.run_in_window(memory, notices, 1) == 0 && self.next_window() {}
    }

    // Inlined, because the event loop is the only caller.
    #[inline(always)]
    pub(crate) fn execute(&mut self, event: Event, memory: &mut dyn HostMemory, notices: &mut Vec<Notice>, now: SimTime) {
        match event {
            Event::Doorbell { post } => self.on_doorbell(post, memory, now),
            Event::WqeFetched { qp_ref } => self.on_wqe_fetched(qp_ref, memory, now),
            Event::QueueResumed { qp_ref } => self.on_queue_resumed(qp_ref, memory, now),
            Event::ReceivePosted { post } => self.on_receive_posted(post, now),
            Event::EngineFree { hca, engine } => self.on_engine_free(hca, engine, memory, now),
            Event::InjectionDue { qp, side } => self.on_injection_due(Work { qp, side }, memory, now),
            Event::LevelDue { port, level } => self.on_level_due(port, level, memory, now),
            Event::PacketReady { packet } => self.on_packet_ready(packet, memory, now),
            Event::PortDue { port } => self.on_port_due(port, memory, now),
            Event::QueueWatch { port } => self.on_queue_watch(port, now),
            Event::FrameArrival { packet } => self.on_frame_arrival(packet, now),
            Event::HcaArrival { packet } => self.on_hca_arrival(packet, memory, now),
            Event::SwitchDiscard { packet } => self.on_switch_discard(packet, now),
            Event::LostOnCable { packet } => self.on_lost(packet, Loss::LinkDown, now),
            Event::Corrupted { packet } => self.on_lost(packet, Loss::Corrupted, now),
            Event::DiscardedByPort { packet, output } => self.on_discarded_by_port(packet, output, now),
            Event::LinkTurns { port } => self.on_link_turns(port, memory, now),
            Event::HostDies { host } => self.on_host_dies(host, notices),
            Event::InMemory { dma_write } => self.on_in_memory(dma_write, memory, notices, now),
            Event::BufferFree { port, lane, blocks } => self.on_buffer_free(port, VirtualLane(lane), blocks, now),
            Event::Completed { completion } => self.on_completed(completion, notices, now),
            Event::AckTimer { qp } => self.on_ack_timer(qp, memory, now),
            Event::ReceiverWaited { qp_ref } => self.on_receiver_waited(qp_ref, memory, now),
            Event::ReplyReady { qp } => self.on_reply_ready(qp, memory, now),
            Event::Report { notice } => notices.push(self.reports.take(notice)),
            Event::Wakeup { token } => notices.push(Notice::Wakeup { token }),
        }
    }

    /// Schedules a wakeup with `token` at `at`, after all other events of an HCA at that instant.
    pub fn wake_at(&mut self, hca: HcaId, at: SimTime, token: u32) {
        self.queue.push_last(at, hca.0, Event::Wakeup { token });
    }

    /// Returns the number of packets that started to cross a link here, summed over links.
    pub fn packets_sent(&self) -> u64 {
        self.ports.iter().filter(|port| self.has_node(port.node)).map(|port| port.sent.packets).sum()
    }

    pub(crate) fn report(&mut self, now: SimTime, node: u32, notice: Notice) {
        let notice = self.reports.insert(notice);
        self.queue.push(now, node, Event::Report { notice });
    }
}

/// Checks for tests.
impl World {
    /// # Panics
    /// Panics if a link's sender lacks credits although nothing is in flight, or if a staging place
    /// is still taken.
    pub fn assert_credits_are_back(&self) {
        for port in self.ports.iter().filter(|port| port.cabling.is_some()) {
            for lane in 0..15 {
                let held = match &port.flow_control {
                    FlowControl::Credits(ledger) => {
                        ledger.outstanding(VirtualLane(lane)) - self.ports[port.far_end as usize].returns.blocks(VirtualLane(lane)).0 as i32
                    }
                    FlowControl::Pause(_) => port.ethernet.as_ref().map_or(0, |port| port.buffer.held(VirtualLane(lane)).0 as i32),
                };
                assert_eq!(held, 0, "node {} port {:?} lane {lane}", port.node, port.number);
                let staged = port.staging.as_ref().map_or(0, |staging| staging[usize::from(lane)].held + staging[usize::from(lane)].held_bytes);
                assert_eq!(staged, 0, "node {} port {:?} lane {lane}", port.node, port.number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// A large fabric exceeds the cache, so a forwarded packet must touch few cache lines of a
    /// port.
    #[test]
    fn what_passes_finds_what_it_needs_on_few_lines_of_the_cache() {
        const LINE: usize = 64;
        let lines = [offset_of!(Port, node), offset_of!(Port, sent), offset_of!(Port, tx_pending), offset_of!(Port, returns)];
        assert_eq!(lines.map(|offset| (offset / LINE, offset % LINE)), [(0, 0), (1, 0), (2, 0), (5, 0)]);
        assert_eq!(offset_of!(Port, arbiter), 3 * LINE - 16);
        assert_eq!((size_of::<Option<Transit>>(), size_of::<Port>()), (LINE, 9 * LINE));
    }
}
