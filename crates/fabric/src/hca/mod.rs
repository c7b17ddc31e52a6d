//! The room of HCAs: queue pairs, the send engine, packets in, completions.
//!
//! An HCA hands packets to its ports' links and takes packets from them: see [`Hop`].

mod audit;
mod complete;
mod congestion;
mod construct;
mod contexts;
mod counters;
mod departures;
mod entries;
mod frames;
mod groups;
mod plan;
mod ports;
mod queue_pairs;
mod receive;
mod receive_requests;
mod send_engine;
mod timers;
mod transfers;
mod views;
mod violations;

pub use counters::HcaCounters;
pub use queue_pairs::QPN_FIRST;
pub(crate) use send_engine::Work;
pub use transfers::QueuePairRepeats;
pub use views::QueuePairView;

use crate::link::{Hop, Stay};
use crate::slab::Slab;
use contexts::Contexts;
use ports::HcaPort;
use queue_pairs::{Post, QpSlot};
use receive::InFlight;
use softband_model::bus::{Bus, MemoryController, SharedBus};
use softband_model::management::agent::KeyViolation;
use softband_model::parts::HcaPart;
use softband_model::transport::InjectionSettings;
use softband_model::verbs::api::Completion;
use softband_model::verbs::{ChunkPool, Verbs};
use softband_sim::{SimDuration, SimTime};
use softband_types::{CqHandle, HcaId, PKey, PortNumber, ProcessId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use transfers::Transfers;

/// The HCAs of a fabric, with all that programs have on them.
pub(crate) struct Hcas {
    nodes: Vec<Hca>,
    /// Ports of all HCAs.
    ports: Vec<HcaPort>,
    /// Controllers, one per host, in the order of the file.
    memories: Vec<MemoryController>,
    buses: Vec<SharedBus>,
    verbs: Verbs,
    chunks: ChunkPool,
    /// Queue pairs by a number that is never reused.
    qps: Vec<Option<Box<QpSlot>>>,
    dma_writes: Slab<InFlight>,
    posts: Slab<Post>,
    /// Queue pairs that events refer to.
    qp_refs: Slab<QpRef>,
    completions: Slab<(ProcessId, CqHandle, Completion)>,
    /// Payload bytes that the HCAs of this partition have accepted.
    delivered_bytes: u64,
    transfers: Transfers,
    ack_wait_max: Option<SimDuration>,
    /// Injection control settings; `None` without congestion control.
    injection: Option<InjectionSettings>,
    /// Packets with a wrong key, with their ports, until their events.
    key_violations: Slab<(u32, KeyViolation)>,
    posted_frames: Slab<frames::PostedFrame>,
    /// Ports with planned departures.
    plans: u32,
    /// Room for silent arrivals.
    silent: Vec<Stay>,
    /// Rings of ports that have sent or received frames.
    rings: BTreeMap<u32, frames::Rings>,
}

/// An HCA as a node of the fabric.
struct Hca {
    /// `host/device`.
    name: String,
    /// Host, and index of the HCA within it.
    place: (usize, usize),
    /// The part with the delays of its slot: see `construct`. Equal HCAs share it.
    part: Arc<HcaPart>,
    /// Rate of inline data of a queue pair, in bytes per second.
    inline_rate: Option<u64>,
    /// P_Key table of its ports.
    pkeys: Vec<PKey>,
    first_port: u32,
    bus: Bus,
    /// Index of the shared bus, which other cards may use too.
    shared_bus: u32,
    /// Queue pairs by QPN from the first QPN on; `None` when destroyed.
    qp_of_qpn: Vec<Option<u32>>,
    qp_count: u32,
    engines: Vec<ProcessingEngine>,
    ready: VecDeque<Work>,
    contexts: Contexts,
    /// Plans of departures at its ports and at those of HCAs that send to it, and at its ports alone.
    plans: u32,
    plans_of_own: u32,
    /// Sizes of the rings of a NIC's port, to and from the link.
    rings: Option<(u32, u32)>,
}

/// An engine that starts messages. All messages of a queue pair use the same engine.
#[derive(Clone, Default)]
struct ProcessingEngine {
    /// Earliest start of the next message.
    free: SimTime,
    /// Sum of all gaps between messages.
    gaps: SimDuration,
    /// An event for the time when it is free is pending.
    waits: bool,
    /// Work whose next packet begins a message, while the engine is busy.
    starters: VecDeque<Work>,
}

/// A reference to a queue pair that may outlive it: index and epoch at creation of the reference.
type QpRef = (u32, u32);

impl Hcas {
    /// Counts payload from now on instead of moving it, for runs whose memory nobody reads.
    pub(crate) fn count_payload_only(&mut self) {
        self.chunks = ChunkPool::counting_only();
    }

    /// Limits the acknowledgement timeout of queue pairs created from now on.
    pub(crate) fn limit_ack_wait(&mut self, at_most: SimDuration) {
        self.ack_wait_max = Some(at_most);
    }

    /// Returns an HCA by its host and its index within the host.
    pub(crate) fn find(&self, host: usize, index: usize) -> Option<HcaId> {
        // HCAs are in the order of the file.
        let index = self.nodes.binary_search_by_key(&(host, index), |hca| hca.place).ok()?;
        Some(HcaId(index as u32))
    }

    /// Returns the first HCA of a host.
    pub(crate) fn first_of_host(&self, host: usize) -> Option<HcaId> {
        self.nodes.iter().position(|hca| hca.place.0 == host).map(|index| HcaId(index as u32))
    }

    /// Returns the host of an HCA, and the HCA's index within that host.
    pub(crate) fn place_of(&self, hca: HcaId) -> (usize, usize) {
        self.nodes[hca.0 as usize].place
    }

    pub(crate) fn part(&self, hca: HcaId) -> &HcaPart {
        &self.nodes[hca.0 as usize].part
    }

    pub(crate) fn pkeys(&self, hca: HcaId) -> &[PKey] {
        &self.nodes[hca.0 as usize].pkeys
    }

    /// Returns the number of an HCA's port; `None` if the HCA has no such port.
    pub(crate) fn port_index(&self, hca: HcaId, number: PortNumber) -> Option<u32> {
        let node = self.nodes.get(hca.0 as usize)?;
        (1..=node.part.ports).contains(&number.0).then(|| node.first_port + u32::from(number.0) - 1)
    }

    /// Returns the payload bytes of messages and responses that the HCAs here have accepted.
    pub(crate) fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// Returns the objects of verbs, except queue pairs.
    pub(crate) fn verbs(&self) -> &Verbs {
        &self.verbs
    }

    /// Returns the objects of verbs, except queue pairs, to change them.
    pub(crate) fn verbs_mut(&mut self) -> &mut Verbs {
        &mut self.verbs
    }
}
