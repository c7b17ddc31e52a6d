//! From a seed to a plan, in the style of swarm testing.
//!
//! A seed first selects the features that its run has at all. Runs with few features reach states
//! that a run with every feature hides (Groce and others, "Swarm Testing", ISSTA 2012).

mod fabric;
mod faults;
mod programs;

use crate::dice::Dice;
use crate::plan::Plan;
use softband_catalog::Catalog;
use softband_spec::FabricSpec;

/// Features of a run. Each is on in about half of all runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Features {
    pub ethernet: bool,
    pub tight: bool,
    pub loss: bool,
    pub flaps: bool,
    pub drops: bool,
    pub deaths: bool,
    pub kills: bool,
    pub reconnects: bool,
    pub deregistrations: bool,
    pub stalls: bool,
    pub unreliable: bool,
    pub datagrams: bool,
    pub reads: bool,
    pub atomics: bool,
    pub shared_receives: bool,
    pub large_messages: bool,
    pub impatient: bool,
    pub shallow_queues: bool,
    pub flaws: bool,
    pub drains: bool,
    pub windows: bool,
    pub extended: bool,
    /// Many messages within a short time.
    pub flood: bool,
}

impl Features {
    fn draw(dice: &mut Dice) -> Self {
        // A quarter of all runs have no faults: there every request must succeed.
        let faulty = !dice.chance(25);
        let mut fault = |percent| faulty && dice.chance(percent);
        let [loss, flaps, drops, deaths, kills, reconnects, deregistrations] = [40, 30, 30, 10, 30, 30, 30].map(&mut fault);
        let [impatient, flaws] = [40, 25].map(&mut fault);
        let mut feature = || dice.chance(50);
        Self {
            ethernet: feature() && feature(),
            tight: feature(),
            loss,
            flaps,
            drops,
            deaths,
            kills,
            reconnects,
            deregistrations,
            stalls: feature(),
            unreliable: feature(),
            datagrams: feature(),
            reads: feature(),
            atomics: feature(),
            shared_receives: feature() && feature(),
            large_messages: feature(),
            impatient,
            shallow_queues: feature(),
            flaws,
            windows: feature() && feature(),
            drains: feature() && feature(),
            extended: feature() && feature(),
            flood: feature() && feature(),
        }
    }
}

/// Draws the plan of a seed.
///
/// # Panics
/// Panics if the catalogue has no parts that fit each other.
pub fn plan_of(seed: u64, catalog: &Catalog) -> Plan {
    let features = Features::draw(&mut Dice::new(seed, 0));
    let (fabric, spec) = fabric::draw(&mut Dice::new(seed, 1), &features, catalog);
    let (processes, connections) = programs::draw(&mut Dice::new(seed, 2), &features, &fabric, &spec);
    let actions = programs::actions(&mut Dice::new(seed, 3), &features, &processes, &connections, &spec);
    let mut dice = Dice::new(seed, 4);
    let faults = faults::draw(&mut dice, &features, &spec);
    let loss_ppm = if features.loss { dice.spread(60_000) as u32 } else { 0 };
    Plan { seed, fabric, processes, connections, actions, faults, loss_ppm }
}

/// Returns the smallest MTU of a fabric's links.
fn mtu_of(spec: &FabricSpec) -> u32 {
    let links = spec.cables.iter().map(|cable| softband_spec::settings_of(spec, cable).mtu.bytes());
    links.min().unwrap_or(256)
}
