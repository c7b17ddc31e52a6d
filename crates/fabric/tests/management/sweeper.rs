//! A subnet manager as a program of the fabric's first host.

use softband_fabric::World;
use softband_fabric::notice::Notice;
use softband_model::management::ManagementPacket;
use softband_model::management::manager::{Configuration, Manager};
use softband_model::verbs::api::{HostMemory, MemoryFault, PayloadSlice};
use softband_sim::{SimDuration, SimTime};
use softband_spec::{FabricSpec, PortRef, SubnetManager, manager_configuration};
use softband_types::*;
use std::collections::BTreeSet;

/// Memory of hosts whose programs use none.
pub(crate) struct NoMemory;

impl HostMemory for NoMemory {
    fn read(&mut self, _: ProcessId, _: u64, _: &mut [u8]) -> Result<(), MemoryFault> {
        Err(MemoryFault)
    }
    fn write(&mut self, _: ProcessId, _: u64, _: &PayloadSlice) -> Result<(), MemoryFault> {
        Err(MemoryFault)
    }
}

/// Returns a port in each network of a fabric: the first port of an HCA, in the order of the
/// description.
pub(crate) fn roots(spec: &FabricSpec) -> Vec<PortRef> {
    let far = |end: PortRef| spec.cables.iter().find_map(|cable| cable.ends.iter().position(|at| *at == end).map(|side| cable.ends[1 - side]));
    let mut reached = BTreeSet::new();
    let mut roots = Vec::new();
    for root in hca_ports(spec) {
        let Some(first) = far(root).filter(|_| !reached.contains(&root)) else { continue };
        roots.push(root);
        reached.insert(root);
        let mut at = vec![first];
        while let Some(end) = at.pop() {
            if !reached.insert(end) {
                continue;
            }
            if let PortRef::Switch { switch, .. } = end {
                let own = (1..=spec.switches[switch].part.ports).map(|port| PortRef::Switch { switch, port: PortNumber(port) });
                for port in own {
                    reached.insert(port);
                    at.extend(far(port).filter(|far| !reached.contains(far)));
                }
            }
        }
    }
    roots
}

pub(crate) fn hca_ports(spec: &FabricSpec) -> Vec<PortRef> {
    let mut ports = Vec::new();
    for (host, of) in spec.hosts.iter().enumerate() {
        for (hca, of) in of.hcas.iter().enumerate() {
            ports.extend((1..=of.part.ports).map(|port| PortRef::Hca { host, hca, port: PortNumber(port) }));
        }
    }
    ports
}

/// A fabric without a manager of its own, and the manager that a program runs.
pub(crate) struct Sweeper {
    pub(crate) world: World,
    pub(crate) manager: Manager,
    roots: Vec<(HcaId, PortNumber)>,
    now: SimTime,
    /// All notices but arrivals.
    pub(crate) seen: Vec<(SimTime, Notice)>,
}

impl Sweeper {
    pub(crate) fn new(spec: &FabricSpec) -> Self {
        Self::with(spec, |configuration| configuration)
    }

    /// Creates a manager whose configuration `change` edits.
    pub(crate) fn with(spec: &FabricSpec, change: impl FnOnce(Configuration) -> Configuration) -> Self {
        let mut hardware = spec.clone();
        hardware.subnet.manager = SubnetManager::OpenSm;
        let world = World::new(&hardware, 1);
        let hca_port = |root| match root {
            PortRef::Hca { host, hca, port } => (world.hca_id(host, hca), port),
            PortRef::Switch { .. } => unreachable!("a program runs on a host"),
        };
        let roots: Vec<_> = roots(spec).into_iter().map(hca_port).collect();
        let manager = Manager::new(change(manager_configuration(spec)), roots.len());
        Self { world, manager, roots, now: SimTime::ZERO, seen: Vec::new() }
    }

    /// Sweeps the fabric. Returns the simulated time that this takes.
    pub(crate) fn sweep(&mut self) -> SimDuration {
        let begun = self.now.max(self.world.now());
        self.now = begun;
        self.manager.start(begun);
        self.run();
        self.now - begun
    }

    /// Runs fabric and manager until the manager is idle.
    pub(crate) fn run(&mut self) {
        self.send();
        while !self.manager.is_idle() {
            self.step();
        }
    }

    /// Runs fabric and manager up to a time.
    pub(crate) fn run_until(&mut self, end: SimTime) {
        while self.world.next_event_time().into_iter().chain(self.manager.poll_timeout()).min().is_some_and(|next| next <= end) {
            self.step();
        }
    }

    fn send(&mut self) {
        while let Some((root, packet)) = self.manager.poll_transmit() {
            let (hca, port) = self.roots[root];
            self.world.send_management(hca, port, packet, self.now);
        }
    }

    fn step(&mut self) {
        let event = self.world.next_event_time();
        let due = self.manager.poll_timeout().filter(|due| event.is_none_or(|event| *due < event));
        if let Some(due) = due {
            self.now = self.now.max(due);
            self.manager.handle_timeout(self.now);
            return self.send();
        }
        let mut notices = Vec::new();
        self.world.step(&mut NoMemory, &mut notices);
        self.now = self.world.now();
        for notice in notices {
            match notice {
                Notice::ManagementArrived { hca, port, packet } => self.arrived((hca, port), &packet),
                other => self.seen.push((self.now, other)),
            }
        }
        self.send();
    }

    fn arrived(&mut self, at: (HcaId, PortNumber), packet: &ManagementPacket) {
        if let Some(root) = self.roots.iter().position(|root| *root == at) {
            self.manager.handle_packet(root, packet, self.now);
        }
    }
}
