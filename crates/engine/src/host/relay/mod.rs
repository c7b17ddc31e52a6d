//! Sockets of programs over the modelled network at wall pace (`--network modelled`).
//!
//! Programs keep the kernel's sockets, so all of their calls work. The engine stands between two
//! programs: it listens at the public address of a server, accepts the client's connection in the
//! server's place, and carries the bytes through the TCP/IP of both hosts. At their modelled arrival
//! it passes them on to the hidden address of the server. Bytes wait in the kernel while the model
//! has no room for them.
//!
//! The relay acts at the time of the machine's clock, which the model follows. So no byte is earlier
//! than in the model.

mod alive;
mod datagrams;
mod leg;
mod model;
mod native;
pub(crate) mod places;
mod pump;
mod servers;
mod watch;

use crate::control::socket::Mailbox;
use alive::Listing;
use datagrams::{Port, Ports};
use leg::{After, Leg, Side};
pub(crate) use model::Model;
use places::Places;
use pump::PIECE_BYTES;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use servers::Servers;
use softband_ipc::layout::relay::HIDDEN;
use softband_net::calls::{Bind, Open};
use softband_net::{Family, Protocol, SocketId};
use softband_sim::{SimDuration, SimTime};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use watch::Watch;

/// Most events of sockets in a turn.
const EVENTS_PER_TURN: usize = 256;
/// Interval of looks for programs that listen no more.
const CHECK_INTERVAL: SimDuration = SimDuration::from_micros(100_000);
/// Most servers, and most ports for datagrams, of a look.
const SOCKETS_PER_CHECK: usize = 256;
/// Time between the end of a process and the next look: the kernel closes its sockets.
const CHECK_SOON: SimDuration = SimDuration::from_micros(5_000);
/// Time for which a port for datagrams outlives its program.
const LAST_DATAGRAMS: SimDuration = SimDuration::from_micros(2_000_000);
/// Files that the engine keeps for other work.
const FILES_KEPT: u64 = 256;

/// A socket of the engine, by which the kernel names its news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    Leg(u64),
    /// Listening socket of a server, at a place.
    Server(u64, usize),
    /// Twin of a port for datagrams, at a place.
    Twin(usize, usize),
}

/// All relayed sockets.
pub(crate) struct Relay {
    poller: OwnedFd,
    watch: Watch,
    listing: Listing,
    legs: BTreeMap<u64, Leg>,
    /// Number of legs to clients.
    clients: usize,
    servers: Servers,
    ports: Ports,
    /// Sockets of the machine by the numbers of their news.
    items: BTreeMap<u64, Item>,
    /// Sockets of the model by host.
    of_model: BTreeMap<(usize, SocketId), Item>,
    last: u64,
    /// Items that have something to do now, and those that have at a time.
    ready: BTreeSet<Item>,
    due: BTreeSet<(SimTime, Item)>,
    check_at: SimTime,
    /// Time of the model's last event or call.
    clock: SimTime,
    /// The last server and the last port that the relay has looked for.
    checked: (u64, usize),
    /// Most legs, by the limit of open files.
    legs_max: usize,
    warning: Option<String>,
    room: Box<[u8; PIECE_BYTES]>,
}

impl Relay {
    /// # Errors
    /// If the system lacks descriptors or threads.
    pub(crate) fn new(mailbox: Arc<Mailbox>) -> std::io::Result<Self> {
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let watch = Watch::start(&poller, mailbox)?;
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1 << 20);
        Ok(Self {
            poller,
            watch,
            listing: Listing::open(),
            legs: BTreeMap::new(),
            clients: 0,
            servers: Servers::default(),
            ports: Ports::default(),
            items: BTreeMap::new(),
            of_model: BTreeMap::new(),
            last: 0,
            ready: BTreeSet::new(),
            due: BTreeSet::new(),
            check_at: SimTime::ZERO,
            clock: SimTime::ZERO,
            checked: (0, 0),
            legs_max: files.saturating_sub(FILES_KEPT).max(8) as usize,
            warning: None,
            room: Box::new([0; PIECE_BYTES]),
        })
    }

    /// Moves the model's time to `at`, unless it is later already. Returns it.
    pub(crate) fn advance_to(&mut self, at: SimTime) -> SimTime {
        self.clock = self.clock.max(at);
        self.clock
    }

    /// Notes news of a socket of the model.
    pub(crate) fn hear(&mut self, host: usize, socket: SocketId) {
        let Some(item) = self.of_model.get(&(host, socket)).copied() else { return };
        if let Item::Leg(leg) = item
            && let Some(leg) = self.legs.get_mut(&leg)
        {
            leg.model_has_news();
        }
        self.ready.insert(item);
    }

    /// Returns when the relay has something to do without news.
    pub(crate) fn next_time(&self, now: SimTime) -> Option<SimTime> {
        if !self.ready.is_empty() {
            return Some(now);
        }
        let has_work = !(self.servers.is_empty() && self.ports.iter().next().is_none());
        let check = has_work.then_some(self.check_at);
        self.due.first().map(|(at, _)| *at).into_iter().chain(check).min()
    }

    /// Lets news of sockets wake the engine, which is about to sleep.
    pub(crate) fn wake_at_news(&self) {
        self.watch.order();
    }

    /// Looks soon for programs that listen no more, because a process has ended.
    pub(crate) fn check_soon(&mut self, now: SimTime) {
        self.check_at = self.check_at.min(now + CHECK_SOON);
    }

    /// Takes a warning for the user.
    pub(crate) fn take_warning(&mut self) -> Option<String> {
        self.warning.take()
    }

    /// Relays to a socket that a program has bound at `at` and that listens, or receives datagrams.
    /// The program runs on `host`.
    ///
    /// # Errors
    /// By an error number: if the host does not have the address, or if the address is taken.
    pub(crate) fn open(&mut self, places: &Places, model: &mut Model<'_>, host: usize, at: SocketAddrV4, kind: Kind) -> Result<(), i32> {
        let place = places.of_kernel(HIDDEN, *at.ip()).filter(|place| places.get(*place).host == host && at.port() != 0).ok_or(libc::EINVAL)?;
        // Connections need the other files.
        if self.servers.sockets() + self.ports.sockets() >= self.legs_max / 4 {
            self.warn_of_files();
            return Err(libc::EMFILE);
        }
        let outcome = match kind {
            Kind::Listens { backlog } if self.listing.has_listener(at) => self.serve(places, model, (place, at.port()), backlog),
            Kind::Datagrams if !native::has_no_datagrams(at) => self.offer_port(places, model, (place, at.port())),
            _ => return Err(libc::EINVAL),
        };
        if outcome == Err(libc::EMFILE) {
            self.warn_of_files();
        }
        outcome
    }

    fn offer_port(&mut self, places: &Places, model: &mut Model<'_>, (place, number): (usize, u16)) -> Result<(), i32> {
        let host = places.get(place).host;
        let known = self.ports.named(place, number);
        if let Some(port) = known.and_then(|index| self.ports.get_mut(index)) {
            port.gone_at = None;
            return Ok(());
        }
        let mut twins = datagrams::open_twins(places, place, number).map_err(|error| error.raw_os_error())?;
        let socket = open_at(places, model, (place, number), Protocol::Datagram)?;
        let index = self.ports.next_index();
        for twin in &mut twins {
            twin.news = add(&self.poller, &mut self.last, &mut self.items, &twin.socket, Item::Twin(index, twin.place));
        }
        self.of_model.insert((host, socket), Item::Twin(index, place));
        self.ports.add(Port::new((place, number), (host, socket), twins));
        Ok(())
    }

    /// Handles all that has come and all that is due at the model's time. Returns whether anything
    /// was.
    pub(crate) fn turn(&mut self, places: &Places, model: &mut Model<'_>) -> bool {
        self.take_news();
        while let Some((at, item)) = self.due.first().copied().filter(|(at, _)| *at <= model.now) {
            self.due.remove(&(at, item));
            self.ready.insert(item);
        }
        let ready = std::mem::take(&mut self.ready);
        for item in &ready {
            match *item {
                Item::Leg(leg) => self.turn_leg(leg, model),
                Item::Server(server, place) => self.turn_server(places, model, server, place),
                Item::Twin(port, place) => self.turn_port(places, model, port, place),
            }
        }
        if self.check_at <= model.now {
            self.check_at = model.now + CHECK_INTERVAL;
            self.check(places, model);
        }
        !ready.is_empty()
    }

    /// Takes the kernel's news of sockets.
    fn take_news(&mut self) {
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS_PER_TURN];
        let count = epoll::wait(&self.poller, &mut events, Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap_or(0);
        for event in &events[..count] {
            let number = event.data.u64();
            let Some(item) = self.items.get(&number).copied() else { continue };
            if let Item::Leg(leg) = item
                && let Some(leg) = self.legs.get_mut(&leg)
            {
                leg.program_has_news();
            }
            self.ready.insert(item);
        }
    }

    /// Adds a leg between a program's connection and a socket of the model.
    fn add_leg(&mut self, of: (usize, SocketId), program: OwnedFd, connecting: Side) {
        let leg = Leg::new(of, program, connecting);
        let item = Item::Leg(self.last + 1);
        let number = add(&self.poller, &mut self.last, &mut self.items, leg.program(), item);
        self.of_model.insert(of, item);
        self.clients += usize::from(leg.is_client);
        self.legs.insert(number, leg);
        self.ready.insert(item);
    }

    fn turn_leg(&mut self, number: u64, model: &mut Model<'_>) {
        let Some(leg) = self.legs.get_mut(&number) else { return };
        match leg.turn(model, &mut self.room) {
            After::Goes => drop(self.ready.insert(Item::Leg(number))),
            After::Rests(None) => {}
            After::Rests(Some(at)) => drop(self.due.insert((at, Item::Leg(number)))),
            After::Over => self.end_leg(number, model),
        }
    }

    fn end_leg(&mut self, number: u64, model: &mut Model<'_>) {
        let Some(leg) = self.legs.remove(&number) else { return };
        self.clients -= usize::from(leg.is_client);
        self.items.remove(&number);
        self.of_model.remove(&(leg.host, leg.socket));
        leg.finish(model);
    }

    fn turn_port(&mut self, places: &Places, model: &mut Model<'_>, index: usize, place: usize) {
        for sender in self.ports.collect(places, (index, place), &mut self.room[..]) {
            if sender == usize::MAX {
                self.ready.insert(Item::Twin(index, place));
            } else if sender != index {
                self.depart(model, sender);
            }
        }
        self.depart(model, index);
        if let Some(at) = self.ports.deliver(places, index, model) {
            self.due.insert((at, Item::Twin(index, place)));
        }
    }

    fn depart(&mut self, model: &mut Model<'_>, sender: usize) {
        let Some(port) = self.ports.get_mut(sender) else { return };
        if let Some(at) = port.depart(model) {
            self.due.insert((at, Item::Twin(sender, port.place)));
        }
    }

    /// Ends the relay to programs whose sockets have gone.
    fn check(&mut self, places: &Places, model: &mut Model<'_>) {
        for number in self.servers.behind(self.checked.0, SOCKETS_PER_CHECK) {
            self.checked.0 = number;
            let is_gone = self.servers.get(number).is_some_and(|server| !self.listing.has_listener(server.program(places)));
            if is_gone {
                self.end_server(number, model);
            }
        }
        for index in self.ports.behind(self.checked.1, SOCKETS_PER_CHECK) {
            self.checked.1 = index;
            let Some(port) = self.ports.get_mut(index) else { continue };
            if !native::has_no_datagrams(port.program(places)) {
                port.gone_at = None;
            } else if port.gone_at.get_or_insert(model.now).saturating_add(LAST_DATAGRAMS) <= model.now {
                self.end_port(index, model);
            }
        }
    }

    fn end_port(&mut self, index: usize, model: &mut Model<'_>) {
        let Some(port) = self.ports.remove(index) else { return };
        for news in port.news() {
            self.items.remove(&news);
        }
        self.of_model.remove(&(port.host, port.socket));
        model.close(port.host, port.socket);
    }

    /// Ends all sockets of a host that has died.
    pub(crate) fn host_died(&mut self, host: usize, model: &mut Model<'_>) {
        let legs: Vec<u64> = self.legs.iter().filter(|(_, leg)| leg.host == host).map(|(number, _)| *number).collect();
        legs.into_iter().for_each(|leg| self.end_leg(leg, model));
        for number in self.servers.numbers() {
            if self.servers.get(number).is_some_and(|server| server.host == host) {
                self.end_server(number, model);
            }
        }
        let ports: Vec<usize> = self.ports.iter().filter(|(_, port)| port.host == host).map(|(index, _)| index).collect();
        ports.into_iter().for_each(|port| self.end_port(port, model));
    }

    fn warn_of_files(&mut self) {
        self.warning = Some(
            "the engine has no more open files, and connections of programs wait: raise the limit (ulimit -n); each connection takes two".into(),
        );
    }
}

/// Purpose of a program's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Listens { backlog: u32 },
    Datagrams,
}

/// Lets the kernel tell news of a socket. Returns the number of the news.
fn add(poller: &OwnedFd, last: &mut u64, items: &mut BTreeMap<u64, Item>, socket: impl AsFd, item: Item) -> u64 {
    *last += 1;
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    if epoll::add(poller, socket, EventData::new_u64(*last), flags).is_ok() {
        items.insert(*last, item);
    }
    *last
}

/// Opens a socket of the model for a program's socket at a place: at all addresses of its host, or at
/// one.
fn open_at(places: &Places, model: &mut Model<'_>, (place, port): (usize, u16), protocol: Protocol) -> Result<SocketId, i32> {
    let host = places.get(place).host;
    let ip = if places.is_main(place) { Ipv4Addr::UNSPECIFIED } else { places.get(place).address };
    let socket = model.ask(host, Open { family: Family::V4, protocol }).0.map_err(softband_net::NetError::errno)?;
    model.share_address(host, socket);
    let (bound, _) = model.ask(host, Bind { socket, address: SocketAddr::new(IpAddr::V4(ip), port) });
    if let Err(error) = bound {
        model.close(host, socket);
        return Err(error.errno());
    }
    Ok(socket)
}

#[cfg(test)]
mod tests;
