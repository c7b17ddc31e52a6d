//! Flows between ranks: who sends to whom, by which queue pair, and what has gone there.

use crate::connections::{Connections, Endpoint, Refusal};
use crate::measure::Tally;
use crate::schedule::{Action, Schedule};
use softband_fabric::World;
use softband_types::Qpn;
use std::collections::BTreeMap;

/// From one rank to another.
pub(crate) struct Flow {
    pub from: u32,
    pub to: u32,
    /// Of the sender's queue pair.
    pub qpn: Qpn,
    /// Work requests that its queue holds, and those in it.
    pub depth: u32,
    pub outstanding: u32,
    /// Steps that wait for room in the send queue.
    pub blocked: Vec<u32>,
    pub tally: Tally,
}

/// All flows of a workload.
pub(crate) struct Flows {
    pub flows: Vec<Flow>,
    /// By step: its flow. Steps that send nothing have the first.
    pub of_step: Vec<u32>,
    pub connections: usize,
}

impl Flows {
    /// Makes the queue pairs in the order in which steps first need them; of hosts that `world` has not only their numbers are known.
    ///
    /// # Errors
    /// The rank whose host cannot make one, and why.
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
