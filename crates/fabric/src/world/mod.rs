//! The World: the rooms of a fabric, and the events that change them.
//!
//! Each room is a struct with private fields in a folder of its own. The World owns the rooms and
//! hands each the others that it needs. It holds no other state.

mod administration;
mod events;
mod faults;
mod frames;
mod management;
mod observers;
mod partitions;
mod queue_pairs;
mod receive_queues;
mod resident;
mod statistics;
mod subnet;
mod training;
mod traps;
mod verbs;

pub use frames::FrameError;
pub use statistics::{NodeOfPort, PortStatistics};

use crate::faults::Faults;
use crate::hca::Hcas;
use crate::link::{Hop, Links};
use crate::management::Agents;
use crate::numbering::Numbering;
use crate::pdes::timeline::Timeline;
use crate::subnet::Subnet;
use softband_sim::SimDuration;
use softband_spec::{FabricSpec, SubnetManager, without_manager};
use softband_types::Lid;

/// A fabric in motion. It reads no clock: callers pass the time to verbs, and [`World::step`]
/// executes the next event.
///
/// The same calls give the same events, notices and counters, on each machine.
pub struct World {
    spec: FabricSpec,
    numbering: Numbering,
    hcas: Hcas,
    links: Links,
    subnet: Subnet,
    agents: Agents,
    faults: Faults,
    timeline: Timeline,
    /// Switches know the ports to which they send frames for all.
    floods: bool,
    /// Packets handle each hop by an event of its own.
    is_packet_by_packet: bool,
}

impl World {
    /// Builds the fabric, trains its links and runs the built-in subnet manager: LIDs, forwarding
    /// tables, lanes and MTUs. With another manager it builds the hardware only. `seed` selects lost
    /// packets and bit errors.
    ///
    /// # Panics
    /// If a cable names a port that does not exist. [`softband_spec::FabricBuilder`] and file
    /// readers refuse such fabrics.
    pub fn new(spec: &FabricSpec, seed: u64) -> Self {
        let numbering = Numbering::of(spec);
        let described = spec;
        let hardware = spec.subnet.manager.works_by_packets().then(|| without_manager(spec));
        let spec = hardware.as_ref().unwrap_or(spec);
        let mut links = Links::new(spec, &numbering);
        let subnet = Subnet::sweep(spec, &numbering, |switch, lid, output| links.set_route(switch, lid, output));
        let configured_by = Some(subnet.manager_lid()).filter(|lid| *lid != Lid::NONE);
        let agents = Agents::new(spec, &numbering, configured_by);
        let mut world = Self {
            hcas: Hcas::new(spec, &numbering),
            links,
            subnet,
            agents,
            faults: Faults::new(seed),
            timeline: Timeline::for_nodes(numbering.nodes()),
            floods: false,
            is_packet_by_packet: false,
            spec: described.clone(),
            numbering,
        };
        world.add_faults(&spec.faults);
        if world.spec.subnet.manager == SubnetManager::BuiltinByPackets {
            world.house_manager();
        }
        world
    }

    /// Counts payload from now on instead of moving it, for runs whose memory nobody reads.
    pub fn count_payload_only(&mut self) {
        self.hcas.count_payload_only();
    }

    /// Returns the description of the fabric.
    pub fn spec(&self) -> &FabricSpec {
        &self.spec
    }

    /// Makes HCAs lose `ppm` of a million arriving packets from now on, as with a bad CRC. The
    /// default is 0. The seed selects the packets.
    pub fn set_packet_loss(&mut self, ppm: u32) {
        self.end_trains();
        self.faults.lose_at_random(ppm);
    }

    /// Handles each hop of each packet by an event of its own from now on. Without this call, packets
    /// that follow one another on a quiet way pass its switches as a train. Results are the same, the
    /// work is not.
    pub fn go_packet_by_packet(&mut self) {
        self.is_packet_by_packet = true;
        self.review_trains();
    }

    /// Lets trains form as soon as they can, for tests.
    #[doc(hidden)]
    pub fn seek_trains(&mut self) {
        self.links.seek_trains();
    }

    /// Ends all trains if the fabric does not allow them any more.
    fn review_trains(&mut self) {
        let (is_allowed, now) = (!self.is_packet_by_packet, self.timeline.happened_moment().time);
        self.end_plans();
        self.hop().allow_trains(is_allowed, now);
    }

    /// Ends all trains before something happens at a link.
    fn end_trains(&mut self) {
        let now = self.timeline.happened_moment().time;
        self.end_plans();
        self.hop().dissolve_all(now);
    }

    /// Brings all nodes up to the present, for a caller that looks at an unfinished run.
    pub fn settle(&mut self) {
        self.end_plans();
    }

    /// Ends all plans of departures before something happens at an HCA.
    fn end_plans(&mut self) {
        if self.hcas.has_plans() {
            let moment = self.timeline.happened_moment();
            let (hcas, mut hop) = self.split();
            hcas.end_plans(&mut hop, moment);
        }
    }

    /// Limits the local ACK timeout of queue pairs created from now on. The default is no limit.
    pub fn limit_ack_wait(&mut self, at_most: SimDuration) {
        self.hcas.limit_ack_wait(at_most);
    }

    /// Splits the World into the HCAs and the rooms of a packet's hop.
    #[inline(always)]
    fn split(&mut self) -> (&mut Hcas, Hop<'_>) {
        let Self { hcas, links, timeline, faults, subnet, .. } = self;
        (hcas, Hop { links, timeline, faults, subnet })
    }

    /// Returns the rooms of a packet's hop.
    #[inline(always)]
    fn hop(&mut self) -> Hop<'_> {
        self.split().1
    }
}
