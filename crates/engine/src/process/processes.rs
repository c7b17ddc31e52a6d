//! The room of processes: all past and present ones by number, and the living ones. A persistent
//! fabric sees any number of processes come and go. Ended processes must not slow down its steady
//! work.

use crate::control::admission::Admission;
use crate::host::network::{self, Network};
use crate::host::ports;
use crate::host::relay::places::Place;
use crate::options::Pace;
use crate::process::image::Shared;
use crate::process::programs::Programs;
use crate::process::record::{Process, ProcessState, virtual_pid};
use crate::process::sharing::{Mapping, Sharing};
use softband_fabric::World;
use softband_ipc::layout::{self, HostEntry, SharedHeader};
use softband_sim::{RandomStream, SimTime};
use softband_types::ProcessId;
use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Facts of the engine that a new image finds in its shared memory.
pub(crate) struct Surroundings<'a> {
    pub(crate) world: &'a World,
    pub(crate) network: &'a Network,
    pub(crate) admission: &'a Admission,
    pub(crate) pace: Pace,
    pub(crate) now: SimTime,
    /// Reads of a token before sleep.
    pub(crate) spins: u32,
    /// Processors on which threads may compute ahead.
    pub(crate) processors: [u64; layout::PROCESSOR_WORDS],
    /// Start of the engine on the clock that programs read, in nanoseconds.
    pub(crate) wall_start_ns: u64,
    /// Set if the kernel orders the announcements of transfers.
    pub(crate) orders_epoch_slots: bool,
}

/// All past and present processes.
#[derive(Default)]
pub(crate) struct Processes {
    all: Vec<Process>,
    /// Numbers of living processes in order, and of some that ended since the last addition.
    living: Vec<usize>,
    /// Shared memory of replaced images. A turn may still end there.
    retired: Vec<Shared>,
    sharing: Sharing,
    /// Buffer for posts on their way from shared memory to the World.
    posted: Vec<u8>,
    seed: u64,
    /// Date of simulated time zero, in seconds since 1970.
    epoch_seconds: u64,
}

/// Returns whether a process may still report events. An ended process closes its connection a
/// moment later.
fn lives(process: &Process) -> bool {
    process.state() != ProcessState::Ended || process.connection().is_some()
}

fn host_entry(place: &Place, name: &str) -> HostEntry {
    let (address, host, prefix) = (place.address.into(), place.host as u32, place.prefix.into());
    let mut entry = HostEntry { address, name_len: name.len().min(63) as u32, host, prefix, name: [0; 64] };
    entry.name[..entry.name_len as usize].copy_from_slice(&name.as_bytes()[..entry.name_len as usize]);
    entry
}

impl Processes {
    /// `epoch_seconds` is the date of simulated time zero, in seconds since 1970.
    pub(crate) fn new(seed: u64, epoch_seconds: u64) -> Self {
        Self { seed, epoch_seconds, ..Self::default() }
    }

    /// Adds a process of a program on a host, with its parent if it has one. An image will attach
    /// as this process. Returns its index.
    ///
    /// # Errors
    /// If the system has no memory or no descriptors for it. Nothing has changed then.
    pub(crate) fn expect(&mut self, around: &Surroundings<'_>, (host, program, parent): (usize, usize, Option<usize>)) -> std::io::Result<usize> {
        let index = self.all.len();
        let number = ProcessId(index as u32);
        let shared = self.prepare(around, number, host, around.now)?;
        self.living.retain(|number| lives(&self.all[*number]));
        self.living.push(index);
        self.all.push(Process::new(number, (host, program, parent), shared));
        Ok(index)
    }

    /// Prepares fresh shared memory for a new image of a process.
    ///
    /// # Errors
    /// As [`Processes::expect`].
    pub(crate) fn prepare_image(&self, around: &Surroundings<'_>, process: usize) -> std::io::Result<Shared> {
        let record = &self[process];
        self.prepare(around, record.number(), record.host(), record.last_clock().unwrap_or(around.now))
    }

    /// Gives a process the memory of its new image, and one thread. The world has no verbs objects
    /// of the former image any more.
    pub(crate) fn replace_image(&mut self, process: usize, shared: Shared) {
        self.end_sharing(process);
        let former = self[process].replace_image(shared);
        self.retired.push(former);
    }

    fn prepare(&self, around: &Surroundings<'_>, number: ProcessId, host: usize, clock: SimTime) -> std::io::Result<Shared> {
        let mut shared = Shared::new()?;
        let hosts = &around.world.spec().hosts;
        if around.pace == Pace::Wall {
            match around.network.places() {
                Some(places) => shared.write_hosts(places.iter().map(|place| host_entry(place, &place.name))),
                None => shared.write_hosts(hosts.iter().enumerate().map(|(index, host)| host_entry(&Place::of_host(index), &host.name))),
            }
            shared.make_memory_file(around.admission);
        }
        let part = &hosts[host];
        let mut host_name = [0; 64];
        let memory_file = shared.memory_file_number();
        let name = part.name.as_bytes();
        host_name[..name.len().min(63)].copy_from_slice(&name[..name.len().min(63)]);
        shared.write_header(SharedHeader {
            magic: 0,
            version: 0,
            process: number.0,
            host_address: around.network.places().map_or(network::address(host), |places| places.main(host).into()),
            virtual_pid: virtual_pid(number),
            host_name,
            kernel_distance: around.network.kernel_distance(),
            has_modelled_network: u32::from(around.pace == Pace::Virtual && around.world.spec().has_modelled_network()),
            kernel_base: around.network.kernel_address(0),
            relayed: around.network.places().map_or(0, |places| places.len() as u32),
            has_rdma_addresses: u32::from((0..hosts.len()).any(|host| ports::ethernet_ports(around.world, host).next().is_some())),
            epoch_seconds: self.epoch_seconds,
            cost_post_send: part.part.post_send.as_picos(),
            cost_write_combining_flush: part.part.write_combining_flush.as_picos(),
            cost_post_address: part.part.post_address.as_picos(),
            cost_post_receive: part.part.post_receive.as_picos(),
            cost_poll_cq: part.part.poll_cq.as_picos(),
            cost_take_completion: part.part.take_completion.as_picos(),
            cost_copy_mebibyte: part.part.copy_mebibyte().as_picos(),
            cost_file_mebibyte: part.part.files.copy_mebibyte().as_picos(),
            has_disk: u32::from(around.pace == Pace::Virtual && part.part.files.disk.is_some()),
            cost_clock_read: part.part.clock_read.as_picos(),
            seed: RandomStream::new(self.seed, u64::from(number.0)).next_u64(),
            token_spins: AtomicU32::new(around.spins),
            pace: match around.pace {
                Pace::Virtual => layout::pace::VIRTUAL,
                Pace::Wall => layout::pace::WALL,
            },
            deadline_ps: AtomicU64::new(u64::MAX),
            epoch_slots: Default::default(),
            orders_epoch_slots: u32::from(around.orders_epoch_slots),
            wall_start_ns: around.wall_start_ns,
            ring_produced: AtomicU64::new(0),
            ring_consumed: AtomicU64::new(0),
            memory_generation: AtomicU64::new(0),
            memory_file,
            is_welcomed: AtomicU32::new(0),
            kernel_questions: AtomicU32::new(0),
            fallbacks: Default::default(),
            call_names_wanted: AtomicU32::new(0),
            call_names_claimed: AtomicU32::new(0),
            call_names: Default::default(),
            processors: around.processors,
            shared_ranges: Default::default(),
            written_ranges: Default::default(),
            written_at_ps: AtomicU64::new(0),
        });
        shared.slot(0).clock_ps.store(clock.as_picos(), Ordering::Relaxed);
        Ok(shared)
    }

    /// Frees the shared memory of replaced images. No turn is under way.
    pub(crate) fn drop_retired(&mut self) {
        self.retired.clear();
    }

    /// Takes the buffer for posts. The caller returns it by [`Processes::keep_buffer`].
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.posted)
    }

    pub(crate) fn keep_buffer(&mut self, posted: Vec<u8>) {
        self.posted = posted;
    }

    /// Returns the number of all past and present processes.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns all past and present processes.
    pub(crate) fn ever(&self) -> &[Process] {
        &self.all
    }

    pub(crate) fn living(&self) -> impl Iterator<Item = &Process> {
        self.living.iter().map(|number| &self.all[*number]).filter(|process| lives(process))
    }

    /// Returns the `nth` living process, for loops that change the processes. It may have ended.
    pub(crate) fn nth_living(&self, nth: usize) -> Option<usize> {
        self.living.get(nth).copied()
    }

    /// Returns the number of the first living process for which `is_it` is true.
    pub(crate) fn find(&self, is_it: impl Fn(&Process) -> bool) -> Option<usize> {
        self.living().find(|process| is_it(process)).map(Process::index)
    }

    pub(crate) fn any(&self, is_it: impl Fn(&Process) -> bool) -> bool {
        self.find(is_it).is_some()
    }

    /// Returns the process of a control connection.
    pub(crate) fn of_connection(&self, connection: u64) -> Option<usize> {
        self.find(|process| process.connection() == Some(connection))
    }

    /// Returns the host's ids of a process and of the processes above it. Includes the process that
    /// the engine has started for the program of a process without a parent.
    pub(crate) fn pids_above(&self, programs: &Programs, process: usize) -> impl Iterator<Item = i32> {
        let line = std::iter::successors(Some(process), |process| self.all[*process].parent()).map(|process| &self.all[process]);
        line.flat_map(|process| {
            let started = programs.pid_of(process.program()).filter(|_| process.parent().is_none());
            [Some(process.pid()), started].into_iter().flatten()
        })
    }

    /// Notes that a process has mapped shared memory under this number.
    pub(crate) fn map_shared(&mut self, process: usize, range: u32, mapping: Mapping) {
        let changed = self.sharing.add((process, range), mapping);
        self.show_sharing(&changed);
    }

    /// Notes that a process has no shared memory under this number any more.
    pub(crate) fn unmap_shared(&mut self, process: usize, range: u32) {
        let changed = self.sharing.remove((process, range));
        self.show_sharing(&changed);
    }

    /// Gives a child the shared mappings of its parent.
    pub(crate) fn inherit_sharing(&mut self, parent: usize, child: usize) {
        for (range, mapping) in self.sharing.of(parent) {
            self.map_shared(child, range, mapping);
        }
    }

    /// Ends all shared mappings of a process.
    pub(crate) fn end_sharing(&mut self, process: usize) {
        for (range, _) in self.sharing.of(process) {
            self.unmap_shared(process, range);
        }
    }

    fn show_sharing(&self, changed: &[(usize, u32)]) {
        for (process, range) in changed {
            self.all[*process].show_shared(*range, self.sharing.is_shared((*process, *range)));
        }
    }

    /// Returns whether a process has shared memory, which others may not have mapped yet.
    pub(crate) fn maps_shared_memory(&self, process: usize) -> bool {
        self.sharing.of(process).iter().any(|(_, mapping)| mapping.may_change)
    }

    /// Returns whether another process has shared memory of this one.
    pub(crate) fn is_sharing(&self, process: usize) -> bool {
        self.sharing.of(process).iter().any(|(range, _)| self.sharing.is_shared((process, *range)))
    }

    /// Takes the writes of a process in its turn. Returns the other processes with the written
    /// memory, in order.
    pub(crate) fn take_readers(&self, process: usize) -> BTreeSet<usize> {
        self.all[process].take_written().into_iter().flat_map(|range| self.sharing.sharers((process, range))).collect()
    }

    /// Notes a write of an HCA to memory of a process. Returns whether the memory is a shared mapping.
    pub(crate) fn note_dma(&mut self, process: usize, (address, len): (u64, u64)) -> bool {
        self.sharing.note_dma(process, (address, address.saturating_add(len)))
    }

    /// Takes the writes of HCAs to shared mappings of a process. Returns the other processes with the
    /// written memory, in order.
    pub(crate) fn take_readers_of_dma(&mut self, process: usize) -> BTreeSet<usize> {
        let written = self.sharing.take_dma(process);
        written.into_iter().flat_map(|range| self.sharing.sharers((process, range))).collect()
    }

    /// Awaits the promised children of `parent`. It has had the token, so they exist now.
    pub(crate) fn keep_promises(&mut self, parent: usize) {
        while let Some(child) = self.find(|process| process.state() == ProcessState::Promised && process.parent() == Some(parent)) {
            self.all[child].expect_image();
        }
    }
}

impl Index<usize> for Processes {
    type Output = Process;

    fn index(&self, number: usize) -> &Process {
        &self.all[number]
    }
}

impl IndexMut<usize> for Processes {
    fn index_mut(&mut self, number: usize) -> &mut Process {
        &mut self.all[number]
    }
}
