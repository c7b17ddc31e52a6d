//! Flows between ranks: sender, receiver, queue pair, and the traffic so far.

use crate::connections::{Connections, Endpoint, Refusal};
use crate::measure::Tally;
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
}

impl Flows {
    /// Creates the queue pairs in the order in which steps first need them. For hosts outside
    /// `world`, computes only their QPNs.
    ///
    /// # Errors
    /// The rank whose host cannot create a queue pair, and the reason.
    pub(crate) fn of(world: &mut World, schedule: &Schedule, endpoints: &[Endpoint]) -> Result<Self, (u32, Refusal)> {
        // Both directions and several steps share the queues.
        let depth = schedule.window.saturating_mul(4).clamp(128, 4_096);
        let mut connections = Connections::new(endpoints.len(), depth, (schedule.mtu, schedule.service_level));
        let mut known: Vec<BTreeMap<u32, u32>> = vec![BTreeMap::new(); endpoints.len()];
        let (mut flows, mut of_step) = (Vec::new(), Vec::with_capacity(schedule.steps.len()));
        for step in &schedule.steps {
            let Action::Send { to, .. } = step.action else {
                of_step.push(0);
                continue;
            };
            let of_rank = &mut known[step.rank as usize];
            let flow = match of_rank.get(&to) {
                Some(flow) => *flow,
                None => {
                    let side = connections.side(world, endpoints, step.rank, to).map_err(|refusal| (step.rank, refusal))?;
                    let flow = flows.len() as u32;
                    flows.push(Flow {
                        from: step.rank,
                        to,
                        qpn: side.qpn,
                        depth: side.depth,
                        outstanding: 0,
                        blocked: Vec::new(),
                        tally: Tally::default(),
                    });
                    of_rank.insert(to, flow);
                    flow
                }
            };
            of_step.push(flow);
        }
        Ok(Self { flows, of_step, connections: connections.len() })
    }
}
