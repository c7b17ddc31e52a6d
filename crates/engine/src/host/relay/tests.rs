//! Programs' sockets between two hosts of a management network, on a clock of the tests.

use super::*;
use crate::host::kernel::Kernels;
use crate::host::network::Network;
use softband_catalog::{Catalog, LoadOptions, load_fabric};
use softband_fabric::World;
use softband_ipc::layout::relay::{PEER, PUBLIC};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;

/// Places of the hosts.
const A: usize = 0;
const B: usize = 1;
const BACKLOG: u32 = 16;
/// Time of a pass.
const PASS: SimDuration = SimDuration::from_micros(500);
/// Passes after which an awaited event counts as missing.
const PASSES_MAX: usize = 20_000;

struct Lab {
    world: World,
    kernels: Kernels,
    network: Network,
    relay: Relay,
    now: SimTime,
}

impl Lab {
    fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let catalog = Catalog::load(&root.join("catalog")).expect("the catalogue");
        let spec = load_fabric(&root.join("fabrics/two-hosts.toml"), &catalog, &LoadOptions::default()).expect("a fabric").spec;
        let mut world = World::new(&spec, 1);
        let kernels = Kernels::new(&mut world, 1, true).expect("interfaces that exist").expect("kernels in any case");
        let network = Network::reserve().and_then(|network| network.relay(&spec)).expect("a network");
        let relay = Relay::new(Mailbox::new().0).expect("descriptors");
        Self { world, kernels, network, relay, now: SimTime::ZERO }
    }

    fn places(&self) -> &Places {
        self.network.places().expect("places")
    }

    fn at(&self, role: u32, place: usize, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(self.places().in_kernel(role, place), port)
    }

    fn hear(&mut self) {
        for (_, host, socket, _) in self.kernels.take_news() {
            self.relay.hear(host, socket);
        }
    }

    /// Lets time pass.
    fn pass(&mut self) {
        let until = self.now + PASS;
        while let Some(at) = self.kernels.next_time().filter(|at| *at <= until) {
            self.kernels.run(&mut self.world, at);
        }
        self.now = until;
        self.hear();
        let mut model = Model { kernels: &mut self.kernels, world: &mut self.world, now: self.now };
        self.relay.turn(self.network.places().expect("places"), &mut model);
        self.hear();
    }

    fn open(&mut self, host: usize, at: SocketAddrV4, kind: Kind) -> Result<(), i32> {
        let mut model = Model { kernels: &mut self.kernels, world: &mut self.world, now: self.now };
        self.relay.open(self.network.places().expect("places"), &mut model, host, at, kind)
    }

    /// Returns a program's listening socket on host A, and its port.
    fn listen(&mut self) -> (TcpListener, u16) {
        let listener = TcpListener::bind(self.at(HIDDEN, A, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(self.open(A, self.at(HIDDEN, A, port), Kind::Listens { backlog: BACKLOG }), Ok(()));
        (listener, port)
    }

    /// Connects a program on host B to a port of host A.
    fn connect(&self, port: u16) -> TcpStream {
        let client = TcpStream::from(native::connect(self.at(HIDDEN, B, 0), self.at(PUBLIC, A, port)).unwrap());
        client.set_nonblocking(true).unwrap();
        client
    }

    fn accept(&mut self, listener: &TcpListener) -> TcpStream {
        let server = self.until(|| listener.accept().ok().map(|(server, _)| server));
        server.set_nonblocking(true).unwrap();
        server
    }

    /// Lets time pass until `look` finds its result.
    fn until<R>(&mut self, mut look: impl FnMut() -> Option<R>) -> R {
        for _ in 0..PASSES_MAX {
            if let Some(result) = look() {
                return result;
            }
            self.pass();
        }
        panic!("nothing more happens");
    }
}

/// Reads once. Returns the bytes, or `None` if there are none yet.
fn read(stream: &mut TcpStream) -> Option<std::io::Result<usize>> {
    match stream.read(&mut [0; 65_536]) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        other => Some(other),
    }
}

#[test]
fn no_byte_is_earlier_than_in_the_model() {
    let mut lab = Lab::new();
    let (listener, port) = lab.listen();
    let mut client = lab.connect(port);
    let mut server = lab.accept(&listener);
    let rate = lab.world.spec().hosts[B].part.ethernet_bytes_per_second as f64;
    let start = lab.now;
    let (mut sent, mut got, total) = (0, 0, 4 << 20);
    while got < total {
        while let Ok(count @ 1..) = client.write(&[7; 65_536][..(total - sent).min(65_536)]) {
            sent += count;
        }
        lab.pass();
        while let Some(Ok(count @ 1..)) = read(&mut server) {
            got += count;
        }
        let seconds = lab.now.saturating_since(start).as_secs_f64();
        assert!(got as f64 <= seconds * rate, "{got} bytes in {seconds} s");
        assert!(seconds < 10.0, "{got} of {total} bytes have come");
    }
    assert!(lab.now.saturating_since(start).as_secs_f64() < 2.0 * total as f64 / rate, "the network was idle");
}

#[test]
fn a_server_sees_host_and_port_of_its_client() {
    let mut lab = Lab::new();
    let (listener, port) = lab.listen();
    let client = lab.connect(port);
    let server = lab.accept(&listener);
    let SocketAddr::V4(own) = client.local_addr().unwrap() else { panic!("an address of IPv4") };
    assert_eq!(server.peer_addr().unwrap(), SocketAddr::V4(lab.at(PEER, B, own.port())));
}

#[test]
fn directions_end_one_by_one_and_then_nothing_is_left() {
    let mut lab = Lab::new();
    let (listener, port) = lab.listen();
    let mut client = lab.connect(port);
    let mut server = lab.accept(&listener);
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(lab.until(|| read(&mut server)).unwrap(), 0);
    server.write_all(b"still here").unwrap();
    assert_eq!(lab.until(|| read(&mut client)).unwrap(), 10);
    drop(server);
    assert_eq!(lab.until(|| read(&mut client)).unwrap(), 0);
    (0..20).for_each(|_| lab.pass());
    assert_eq!((lab.relay.legs.len(), lab.relay.of_model.len(), lab.relay.items.len()), (0, 1, 1));
}

#[test]
fn a_client_that_leaves_at_once_has_been_there() {
    let mut lab = Lab::new();
    let (listener, port) = lab.listen();
    drop(lab.connect(port));
    let mut server = lab.accept(&listener);
    assert_eq!(lab.until(|| read(&mut server)).unwrap(), 0);
}

#[test]
fn a_reset_crosses_the_model() {
    let mut lab = Lab::new();
    let (listener, port) = lab.listen();
    let mut client = lab.connect(port);
    let server = lab.accept(&listener);
    client.write_all(b"unread").unwrap();
    lab.until(|| server.peek(&mut [0; 9]).ok());
    drop(server);
    let error = lab.until(|| read(&mut client)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(read(&mut client).is_some_and(|end| end.is_ok_and(|count| count == 0)) && lab.relay.legs.is_empty());
}

#[test]
fn a_port_without_a_listener_refuses_again() {
    let mut lab = Lab::new();
    let (listener, port) = lab.listen();
    assert_eq!(lab.open(A, lab.at(HIDDEN, A, port), Kind::Listens { backlog: BACKLOG }), Ok(()), "a listener may change its backlog");
    drop(listener);
    (0..300).for_each(|_| lab.pass());
    assert!(lab.relay.servers.is_empty());
    let mut client = lab.connect(port);
    assert_eq!(lab.until(|| read(&mut client)).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn programs_cannot_open_ports_of_others_or_ports_without_sockets() {
    let mut lab = Lab::new();
    let (_listener, port) = lab.listen();
    for (host, place, port) in [(B, A, port), (A, A, 0), (A, B, port)] {
        for kind in [Kind::Datagrams, Kind::Listens { backlog: BACKLOG }] {
            assert_eq!(lab.open(host, lab.at(HIDDEN, place, port), kind), Err(libc::EINVAL));
        }
    }
    assert_eq!(lab.open(A, lab.at(PUBLIC, A, port), Kind::Listens { backlog: BACKLOG }), Err(libc::EINVAL));
}

#[test]
fn strangers_on_the_machine_are_reset() {
    let mut lab = Lab::new();
    let (listener, port) = lab.listen();
    let mut stranger = TcpStream::connect(lab.at(PUBLIC, A, port)).unwrap();
    stranger.set_nonblocking(true).unwrap();
    assert_eq!(lab.until(|| read(&mut stranger)).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(listener.accept().is_err());
}

#[test]
fn clients_beyond_the_open_files_wait_for_others_to_end() {
    let mut lab = Lab::new();
    lab.relay.legs_max = 8;
    let (listener, port) = lab.listen();
    lab.relay.legs_max = 2;
    let first = lab.connect(port);
    let server = lab.accept(&listener);
    let _second = lab.connect(port);
    (0..200).for_each(|_| lab.pass());
    assert!(listener.accept().is_err());
    assert!(lab.relay.take_warning().is_some_and(|warning| warning.contains("ulimit -n")));
    drop((first, server));
    lab.accept(&listener);
}

#[test]
fn a_flood_of_datagrams_takes_bounded_memory_and_answers_come_back() {
    let mut lab = Lab::new();
    let ports = [A, B].map(|place| {
        let socket = UdpSocket::bind(lab.at(HIDDEN, place, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let port = socket.local_addr().unwrap().port();
        assert_eq!(lab.open(place, lab.at(HIDDEN, place, port), Kind::Datagrams), Ok(()));
        (socket, port)
    });
    let [(server, port), (client, own)] = ports;
    for _ in 0..200 {
        (0..50).for_each(|_| drop(client.send_to(&[3; 1_400], lab.at(PUBLIC, A, port))));
        lab.pass();
    }
    let waiting: usize = lab.relay.ports.iter().map(|(_, port)| port.waiting_bytes()).sum();
    assert!(waiting <= 256 << 10, "{waiting} bytes wait");
    let (count, from) = lab.until(|| server.recv_from(&mut [0; 2_000]).ok());
    assert_eq!((count, from), (1_400, SocketAddr::V4(lab.at(PUBLIC, B, own))));
    server.send_to(b"answer", from).unwrap();
    assert_eq!(lab.until(|| client.recv_from(&mut [0; 99]).ok()), (6, SocketAddr::V4(lab.at(PUBLIC, A, port))));
    drop((server, client));
    (0..10_000).for_each(|_| lab.pass());
    assert!(lab.relay.ports.iter().next().is_none() && lab.relay.items.is_empty());
}
