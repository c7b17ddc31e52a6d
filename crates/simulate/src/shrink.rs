//! Shrinks a failing plan while the same invariant fails.
//!
//! The pass over a list drops ever smaller parts of it, as delta debugging does (Zeller and
//! Hildebrandt, 2002). Other passes replace a choice by the plainest one.

use crate::plan::{Action, ConnectionPlan, Plan, ReceivePlan, Shape, Step, Tweaks};

/// A shrunk plan, and the number of trials that it took.
#[derive(Clone, Debug)]
pub struct Shrunk {
    pub plan: Plan,
    pub trials: u32,
}

/// Shrinks `plan` by at most `trials_max` trials. `fails` tells whether a plan still fails.
pub fn shrink(plan: &Plan, trials_max: u32, mut fails: impl FnMut(&Plan) -> bool) -> Shrunk {
    let mut search = Search { best: plan.clone(), trials: 0, trials_max, fails: &mut fails };
    loop {
        let before = (size_of(&search.best), format!("{}", search.best));
        search.drop_parts(|plan| &mut plan.actions);
        search.drop_parts(|plan| &mut plan.faults);
        search.drop_connections();
        search.drop_processes();
        search.simplify();
        if before == (size_of(&search.best), format!("{}", search.best)) || search.trials >= trials_max {
            return Shrunk { plan: search.best, trials: search.trials };
        }
    }
}

fn size_of(plan: &Plan) -> usize {
    plan.actions.len() + plan.faults.len() + plan.connections.len() + plan.processes.len()
}

struct Search<'a> {
    best: Plan,
    trials: u32,
    trials_max: u32,
    fails: &'a mut dyn FnMut(&Plan) -> bool,
}

impl Search<'_> {
    /// Tries a plan, and keeps it if it fails. Returns whether it was kept.
    fn attempt(&mut self, plan: Plan) -> bool {
        if self.trials >= self.trials_max {
            return false;
        }
        self.trials += 1;
        let fails = (self.fails)(&plan);
        if fails {
            self.best = plan;
        }
        fails
    }

    /// Drops parts of a list: halves, then quarters, down to single elements.
    fn drop_parts<T: Clone>(&mut self, list: impl Fn(&mut Plan) -> &mut Vec<T>) {
        let mut size = list(&mut self.best).len();
        while size > 0 {
            let mut from = 0;
            while from < list(&mut self.best).len() {
                let mut plan = self.best.clone();
                let items = list(&mut plan);
                items.drain(from..(from + size).min(items.len()));
                if !self.attempt(plan) {
                    from += size;
                }
            }
            size /= 2;
        }
    }

    /// Drops connections that no action uses any more, or with all their actions.
    fn drop_connections(&mut self) {
        for index in (0..self.best.connections.len()).rev() {
            let mut plan = self.best.clone();
            if plan.connections.len() > 1 {
                plan.connections.remove(index);
                plan.actions.retain_mut(|action| renumber_connection(&mut action.step, index));
                self.attempt(plan);
            }
        }
    }

    /// Drops processes without a connection.
    fn drop_processes(&mut self) {
        for index in (0..self.best.processes.len()).rev() {
            let mut plan = self.best.clone();
            let is_used = plan.connections.iter().any(|connection| connection.ends.contains(&index));
            if plan.processes.len() > 1 && !is_used {
                plan.processes.remove(index);
                plan.connections.iter_mut().flat_map(|connection| &mut connection.ends).for_each(|end| *end -= usize::from(*end > index));
                plan.actions.retain_mut(|action| renumber_process(&mut action.step, index));
                self.attempt(plan);
            }
        }
    }

    /// Replaces single choices by plainer ones.
    fn simplify(&mut self) {
        for change in CHANGES {
            let mut plan = self.best.clone();
            change(&mut plan);
            if format!("{plan:?}") != format!("{:?}", self.best) {
                self.attempt(plan);
            }
        }
        for index in 0..self.best.actions.len() {
            self.simplify_action(index);
        }
        for index in 0..self.best.connections.len() {
            for change in CONNECTION_CHANGES {
                let mut plan = self.best.clone();
                change(&mut plan.connections[index]);
                if plan.connections[index] != self.best.connections[index] {
                    self.attempt(plan);
                }
            }
        }
    }

    fn simplify_action(&mut self, index: usize) {
        for change in ACTION_CHANGES {
            let mut plan = self.best.clone();
            change(&mut plan.actions[index]);
            if plan.actions[index] != self.best.actions[index] {
                self.attempt(plan);
            }
        }
        // A shorter message: half, again and again.
        while let Step::Post { message, .. } = self.best.actions[index].step
            && message.len_bytes > 1
            && message.len_bytes != 8
        {
            let mut plan = self.best.clone();
            if let Step::Post { message, .. } = &mut plan.actions[index].step {
                message.len_bytes /= 2;
            }
            if !self.attempt(plan) {
                break;
            }
        }
    }
}

const CHANGES: [fn(&mut Plan); 11] = [
    |plan| plan.loss_ppm = 0,
    |plan| {
        plan.processes.iter_mut().for_each(|process| process.host %= 2);
        plan.fabric.shape = Shape::Pair { hcas: plan.fabric.hcas_per_host() };
        plan.faults.clear();
    },
    |plan| {
        plan.processes.iter_mut().for_each(|process| (process.host, process.hca) = (process.host % 2, 0));
        plan.fabric.shape = Shape::Star { hosts: 2 };
        plan.faults.clear();
    },
    |plan| plan.fabric.tweaks = Tweaks::default(),
    |plan| plan.fabric.congestion_control = false,
    |plan| plan.fabric.weights.clear(),
    |plan| plan.fabric.routing = None,
    |plan| plan.fabric.lifetime = None,
    |plan| plan.fabric.max_op_vls = 1,
    |plan| plan.fabric.ethernet = None,
    |plan| plan.processes.iter_mut().for_each(|process| process.shares_receives = false),
];

const CONNECTION_CHANGES: [fn(&mut ConnectionPlan); 6] = [
    |connection| connection.signals_all = false,
    |connection| connection.service_level = 0,
    |connection| connection.first_psn = 0,
    |connection| connection.rd_atomic = 1,
    |connection| connection.receives.iter_mut().for_each(|receives| *receives = ReceivePlan { from_nanos: 0, lag_nanos: 0, ..*receives }),
    |connection| connection.receives.iter_mut().for_each(|receives| receives.pieces = 1),
];

const ACTION_CHANGES: [fn(&mut Action); 6] = [
    |action| in_message(action, |message| message.pieces = 1),
    |action| in_message(action, |message| message.solicited = false),
    |action| in_message(action, |message| message.fence = false),
    |action| in_message(action, |message| message.inline = false),
    |action| in_message(action, |message| message.immediate = false),
    |action| action.at_nanos = action.at_nanos.min(1_000),
];

fn in_message(action: &mut Action, change: impl Fn(&mut crate::plan::Message)) {
    if let Step::Post { message, .. } = &mut action.step {
        change(message);
    }
}

/// Adapts a step to the loss of a connection. Returns whether the step remains.
fn renumber_connection(step: &mut Step, gone: usize) -> bool {
    let connection = match step {
        Step::Post { end, .. } | Step::Drain { end } | Step::Resume { end } | Step::Break { end } | Step::Destroy { end } => &mut end.connection,
        Step::Reconnect { connection } => connection,
        Step::Deregister { .. } | Step::Kill { .. } => return true,
    };
    let remains = *connection != gone;
    *connection -= usize::from(*connection > gone);
    remains
}

/// Adapts a step to the loss of a process. Returns whether the step remains.
fn renumber_process(step: &mut Step, gone: usize) -> bool {
    let process = match step {
        Step::Deregister { process, .. } | Step::Kill { process } => process,
        Step::Post { .. } | Step::Drain { .. } | Step::Resume { .. } | Step::Break { .. } | Step::Destroy { .. } | Step::Reconnect { .. } => {
            return true;
        }
    };
    let remains = *process != gone;
    *process -= usize::from(*process > gone);
    remains
}
