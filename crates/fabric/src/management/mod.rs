//! The room of management: the agents of all nodes, and the packets that wait for them.

mod construct;
mod hardware;
mod resident;

pub(crate) use hardware::NodeHardware;
pub(crate) use resident::Resident;

use crate::event::Event;
use crate::pdes::timeline::Timeline;
use softband_model::management::ManagementPacket;
use softband_model::management::administration::Administration;
use softband_model::management::agent::Agent;
use softband_sim::{SimDuration, SimTime};
use softband_types::{HcaId, Lid, PortNumber};
use softband_wire::mad::SmInfo;
use std::collections::{BTreeSet, VecDeque};

/// Most packets that wait for a node's agent. A node discards more, and counts them (VL15Dropped).
/// Assumed: no maker publishes the size of this buffer.
const WAITING_MAX: usize = 64;

/// The agents of a fabric's nodes.
pub(crate) struct Agents {
    nodes: Vec<AgentNode>,
    /// Whether anybody has sent a management packet.
    is_used: bool,
    /// Subnet administration of the built-in manager.
    administration: Administration,
    /// Ports on whose hosts a subnet manager runs.
    managers: BTreeSet<(HcaId, PortNumber)>,
    /// The model's own manager, if it works by packets.
    resident: Option<Box<Resident>>,
}

/// A node's agent with the packets that it has not yet handled.
struct AgentNode {
    agent: Agent,
    processing: SimDuration,
    waiting: VecDeque<Job>,
    /// Time of the scheduled look at its traps.
    traps_at: Option<SimTime>,
}

/// A packet for an agent.
pub(crate) struct Job {
    /// Port by which the packet came, or by which the node's host wants to send it.
    pub(crate) port: u32,
    /// Whether the node's own host sends it.
    pub(crate) is_own: bool,
    pub(crate) packet: Box<ManagementPacket>,
}

impl Agents {
    /// Returns whether management is used from now on for the first time.
    pub(crate) fn is_first_use(&mut self) -> bool {
        !std::mem::replace(&mut self.is_used, true)
    }

    /// Describes the subnet manager on the node `at`; `None` if it has none.
    pub(crate) fn set_manager(&mut self, at: u32, manager: Option<SmInfo>) {
        self.nodes[at as usize].agent.set_manager(manager);
    }

    /// Names the ports on whose hosts a subnet manager runs. Returns the nodes that change.
    pub(crate) fn announce_managers(&mut self, ports: &BTreeSet<(HcaId, PortNumber)>, now: SimTime) -> BTreeSet<u32> {
        let mut nodes = BTreeSet::new();
        if self.managers == *ports {
            return nodes;
        }
        for (changed, is_here) in [(&self.managers - ports, false), (ports - &self.managers, true)] {
            for (hca, port) in changed {
                self.nodes[hca.0 as usize].agent.set_software_manager(port, is_here, now);
                nodes.insert(hca.0);
            }
        }
        self.managers.clone_from(ports);
        nodes
    }

    /// Checks whether a subnet manager runs on the host of an HCA.
    pub(crate) fn has_software_manager(&self, node: u32) -> bool {
        self.managers.iter().any(|(hca, _)| hca.0 == node)
    }

    /// Returns the time of an event for a node's next trap, unless an earlier one is pending.
    pub(crate) fn next_trap_event(&mut self, node: u32, now: SimTime) -> Option<SimTime> {
        let of = &mut self.nodes[node as usize];
        let due = of.agent.next_trap()?.max(now);
        if of.traps_at.is_some_and(|at| at <= due) {
            return None;
        }
        of.traps_at = Some(due);
        Some(due)
    }

    /// Returns the traps of a node that are due, each with its port.
    pub(crate) fn take_traps(&mut self, node: u32, now: SimTime, hardware: &NodeHardware<'_>) -> Vec<(PortNumber, Box<ManagementPacket>)> {
        let of = &mut self.nodes[node as usize];
        of.traps_at = of.traps_at.filter(|at| *at > now);
        of.agent.take_traps(now, hardware)
    }

    pub(crate) fn set_resident(&mut self, resident: Resident) {
        self.resident = Some(Box::new(resident));
    }

    pub(crate) fn resident_mut(&mut self) -> Option<&mut Resident> {
        self.resident.as_deref_mut()
    }

    pub(crate) fn administration(&self) -> &Administration {
        &self.administration
    }

    pub(crate) fn administration_mut(&mut self) -> &mut Administration {
        &mut self.administration
    }

    pub(crate) fn agent(&self, node: u32) -> &Agent {
        &self.nodes[node as usize].agent
    }

    /// Sets the largest LID that the forwarding tables of all switches list.
    pub(crate) fn set_linear_top(&mut self, lid: Lid) {
        self.nodes.iter_mut().for_each(|node| node.agent.set_linear_top(lid));
    }

    pub(crate) fn agent_mut(&mut self, node: u32) -> &mut Agent {
        &mut self.nodes[node as usize].agent
    }

    /// Hands a packet to a node's agent. `port` is the number of the packet's port.
    pub(crate) fn enqueue(&mut self, timeline: &mut Timeline, node: u32, (port, job): (u8, Job), now: SimTime) {
        let of = &mut self.nodes[node as usize];
        if of.waiting.len() >= WAITING_MAX {
            return of.agent.count_dropped(port);
        }
        of.waiting.push_back(job);
        if of.waiting.len() == 1 {
            timeline.push(now + of.processing, node, Event::AgentDone { node });
        }
    }

    /// Returns the packet that a node's agent has now handled, and lets the agent begin the next.
    pub(crate) fn done(&mut self, timeline: &mut Timeline, node: u32, now: SimTime) -> Option<Job> {
        let of = &mut self.nodes[node as usize];
        let job = of.waiting.pop_front();
        if !of.waiting.is_empty() {
            timeline.push(now + of.processing, node, Event::AgentDone { node });
        }
        job
    }
}
