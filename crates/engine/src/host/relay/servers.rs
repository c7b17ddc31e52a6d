//! Programs that listen, and connections to them.

use super::leg::Side;
use super::model::Model;
use super::native;
use super::places::Places;
use super::{Item, Relay, add, open_at};
use rustix::fd::OwnedFd;
use softband_ipc::layout::relay::{HIDDEN, PEER, PUBLIC};
use softband_net::calls::{Accept, Bind, Connect, Listen, Open, SocketOption};
use softband_net::{Family, NetError, Protocol, SocketId};
use softband_sim::SimDuration;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

/// Most connections that a server gets before others have their turn.
const CONNECTIONS_PER_TURN: u32 = 64;
/// Time until the next try to accept without free files.
const FILES_INTERVAL: SimDuration = SimDuration::from_micros(50_000);

/// A program's listening socket.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) host: usize,
    place: usize,
    port: u16,
    socket: SocketId,
    /// The engine's listening sockets by place, with the numbers of their news.
    listeners: Vec<(usize, u64, OwnedFd)>,
}

impl Server {
    /// Returns the kernel's address of the program's socket.
    pub(super) fn program(&self, places: &Places) -> SocketAddrV4 {
        SocketAddrV4::new(places.in_kernel(HIDDEN, self.place), self.port)
    }
}

/// All servers by number.
#[derive(Debug, Default)]
pub(super) struct Servers {
    all: BTreeMap<u64, Server>,
    /// Number of the engine's listening sockets.
    sockets: usize,
}

impl Servers {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        self.all.keys().copied().collect()
    }

    /// Returns up to `most` numbers behind `after`, from the first one behind the last.
    pub(super) fn behind(&self, after: u64, most: usize) -> Vec<u64> {
        self.all.range(after + 1..).chain(self.all.range(..=after)).take(most).map(|(number, _)| *number).collect()
    }

    /// Returns the number of the engine's listening sockets.
    pub(super) fn sockets(&self) -> usize {
        self.sockets
    }

    pub(super) fn get(&self, number: u64) -> Option<&Server> {
        self.all.get(&number)
    }
}

impl Relay {
    /// Listens in the place of a program.
    pub(super) fn serve(&mut self, places: &Places, model: &mut Model<'_>, (place, port): (usize, u16), backlog: u32) -> Result<(), i32> {
        let host = places.get(place).host;
        if let Some(server) = self.servers.all.values().find(|server| (server.place, server.port) == (place, port)) {
            let _ = model.ask(host, Listen { socket: server.socket, backlog });
            return Ok(());
        }
        let at = |covered: usize| SocketAddrV4::new(places.in_kernel(PUBLIC, covered), port);
        let opened: rustix::io::Result<Vec<_>> =
            places.covered_by(place).into_iter().map(|one| native::listen(at(one)).map(|socket| (one, socket))).collect();
        let opened = opened.map_err(|error| error.raw_os_error())?;
        let socket = open_at(places, model, (place, port), Protocol::Stream)?;
        if let (Err(error), _) = model.ask(host, Listen { socket, backlog }) {
            model.close(host, socket);
            return Err(error.errno());
        }
        self.last += 1;
        let number = self.last;
        let mut listeners = Vec::new();
        for (covered, listener) in opened {
            let news = add(&self.poller, &mut self.last, &mut self.items, &listener, Item::Server(number, covered));
            listeners.push((covered, news, listener));
        }
        self.of_model.insert((host, socket), Item::Server(number, place));
        self.servers.sockets += listeners.len();
        self.servers.all.insert(number, Server { host, place, port, socket, listeners });
        Ok(())
    }

    pub(super) fn end_server(&mut self, number: u64, model: &mut Model<'_>) {
        let Some(server) = self.servers.all.remove(&number) else { return };
        self.servers.sockets -= server.listeners.len();
        for (_, news, _) in &server.listeners {
            self.items.remove(news);
        }
        self.of_model.remove(&(server.host, server.socket));
        model.close(server.host, server.socket);
    }

    /// Accepts clients at a place of a server, and passes on those that have arrived in the model.
    pub(super) fn turn_server(&mut self, places: &Places, model: &mut Model<'_>, number: u64, place: usize) {
        self.accept_clients(places, model, number, place);
        self.pass_on(places, model, number);
    }

    fn accept_clients(&mut self, places: &Places, model: &mut Model<'_>, number: u64, place: usize) {
        for _ in 0..CONNECTIONS_PER_TURN {
            let Some(server) = self.servers.get(number) else { return };
            let Some((.., listener)) = server.listeners.iter().find(|(at, ..)| *at == place) else { return };
            let to = SocketAddr::new(IpAddr::V4(places.get(place).address), server.port);
            // Each connection needs a leg to its server, too.
            let accepted = if self.clients < self.legs_max / 2 { native::accept(listener) } else { Err(rustix::io::Errno::MFILE) };
            match accepted {
                Ok((program, from)) => match places.of_kernel(HIDDEN, *from.ip()) {
                    Some(client) => match begin(places, model, (client, from.port()), to) {
                        Some(of) => self.add_leg(of, program, Side::Model),
                        None => native::reset(program),
                    },
                    None => native::reset(program), // no program of the fabric
                },
                Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => {
                    self.due.insert((model.now + FILES_INTERVAL, Item::Server(number, place)));
                    self.warn_of_files();
                    return;
                }
                Err(rustix::io::Errno::CONNABORTED | rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
        self.ready.insert(Item::Server(number, place));
    }

    /// Connects to the server for each connection that has arrived in the model.
    fn pass_on(&mut self, places: &Places, model: &mut Model<'_>, number: u64) {
        for _ in 0..CONNECTIONS_PER_TURN {
            let Some(server) = self.servers.get(number) else { return };
            let (host, program) = (server.host, server.program(places));
            let Ok((socket, peer)) = model.ask(host, Accept { socket: server.socket }).0 else { return };
            model.set(host, socket, SocketOption::NoDelay(true));
            let client = if peer.ip().is_loopback() { Some(host) } else { places.of_address(peer.ip()) };
            let from = SocketAddrV4::new(places.in_kernel(PEER, client.unwrap_or(host)), peer.port());
            match native::connect(from, program) {
                Ok(connection) => self.add_leg((host, socket), connection, Side::Program),
                Err(error) => {
                    if [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].contains(&error) {
                        self.warn_of_files();
                    }
                    model.reset(host, socket);
                    self.check_soon(model.now);
                }
            }
        }
        let place = self.servers.get(number).map_or(0, |server| server.place);
        self.ready.insert(Item::Server(number, place));
    }
}

/// Begins a connection in the model from a client's place and port.
fn begin(places: &Places, model: &mut Model<'_>, (client, port): (usize, u16), to: SocketAddr) -> Option<(usize, SocketId)> {
    let host = places.get(client).host;
    // A connection with the same ports may be in TIME_WAIT on the modelled host: any port serves then.
    for port in [port, 0] {
        let socket = model.ask(host, Open { family: Family::V4, protocol: Protocol::Stream }).0.ok()?;
        // The program's own kernel has applied Nagle's algorithm, or not.
        model.set(host, socket, SocketOption::NoDelay(true));
        model.share_address(host, socket);
        let ip = if places.is_main(client) { Ipv4Addr::UNSPECIFIED } else { places.get(client).address };
        let _ = model.ask(host, Bind { socket, address: SocketAddr::new(IpAddr::V4(ip), port) });
        match model.ask(host, Connect { socket, to }).0 {
            Ok(()) | Err(NetError::InProgress) => return Some((host, socket)),
            Err(_) => model.close(host, socket),
        }
    }
    None
}
