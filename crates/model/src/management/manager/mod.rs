//! A subnet manager: it finds nodes, gives them LIDs and tables, and makes links Active (IBTA 14.4).
//!
//! It does all of this by subnet management packets with directed routes, and knows the subnet from
//! their answers alone. It reads no clock and sends nothing itself:
//!
//! - `handle_packet` and `handle_timeout` take inputs with their time.
//! - [`Manager::poll_transmit`] returns the packets to send, and [`Manager::poll_timeout`] the time
//!   of the next `handle_timeout`.
//!
//! A sweep has stages. Each begins when all requests of the stage before have an answer or no
//! retries left: discovery, addresses and settings of links, tables, Armed, Active.
//!
//! A node that no longer answers costs its own requests only. The manager gives up on it, notes a
//! [`Problem`], and sweeps again, at most [`Configuration::sweeps_max`] times in a row.

mod configuration;
mod discovery;
mod plan;
mod problem;
mod replies;
mod requests;
#[cfg(test)]
mod tests;
mod topology;
mod writes;

pub use configuration::{Configuration, PortClasses};
pub use problem::{Place, Problem};
pub use topology::{Node, Port, Topology};

use super::{ManagementPacket, Routes};
use discovery::Discovery;
use plan::{Lids, Plan, place_of};
use requests::{Answer, Data, Request, Requests};
use softband_sim::SimTime;
use softband_types::{Guid, Lid, PortNumber};
use softband_wire::mad::{AttributeId, PortState, Status};
use std::collections::{BTreeMap, BTreeSet};
use topology::End;
use writes::Writes;

/// Most problems that a manager lists. More of them say nothing new.
const PROBLEMS_MAX: usize = 1_000;

/// The reason for a request.
#[derive(Clone, Debug)]
enum Ask {
    /// Asks for the node behind a port, or at the manager's own port.
    Node { behind: Option<End>, root: usize },
    /// Asks for the name of a node.
    Description(usize),
    /// Asks for the properties of a switch.
    Switch(usize),
    /// Asks for the properties of a port.
    Port(End),
    /// Writes to a node, by way of a port.
    Write(End),
}

impl Ask {
    /// Returns the node that should answer, if the manager knows it.
    fn node(&self) -> Option<usize> {
        match self {
            Self::Node { .. } => None,
            Self::Description(node) | Self::Switch(node) => Some(*node),
            Self::Port((node, _)) | Self::Write((node, _)) => Some(*node),
        }
    }
}

/// Part of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// No sweep has begun, or the last has ended.
    Idle,
    Discovery,
    Ports,
    Tables,
    Armed,
    Active,
}

/// Numbers of a manager's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sweeps begun.
    pub sweeps: u64,
    /// Requests sent, with those sent again.
    pub sent: u64,
    /// Requests sent again.
    pub sent_again: u64,
}

/// Paths that a sweep has set up.
#[derive(Clone, Debug)]
pub struct SweptPaths {
    /// LID of the manager.
    pub manager_lid: Lid,
    /// Routes between switches. The manager numbers them by its order of nodes.
    pub routes: Routes,
    /// LIDs of the ports of HCAs that have a switch, with the number of the switch.
    pub leaves: Vec<(Lid, usize)>,
}

/// Data written last, by node, port, attribute and modifier.
type Written = BTreeMap<(Guid, u8, AttributeId, u32), Box<Data>>;
/// Members of groups, by GUID of the node and number of the port.
type Groups = BTreeMap<Lid, BTreeSet<(Guid, u8)>>;

/// A subnet manager: see the [module](self).
pub struct Manager {
    configuration: Configuration,
    roots: usize,
    stage: Stage,
    requests: Requests<Ask>,
    topology: Topology,
    plan: Option<Plan>,
    problems: Vec<Problem>,
    lids: Lids,
    written: Written,
    groups: Groups,
    /// A node vanished in this sweep, or a trap came.
    wants_sweep: bool,
    sweeps_in_a_row: u8,
    sweeps: u64,
    next_sweep: Option<SimTime>,
}

impl Manager {
    /// Creates a manager that has a number of own ports. A port in each network suffices.
    pub fn new(configuration: Configuration, roots: usize) -> Self {
        Self {
            roots,
            stage: Stage::Idle,
            requests: Requests::new(&configuration),
            topology: Topology::default(),
            plan: None,
            problems: Vec::new(),
            lids: Lids::new(),
            written: Written::new(),
            groups: Groups::new(),
            wants_sweep: false,
            sweeps_in_a_row: 0,
            sweeps: 0,
            next_sweep: None,
            configuration,
        }
    }

    /// Begins a sweep. A sweep under way continues, and another follows it.
    pub fn start(&mut self, now: SimTime) {
        self.sweeps_in_a_row = 0;
        if self.stage != Stage::Idle {
            self.wants_sweep = true;
            return;
        }
        self.sweep();
        self.advance(now);
    }

    /// Takes in a packet that has reached the manager's port with the index `root`. Returns false if
    /// the packet is not for the manager.
    pub fn handle_packet(&mut self, root: usize, packet: &ManagementPacket, now: SimTime) -> bool {
        if let Some(answer) = self.requests.take_answer(packet) {
            self.take(answer);
            self.advance(now);
            return true;
        }
        let Some(reply) = self.reply_to(packet) else { return false };
        self.requests.reply(root, reply);
        if replies::reports_link(packet) {
            self.start(now);
        }
        true
    }

    /// Carries out all that is due.
    pub fn handle_timeout(&mut self, now: SimTime) {
        for request in self.requests.expire(now) {
            match request.purpose {
                Ask::Write((node, _)) => self.lose(node, request.attribute),
                _ => self.discovery().give_up(request),
            }
        }
        if self.stage == Stage::Idle && self.next_sweep.is_some_and(|at| at <= now) {
            return self.start(now);
        }
        self.advance(now);
    }

    /// Returns the next packet to send, with the index of the manager's port.
    pub fn poll_transmit(&mut self) -> Option<(usize, Box<ManagementPacket>)> {
        self.requests.take_packet()
    }

    /// Returns the time of the next [`Self::handle_timeout`]; `None` if the manager only waits for
    /// packets.
    pub fn poll_timeout(&self) -> Option<SimTime> {
        if self.stage == Stage::Idle { self.next_sweep } else { self.requests.deadline() }
    }

    /// Checks whether no sweep is under way.
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// Returns the problems of the last sweep.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Returns the subnet as the last sweep found it.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the LID of a port of an HCA, or of port 0 of a switch; `None` if it has none.
    pub fn lid(&self, node: Guid, port: PortNumber) -> Option<Lid> {
        self.lids.get(&(node, port.0)).copied()
    }

    /// Returns the paths of the last sweep; `None` before its discovery has ended.
    pub fn paths(&self) -> Option<SweptPaths> {
        let plan = self.plan.as_ref()?;
        let number: BTreeMap<usize, usize> = plan.switches.iter().enumerate().map(|(number, node)| (*node, number)).collect();
        let leaf = |end: &End| Some((plan.lids_of(*end)?, *number.get(&self.topology.linked(*end)?.0)?));
        let leaves = plan.ends.iter().filter_map(leaf).flat_map(|(lids, switch)| lids.all().map(move |lid| (lid, switch)));
        Some(SweptPaths { manager_lid: plan.manager_lid, routes: plan.routes.clone(), leaves: leaves.collect() })
    }

    /// Returns the numbers of the manager's work.
    pub fn tally(&self) -> Tally {
        Tally { sweeps: self.sweeps, sent: self.requests.sent, sent_again: self.requests.sent_again }
    }

    /// Sets the members of a multicast group: ports of HCAs, by the GUID of the node. The switches
    /// learn their tables at once, or with the sweep under way.
    pub fn set_members(&mut self, mlid: Lid, members: impl IntoIterator<Item = (Guid, PortNumber)>, now: SimTime) {
        self.groups.insert(mlid, members.into_iter().map(|(guid, port)| (guid, port.0)).collect());
        if self.stage != Stage::Idle {
            self.wants_sweep = true;
            return;
        }
        let groups = self.groups_by_end();
        let Some(writes) = self.writes(|writes| writes.multicast(&groups)) else { return };
        self.add_changed(writes);
        self.stage = Stage::Active;
        self.advance(now);
    }

    fn sweep(&mut self) {
        (self.stage, self.wants_sweep, self.next_sweep) = (Stage::Discovery, false, None);
        self.sweeps += 1;
        self.sweeps_in_a_row = self.sweeps_in_a_row.saturating_add(1);
        self.problems.clear();
        self.topology = Topology::default();
        self.plan = None;
        let roots = self.roots;
        self.discovery().begin(roots);
    }

    fn discovery(&mut self) -> Discovery<'_> {
        let Self { topology, requests, problems, configuration, .. } = self;
        Discovery { topology, requests, problems, m_key: configuration.m_key }
    }

    fn take(&mut self, answer: Answer<Ask>) {
        let Ask::Write(end) = answer.request.purpose else { return self.discovery().take(answer) };
        let Answer { request, status, data } = answer;
        let Some(wanted) = request.data else { return };
        if status != Status::SUCCESS || !writes::is_done(request.attribute, &wanted, &data) {
            let place = place_of(&self.topology, end);
            return note(&mut self.problems, Problem::Refused { place, attribute: request.attribute, status });
        }
        if request.attribute != AttributeId::PORT_INFO && request.attribute != AttributeId::SWITCH_INFO {
            let guid = self.topology.nodes[end.0].guid();
            self.written.insert((guid, end.1, request.attribute, request.modifier), wanted);
        }
    }

    /// Gives up on a node that does not answer a write.
    fn lose(&mut self, node: usize, attribute: AttributeId) {
        let guid = self.topology.nodes[node].guid();
        self.requests.drop_where(|ask| ask.node() == Some(node));
        note(&mut self.problems, Problem::Vanished { node: guid, attribute });
        self.wants_sweep = true;
    }

    /// Begins the next stage while no request is left, and sends.
    fn advance(&mut self, now: SimTime) {
        while self.stage != Stage::Idle && self.requests.is_idle() {
            self.next_stage(now);
        }
        self.requests.fill(now);
    }

    fn next_stage(&mut self, now: SimTime) {
        let (stage, added) = match self.stage {
            Stage::Idle => return,
            Stage::Discovery => {
                self.make_plan();
                (Stage::Ports, self.writes(|writes| writes.ports()))
            }
            Stage::Ports => {
                let groups = self.groups_by_end();
                (Stage::Tables, self.writes(|writes| writes.tables(&groups)))
            }
            Stage::Tables => (Stage::Armed, self.writes(|writes| writes.states(PortState::ARMED))),
            Stage::Armed => (Stage::Active, self.writes(|writes| writes.states(PortState::ACTIVE))),
            Stage::Active => return self.end_sweep(now),
        };
        self.stage = stage;
        self.add_changed(added.unwrap_or_default());
    }

    fn end_sweep(&mut self, now: SimTime) {
        self.stage = Stage::Idle;
        if self.wants_sweep && self.sweeps_in_a_row < self.configuration.sweeps_max {
            return self.sweep();
        }
        self.wants_sweep = false;
        self.next_sweep = self.configuration.sweep_interval.map(|interval| now + interval);
    }

    fn make_plan(&mut self) {
        self.discovery().finish();
        self.forget();
        let Self { topology, configuration, lids, problems, .. } = self;
        self.plan = Some(Plan::new(topology, configuration, lids, problems));
    }

    /// Forgets the writes to nodes that have started again since: they have lost their LID. Those
    /// that are away may start again, too.
    fn forget(&mut self) {
        let Self { topology, lids, written, .. } = self;
        let has_kept = |guid: Guid, port: u8| {
            let node = topology.with_guid(guid)?;
            let lid = topology.port((node, port))?.info?.lid;
            Some(lid != Lid::NONE && lids.get(&(guid, port)) == Some(&lid))
        };
        written.retain(|(guid, port, ..), _| has_kept(*guid, if lids.contains_key(&(*guid, 0)) { 0 } else { *port }).unwrap_or(false));
    }

    /// Adds the writes that change something, without those to lost nodes.
    fn add_changed(&mut self, writes: Vec<Request<Ask>>) {
        for request in writes {
            let Ask::Write(end) = request.purpose else { continue };
            let guid = self.topology.nodes[end.0].guid();
            let is_lost = self.problems.iter().any(|problem| matches!(problem, Problem::Vanished { node, .. } if *node == guid));
            let before = self.written.get(&(guid, end.1, request.attribute, request.modifier));
            // Multicast tables are empty at first.
            let is_needless = before.is_none() && request.attribute == AttributeId::MULTICAST_FORWARDING_TABLE && is_zero(&request);
            if !is_lost && !is_needless && before != request.data.as_ref() {
                self.requests.add(request);
            }
        }
    }

    fn writes<T>(&mut self, make: impl FnOnce(&mut Writes<'_>) -> T) -> Option<T> {
        let Self { topology, configuration, plan, problems, .. } = self;
        let plan = plan.as_ref()?;
        Some(make(&mut Writes { topology, configuration, plan, problems }))
    }

    fn groups_by_end(&self) -> BTreeMap<Lid, BTreeSet<End>> {
        let ends =
            |members: &BTreeSet<(Guid, u8)>| members.iter().filter_map(|(guid, port)| Some((self.topology.with_guid(*guid)?, *port))).collect();
        self.groups.iter().map(|(mlid, members)| (*mlid, ends(members))).collect()
    }
}

fn is_zero(request: &Request<Ask>) -> bool {
    request.data.as_ref().is_none_or(|data| data.iter().all(|byte| *byte == 0))
}

/// Adds a problem once.
fn note(problems: &mut Vec<Problem>, problem: Problem) {
    if problems.len() < PROBLEMS_MAX && !problems.contains(&problem) {
        problems.push(problem);
    }
}
