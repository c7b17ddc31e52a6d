//! The room of the hosts' services to programs: sockets, timers, channels, and files.

use crate::host::cm::CmTable;
use crate::host::datagrams::{DatagramTable, Incoming};
use crate::host::disks::Disk;
use crate::host::files::Files;
use crate::host::kernel::Kernels;
use crate::host::mads::MadTable;
use crate::host::name_files;
use crate::host::network::Network;
use crate::host::objects::{self, About, Object, Objects};
use crate::host::relay::Relay;
use crate::host::relay::places::Places;
use crate::host::sockets::{Path, Socket, SocketTable, Wakeups};
use crate::host::stack_sockets::StackSockets;
use rustix::net::SocketAddrUnix;
use softband_fabric::World;
use softband_ipc::calls::{WaitEntry, readiness};
use softband_sim::SimTime;
use softband_types::{HcaId, PortNumber};
use std::collections::BTreeMap;

/// Most bytes of all datagrams and MADs that threads pass in parts, in each direction.
const PARTS_BYTES_MAX: usize = 256 << 20;

/// Objects behind descriptors, sockets, the network of the hosts, and the files of their programs.
pub(crate) struct HostServices {
    objects: Objects,
    sockets: SocketTable,
    datagrams: DatagramTable,
    stack_sockets: StackSockets,
    /// Datagrams that threads (process, slot) pass in several parts, to a socket and from it.
    outgoing: BTreeMap<(usize, u32), Vec<u8>>,
    incoming: BTreeMap<(usize, u32), Incoming>,
    mads: MadTable,
    cm: CmTable,
    disks: BTreeMap<usize, Disk>,
    /// MADs that threads read in several parts.
    taken_mads: BTreeMap<(usize, u32), Vec<u8>>,
    network: Network,
    /// Sockets over the modelled network, in wall pace.
    relay: Option<Relay>,
    /// `None` in a harness.
    files: Option<Files>,
}

impl HostServices {
    pub(crate) fn new(hosts: usize, network: Network, files: Option<Files>) -> Self {
        Self {
            objects: Objects::default(),
            sockets: SocketTable::new(hosts),
            datagrams: DatagramTable::new(hosts),
            stack_sockets: StackSockets::default(),
            outgoing: BTreeMap::new(),
            incoming: BTreeMap::new(),
            mads: MadTable::default(),
            cm: CmTable::default(),
            disks: BTreeMap::new(),
            taken_mads: BTreeMap::new(),
            network,
            relay: None,
            files,
        }
    }

    /// Returns the disk of a host.
    pub(crate) fn disk_mut(&mut self, host: usize) -> &mut Disk {
        self.disks.entry(host).or_default()
    }

    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    /// Relays the sockets of programs from now on.
    pub(crate) fn set_relay(&mut self, relay: Relay) {
        self.relay = Some(relay);
    }

    /// Returns the relay with the addresses of the fabric.
    pub(crate) fn relay_mut(&mut self) -> Option<(&mut Relay, &Places)> {
        self.relay.as_mut().zip(self.network.places())
    }

    /// Returns whether the engine relays the sockets of programs over the modelled network.
    pub(crate) fn has_relay(&self) -> bool {
        self.relay.is_some()
    }

    /// Returns the environment variable by which programs of `host` find their files.
    ///
    /// # Errors
    /// If the machine has no room for the files.
    pub(crate) fn files_variable(&self, host: usize, world: &World, kernels: Option<&Kernels>) -> std::io::Result<Option<(String, String)>> {
        let names = || name_files::names(world.spec(), &self.network, kernels, !self.network.is_simulated());
        self.files.as_ref().map_or(Ok(None), |files| files.variable(host, world, kernels, &names))
    }

    /// Writes the new state of a port into the files of its host.
    ///
    /// # Errors
    /// If the machine has no room for the files.
    pub(crate) fn note_port(&self, world: &World, hca: HcaId, port: PortNumber) -> std::io::Result<()> {
        self.files.as_ref().map_or(Ok(()), |files| files.note_port(world, hca, port))
    }

    /// Adds an object with one reference, and returns its number.
    pub(crate) fn add(&mut self, object: Object) -> u32 {
        self.objects.add(object)
    }

    pub(crate) fn object(&self, number: u32) -> Option<&Object> {
        self.objects.get(number)
    }

    pub(crate) fn object_mut(&mut self, number: u32) -> Option<&mut Object> {
        self.objects.get_mut(number)
    }

    /// Adds a reference to an object.
    pub(crate) fn retain(&mut self, object: u32) {
        self.objects.retain(object);
    }

    /// Returns the number of references to an object.
    pub(crate) fn references(&self, object: u32) -> u32 {
        self.objects.references(object)
    }

    /// Gives back one reference to an object. The last one closes a socket, over the path that
    /// `path` returns. Returns the objects whose readiness changes.
    pub(crate) fn release(&mut self, object: u32, now: SimTime, path: impl Fn(&Self) -> Path) -> Wakeups {
        let mut wakeups = Wakeups::new();
        match self.objects.release(object) {
            Some(Object::Socket) => {
                let path = path(self);
                self.sockets.close(object, now, path, &mut wakeups);
            }
            Some(Object::DatagramSocket) => self.datagrams.close(object, now),
            Some(Object::StackSocket) => self.stack_sockets.close(object),
            Some(Object::ManagementDevice) => self.mads.close(object),
            Some(Object::ConnectionManager) => self.cm.close(object, now),
            _ => {}
        }
        wakeups
    }

    /// Returns the readiness bits of an object at `now`.
    pub(crate) fn readiness(&mut self, object: u32, now: SimTime) -> u32 {
        match self.objects.get_mut(object) {
            Some(Object::Socket) => self.sockets.readiness(object, now),
            Some(Object::DatagramSocket) => self.datagrams.readiness(object, now),
            Some(Object::StackSocket) => self.stack_sockets.readiness(object),
            Some(Object::ManagementDevice) => self.mads.readiness(object, now),
            Some(Object::ConnectionManager) => self.cm.readiness(object, now),
            Some(other) => other.readiness(now),
            None => readiness::ERROR,
        }
    }

    /// Notes an edge of an object that concerns these readiness bits, or none. New room in a socket is
    /// an edge only if the program knows of the lack of it.
    pub(crate) fn note_edge(&mut self, object: u32, bits: u32) {
        let is_plain_room = bits == readiness::WRITABLE && matches!(self.objects.get(object), Some(Object::Socket));
        if bits != 0 && (!is_plain_room || self.sockets.ends_lack_of_room(object)) {
            self.objects.note_edge(object, bits);
        }
    }

    /// Returns the readiness bits of an object that end a wait with this entry at `now`.
    pub(crate) fn ready_for(&mut self, entry: &WaitEntry, now: SimTime) -> u32 {
        let ready = self.readiness(entry.object, now) & (entry.interest | readiness::ERROR | readiness::HANG_UP);
        let waits_for_edge = entry.interest & readiness::EDGE != 0;
        if waits_for_edge && !self.objects.edges(entry.object).has_news(entry.interest, entry.seen) { 0 } else { ready }
    }

    /// Returns the number of the last edge of an object.
    pub(crate) fn last_edge(&self, object: u32) -> u32 {
        self.objects.edges(object).last()
    }

    /// Returns whether an object is ready for this interest at `now`.
    pub(crate) fn is_ready(&mut self, object: u32, interest: u32, now: SimTime) -> bool {
        self.readiness(object, now) & (interest | readiness::ERROR | readiness::HANG_UP) != 0
    }

    /// Returns the times at which armed timers fire.
    pub(crate) fn timers(&self) -> impl Iterator<Item = SimTime> {
        self.objects.timers()
    }

    /// Adds an event of a CQ to its channel: the time from which it is visible, its cookie, its CQ.
    /// Returns false if the channel is gone.
    pub(crate) fn add_cq_event(&mut self, channel: u32, event: (SimTime, u64, u32)) -> bool {
        let Some(Object::CompletionChannel(events)) = self.objects.get_mut(channel) else { return false };
        events.push_back(event);
        true
    }

    /// Adds an asynchronous event of `hca` to every channel of the process. The event has the time
    /// from which it is visible, its number and its element. Returns the channels.
    pub(crate) fn add_async_event(&mut self, process: u32, hca: u32, event: (SimTime, u32, u32)) -> Vec<u32> {
        let channels = self.objects.async_channel(process, hca);
        for channel in &channels {
            if let Some(Object::AsyncChannel { events, .. }) = self.objects.get_mut(*channel) {
                events.push_back(event);
            }
        }
        channels
    }

    /// Drops the unread events of a destroyed object, and returns their number.
    pub(crate) fn drop_async_events(&mut self, (process, hca): (u32, u32), about: About, element: u32) -> u64 {
        let channels = self.objects.async_channel(process, hca);
        let mut count = 0;
        for channel in &channels {
            count += self.objects.get_mut(*channel).map_or(0, |channel| objects::drop_async_events(channel, about, element)) as u64;
        }
        // Each of several contexts got the events, and the program cannot match them to contexts.
        if channels.len() == 1 { count } else { 0 }
    }

    /// Drops the events of a destroyed CQ from its channel.
    pub(crate) fn drop_cq_events(&mut self, channel: u32, cq: u32) {
        if let Some(channel) = self.objects.get_mut(channel) {
            objects::drop_events_of(channel, cq);
        }
    }

    /// Sets the socket by which a process gets the events of a channel, in wall pace.
    pub(crate) fn set_event_socket(&mut self, channel: u32, socket: (usize, SocketAddrUnix)) {
        self.objects.set_event_socket(channel, socket);
    }

    pub(crate) fn event_socket(&self, channel: u32) -> Option<(usize, &SocketAddrUnix)> {
        self.objects.event_socket(channel)
    }

    pub(crate) fn sockets(&self) -> &SocketTable {
        &self.sockets
    }

    pub(crate) fn sockets_mut(&mut self) -> &mut SocketTable {
        &mut self.sockets
    }

    pub(crate) fn datagrams(&self) -> &DatagramTable {
        &self.datagrams
    }

    pub(crate) fn datagrams_mut(&mut self) -> &mut DatagramTable {
        &mut self.datagrams
    }

    pub(crate) fn stack_sockets(&self) -> &StackSockets {
        &self.stack_sockets
    }

    pub(crate) fn stack_sockets_mut(&mut self) -> &mut StackSockets {
        &mut self.stack_sockets
    }

    pub(crate) fn mads(&self) -> &MadTable {
        &self.mads
    }

    pub(crate) fn mads_mut(&mut self) -> &mut MadTable {
        &mut self.mads
    }

    pub(crate) fn cm(&self) -> &CmTable {
        &self.cm
    }

    pub(crate) fn cm_mut(&mut self) -> &mut CmTable {
        &mut self.cm
    }

    /// Returns the parts of a datagram or MAD so far, with `part` at `offset`.
    ///
    /// # Errors
    /// If the parts have a gap, or are longer than `most` bytes.
    pub(crate) fn outgoing_part(&mut self, thread: (usize, u32), offset: usize, part: &[u8], most: usize) -> Result<Vec<u8>, i32> {
        let mut whole = self.outgoing.remove(&thread).unwrap_or_default();
        if offset == 0 {
            whole.clear();
        }
        if whole.len() != offset {
            return Err(libc::EPROTO);
        }
        whole.extend_from_slice(part);
        let others: usize = self.outgoing.values().map(Vec::len).sum();
        if others + whole.len() > PARTS_BYTES_MAX {
            return Err(libc::ENOBUFS);
        }
        if whole.len() > most { Err(libc::EMSGSIZE) } else { Ok(whole) }
    }

    /// Keeps the parts of a datagram until the next part comes.
    pub(crate) fn keep_outgoing(&mut self, thread: (usize, u32), parts: Vec<u8>) {
        self.outgoing.insert(thread, parts);
    }

    /// Keeps a received datagram, because the thread may ask for more of it.
    pub(crate) fn keep_incoming(&mut self, thread: (usize, u32), datagram: Incoming) {
        self.incoming.insert(thread, datagram);
    }

    pub(crate) fn incoming(&self, thread: (usize, u32)) -> Option<&Incoming> {
        self.incoming.get(&thread)
    }

    /// Keeps a MAD, because the thread may ask for more of it. Threads that never do lose theirs.
    pub(crate) fn keep_taken_mad(&mut self, thread: (usize, u32), record: Vec<u8>) {
        if self.taken_mads.values().map(Vec::len).sum::<usize>() > PARTS_BYTES_MAX {
            self.taken_mads.clear();
        }
        self.taken_mads.insert(thread, record);
    }

    /// Returns the MAD that the thread reads.
    pub(crate) fn taken_mad(&self, thread: (usize, u32)) -> Option<&[u8]> {
        self.taken_mads.get(&thread).map(Vec::as_slice)
    }

    /// Forgets the MAD that the thread has read.
    pub(crate) fn drop_taken_mad(&mut self, thread: (usize, u32)) {
        self.taken_mads.remove(&thread);
    }

    /// Forgets the parts of datagrams and MADs of a process that has ended.
    pub(crate) fn forget_parts(&mut self, process: usize) {
        self.taken_mads.retain(|(of, _), _| *of != process);
        self.outgoing.retain(|(of, _), _| *of != process);
        self.incoming.retain(|(of, _), _| *of != process);
    }

    /// Returns whether an object is a datagram socket.
    pub(crate) fn is_datagram_socket(&self, object: u32) -> bool {
        matches!(self.objects.get(object), Some(Object::DatagramSocket))
    }

    pub(crate) fn socket(&self, object: u32) -> Result<&Socket, i32> {
        self.sockets.get(object)
    }

    /// Connects a seeking socket to its listener. Returns the objects whose readiness changes.
    pub(crate) fn complete_connection(&mut self, object: u32, now: SimTime, path: Path) -> Wakeups {
        let server = self.objects.add(Object::Socket);
        let mut wakeups = Wakeups::new();
        if self.sockets.complete(object, server, now, path, &mut wakeups).is_err() {
            self.objects.release(server);
        }
        wakeups
    }
}
