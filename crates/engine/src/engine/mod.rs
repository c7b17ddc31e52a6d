//! The engine: a composition of rooms, each with a state of its own. This folder runs them: it
//! takes the next event of the fabric or of a program, and hands each room the others that it
//! needs.

mod ahead;
mod attach;
mod calls;
mod captures;
#[doc(hidden)]
pub mod cm_harness;
mod commands;
mod events;
mod faults;
pub mod harness;
mod lifecycle;
mod main_loop;
mod metrics;
mod notices;
mod turns;
mod wall;
#[doc(hidden)]
pub mod wall_harness;

use crate::completion::room::CompletionQueues;
use crate::control::admission::{self, Admission};
use crate::control::room::Control;
use crate::control::socket::{self, Mailbox};
use crate::diagnosis::observer::Observer;
use crate::diagnosis::vain_polls::VainPolls;
use crate::diagnosis::work::ThreadWork;
use crate::host::files::Files;
use crate::host::kernel::Kernels;
use crate::host::network::Network;
use crate::host::relay::Relay;
use crate::host::room::HostServices;
use crate::options::{Interrupt, Options, Pace, SocketNetwork};
use crate::process::launch::Libraries;
use crate::process::memory::ProgramMemory;
use crate::process::processes::{Processes, Surroundings};
use crate::process::programs::{EndWatcher, Programs};
use crate::realtime::room::{DataPlane, Realtime};
use crate::report::Report;
use crate::rpc::host_calls::HostCalls;
use crate::rpc::room::Verbs;
use crate::scheduler::busy_machine;
use crate::scheduler::context_switch::Processors;
use crate::scheduler::room::Scheduler;
use crate::scheduler::time_limit::Guard;
use anyhow::Context;
pub use captures::{CaptureOpener, Opened};
use softband_fabric::World;
use softband_spec::FabricSpec;
use std::path::Path;
use std::sync::Arc;

const PRELOAD: &str = "libsoftband.so";
/// Warning about network interfaces that wall pace does not model.
const MACHINES_SOCKETS: &str = "sockets are the machine's in wall pace, and hosts show `eth0` alone: use `--network modelled` or `--pace virtual` for the network interfaces of the fabric file";

/// A fabric and the programs that run on it.
pub struct Engine {
    world: World,
    scheduler: Scheduler,
    processes: Processes,
    memory: ProgramMemory,
    programs: Programs,
    host: HostServices,
    /// `None` if no interface sends packets over modelled links.
    kernels: Option<Kernels>,
    cqs: CompletionQueues,
    realtime: Realtime,
    control: Control,
    report: Report,
    vain_polls: VainPolls,
    captures: captures::Captures,
    /// Watches the run, and after it the command's output. Fields are dropped in order, so it also
    /// watches the removal of the run's files.
    guard: Option<Guard>,
}

impl Engine {
    /// Creates an engine for `spec`. `libraries` is the directory that holds `libsoftband.so` and
    /// `libibverbs.so.1`.
    ///
    /// # Errors
    /// If the libraries are missing or the engine cannot open the control socket.
    pub fn new(spec: &FabricSpec, seed: u64, libraries: &Path, options: Options, interrupt: Interrupt) -> anyhow::Result<Self> {
        Self::in_folder(None, (spec, seed), libraries, options, interrupt)
    }

    /// Creates the engine of a shared fabric, in wall pace. Each process that may enter `folder` may
    /// join, also one of another user or in other namespaces.
    ///
    /// # Errors
    /// As for [`Engine::new`], and if the engine cannot write into the folder.
    pub fn new_shared(
        folder: &Path,
        (spec, seed): (&FabricSpec, u64),
        libraries: &Path,
        options: Options,
        interrupt: Interrupt,
    ) -> anyhow::Result<Self> {
        Self::in_folder(Some(folder), (spec, seed), libraries, options, interrupt)
    }

    fn in_folder(
        shared: Option<&Path>,
        (spec, seed): (&FabricSpec, u64),
        libraries: &Path,
        options: Options,
        interrupt: Interrupt,
    ) -> anyhow::Result<Self> {
        let preload = libraries.join(PRELOAD);
        anyhow::ensure!(preload.is_file(), "{} is not there: run `make build`, or name the folder in SOFTBAND_LIB", preload.display());
        let (mailbox, receiver) = Mailbox::new();
        admission::hide_from_programs();
        let name = admission::random_name()?;
        let processors = Processors::choose(options.processors);
        let (name, admission, files) = match shared {
            None => (name, Admission::default(), None),
            Some(folder) => {
                let files = Files::of_shared_fabric(folder, &name)?;
                (files.socket()?, Admission::of_shared_fabric(), Some(files))
            }
        };
        let admission = Arc::new(admission);
        socket::serve(&name, (mailbox.clone(), admission.clone()), options.pace == Pace::Virtual).context("cannot open the control socket")?;
        if options.pace == Pace::Virtual {
            processors.settle();
            busy_machine::shorten_time_slice();
        }
        let mut files = files.map_or_else(|| Files::new(&name), Ok)?;
        if options.pace == Pace::Virtual {
            files.show_one_processor();
        }
        let directory = files.way_to(libraries)?;
        let libraries = Libraries { preload: directory.join(PRELOAD), directory, by_preload: options.by_preload };
        let is_relayed = options.pace == Pace::Wall && options.network == SocketNetwork::Modelled;
        let network = if options.pace == Pace::Wall { Network::reserve()? } else { Network::simulated() };
        let mut host = HostServices::new(spec.hosts.len(), if is_relayed { network.relay(spec)? } else { network }, Some(files));
        if is_relayed {
            host.set_relay(Relay::new(mailbox.clone()).context("cannot relay sockets")?);
        }
        let mut scheduler = Scheduler::new(processors, options.pace, interrupt)?;
        scheduler.set_limits(options.limits);
        Self::assemble(
            spec,
            scheduler,
            Processes::new(seed, options.epoch_seconds),
            seed,
            libraries,
            host,
            Control::new(name, (mailbox, receiver), admission),
        )
    }

    /// Assembles an engine from its rooms.
    fn assemble(
        spec: &FabricSpec,
        scheduler: Scheduler,
        processes: Processes,
        seed: u64,
        libraries: Libraries,
        host: HostServices,
        control: Control,
    ) -> anyhow::Result<Self> {
        let mut memory = ProgramMemory::default();
        memory.ahead_mut().set_interrupt(scheduler.interrupt().clone());
        let mut world = World::new(spec, seed);
        if scheduler.is_wall() {
            // The model carries few packets then, and its time stands still while programs look.
            world.go_packet_by_packet();
        }
        // In wall pace the sockets are the machine's, unless the engine relays them.
        let has_kernels = !scheduler.is_wall() || host.has_relay();
        let kernels = if has_kernels { Kernels::new(&mut world, seed, host.has_relay()).map_err(anyhow::Error::msg)? } else { None };
        let mut engine = Self {
            world,
            scheduler,
            processes,
            memory,
            programs: Programs::new(libraries)?,
            host,
            kernels,
            cqs: CompletionQueues::default(),
            realtime: Realtime::new()?,
            control,
            report: Report::default(),
            vain_polls: VainPolls::default(),
            captures: captures::Captures::default(),
            guard: None,
        };
        engine.host_calls().settle_kernels();
        if engine.scheduler.is_wall() && engine.kernels.is_none() && spec.has_modelled_network() {
            engine.report.warn(MACHINES_SOCKETS.into());
        }
        Ok(engine)
    }

    /// Assembles an engine without a control socket, for the harnesses. Its only program is
    /// nameless and runs on host 0.
    fn for_harness(spec: &FabricSpec, name: &str, pace: Pace) -> anyhow::Result<Self> {
        let libraries = Libraries { preload: "".into(), directory: "".into(), by_preload: true };
        let mut engine = Self::assemble(
            spec,
            Scheduler::new(Processors::choose(Some(1)), pace, Interrupt::default())?,
            Processes::new(1, 0),
            1,
            libraries,
            HostServices::new(spec.hosts.len(), Network::simulated(), None),
            Control::new(name.into(), Mailbox::new(), Arc::default()),
        )?;
        engine.programs.set(vec![crate::process::launch::Program {
            host: 0,
            command: "harness".into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            stdout: None,
            stderr: None,
        }]);
        Ok(engine)
    }

    /// Handles each hop of each packet by an event of its own, as [`World::go_packet_by_packet`].
    pub fn go_packet_by_packet(&mut self) {
        self.world.go_packet_by_packet();
    }

    pub fn world(&self) -> &World {
        &self.world
    }

    /// Calls `watcher` at the end of each program. In simulated time the engine waits for the exit
    /// status of each program at its end, so calls have a place in the order of events.
    pub fn watch_ends(&mut self, watcher: EndWatcher) {
        self.programs.watch_ends(watcher);
    }

    /// Lets the run end as soon as these programs have ended, by their numbers. The others are
    /// servers: the engine ends them, and their statuses do not count.
    pub fn end_with(&mut self, main: Vec<usize>) {
        self.programs.end_with(main);
    }

    /// Returns the name by which programs and commands find this engine.
    pub fn name(&self) -> &str {
        self.control.name()
    }

    /// Returns every thread that worked during transfers, by process and slot; none in wall pace.
    pub fn thread_work(&self) -> Vec<ThreadWork> {
        self.observer().thread_work()
    }

    /// Returns the rooms that a diagnosis reads.
    fn observer(&self) -> Observer<'_> {
        Observer {
            world: &self.world,
            scheduler: &self.scheduler,
            processes: &self.processes,
            programs: &self.programs,
            host: &self.host,
            cqs: &self.cqs,
            realtime: &self.realtime,
        }
    }

    /// Returns the rooms that the data plane of wall pace works on.
    fn plane(&mut self) -> DataPlane<'_> {
        DataPlane {
            world: &mut self.world,
            scheduler: &mut self.scheduler,
            processes: &mut self.processes,
            memory: &mut self.memory,
            host: &mut self.host,
            cqs: &mut self.cqs,
            realtime: &mut self.realtime,
        }
    }

    /// Returns the rooms that verbs and posts work on.
    fn verbs(&mut self) -> Verbs<'_> {
        Verbs {
            world: &mut self.world,
            scheduler: &mut self.scheduler,
            processes: &mut self.processes,
            memory: &mut self.memory,
            host: &mut self.host,
            cqs: &mut self.cqs,
            realtime: &mut self.realtime,
        }
    }

    /// Returns the rooms that calls for sockets, timers and names work on.
    fn host_calls(&mut self) -> HostCalls<'_> {
        HostCalls {
            world: &mut self.world,
            scheduler: &mut self.scheduler,
            processes: &mut self.processes,
            programs: &self.programs,
            host: &mut self.host,
            kernels: &mut self.kernels,
            report: &mut self.report,
        }
    }

    /// Adds a warning for the user. Each warning appears once.
    fn warn(&mut self, line: String) {
        self.report.warn(line);
    }

    /// Names the program of a process: `a: 'ib_send_bw'`.
    fn command_of(&self, process: usize) -> String {
        self.programs.name_for(&self.world, &self.processes[process])
    }
}

/// Returns the facts that a new image finds in its shared memory.
fn surroundings<'a>(world: &'a World, scheduler: &Scheduler, host: &'a HostServices, realtime: &Realtime, control: &'a Control) -> Surroundings<'a> {
    Surroundings {
        world,
        network: host.network(),
        admission: control.admission(),
        pace: scheduler.pace(),
        now: scheduler.now(),
        spins: scheduler.spins(),
        processors: scheduler.processors_for_computation(),
        wall_start_ns: scheduler.wall_start_ns(),
        orders_epoch_slots: realtime.has_barriers(),
    }
}
