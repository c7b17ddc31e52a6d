//! Flows between ranks: sender, receiver, queue pair, and the traffic so far.

use crate::connections::{Connections, Endpoint, Refusal, port_view};
use crate::measure::Tally;
use crate::protocol::{PortView, SEND_QUEUE};
use crate::schedule::{Action, Schedule};
use softband_fabric::World;
use softband_types::Qpn;
use std::collections::BTreeMap;

/// A flow from one rank to another.
pub(crate) struct Flow {
    pub from: u32,
    pub to: u32,
    /// Queue pair of the sender.
    pub qpn: Qpn,
    /// Capacity of its send queue and outstanding requests, in work requests.
    pub depth: u32,
    pub outstanding: u32,
    /// Steps that wait for room in the send queue.
    pub blocked: Vec<u32>,
    pub tally: Tally,
}

/// All flows of a workload.
pub(crate) struct Flows {
    pub flows: Vec<Flow>,
    /// Flow of each step. A step that sends nothing has flow 0.
    pub of_step: Vec<u32>,
    pub connections: usize,
    /// Flow from a rank to each other one by each queue pair, by rank.
    pub known: Vec<BTreeMap<(u32, u32), u32>>,
}

impl Flows {
    /// Creates the queue pairs in the order in which steps first need them. For hosts outside
    /// `world`, computes only their QPNs.
    ///
    /// # Errors
    /// The rank whose host cannot create a queue pair, and the reason.
    pub(crate) fn of(world: &mut World, schedule: &Schedule, endpoints: &[Endpoint]) -> Result<Self, (u32, Refusal)> {
        // Both directions and several steps share the queues.
        let depth = if schedule.protocol.is_some() { SEND_QUEUE } else { schedule.window.saturating_mul(4).clamp(128, 4_096) };
        let mut connections = Connections::new(endpoints.len(), depth, (schedule.mtu, schedule.service_level), schedule.protocol.is_some());
        let mut made = Self {
            flows: Vec::new(),
            of_step: Vec::with_capacity(schedule.steps.len()),
            connections: 0,
            known: vec![BTreeMap::new(); endpoints.len()],
        };
        for step in &schedule.steps {
            let Action::Send { to, .. } = step.action else {
                made.of_step.push(0);
                continue;
            };
            let flow = made.flow(world, endpoints, &mut connections, (step.rank, to, 0))?;
            made.of_step.push(flow);
            if schedule.protocol.is_some() {
                // The receiver reads and answers.
                let rails = port_view(world, endpoints[to as usize]).map_or(1, PortView::rails);
                for rail in 0..rails {
                    made.flow(world, endpoints, &mut connections, (to, step.rank, rail))?;
                }
            }
        }
        made.connections = connections.len();
        Ok(made)
    }

    /// Returns the flow between two ranks, and creates it before its first use.
    fn flow(
        &mut self,
        world: &mut World,
        endpoints: &[Endpoint],
        connections: &mut Connections,
        (from, to, rail): (u32, u32, u32),
    ) -> Result<u32, (u32, Refusal)> {
        if let Some(flow) = self.known[from as usize].get(&(to, rail)) {
            return Ok(*flow);
        }
        let side = connections.side(world, endpoints, (from, to), rail).map_err(|refusal| (from, refusal))?;
        let flow = self.flows.len() as u32;
        let (outstanding, blocked, tally) = Default::default();
        self.flows.push(Flow { from, to, qpn: side.qpn, depth: side.depth, outstanding, blocked, tally });
        self.known[from as usize].insert((to, rail), flow);
        Ok(flow)
    }
}
