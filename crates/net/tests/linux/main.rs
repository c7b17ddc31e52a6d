//! The stack against the machine's kernel over TUN devices, in real time. Without a TUN device or
//! the right to make a network namespace, each test says so and ends.
#![allow(clippy::disallowed_methods, reason = "the machine's kernel lives in real time and in threads")]

mod goodput;
mod lab;
mod machine;

#[path = "../common/mod.rs"]
mod common;

use common::{kernel, pattern};
use lab::{Kind, Lab, Wire, address};
use softband_model::parts::CongestionControl;
use softband_net::calls::{Accept, Bind, Close, Connect, Info, Listen, Open, Receive, ReceiveUrgent, Send, SetOption, Shutdown, SocketOption};
use softband_net::{Events, Family, KernelPart, NetError, Payload, Protocol, SocketId};
use softband_sim::SimDuration;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown as Direction, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

const PORT: u16 = 5_001;
const KERNEL: &str = "linux-6.1";
/// Real time that a test has.
const PATIENCE: Duration = Duration::from_secs(30);
const OURS: usize = 0;
const LINUX: usize = 1;

/// Returns this stack beside the machine's kernel, or `None` with a message.
fn pair(wire: Wire) -> Option<Lab> {
    lab([Kind::Ours, Kind::Linux], wire)
}

pub(crate) fn lab(kinds: [Kind; 2], wire: Wire) -> Option<Lab> {
    // A namespace may use Reno on each machine, and other rules as its administrator says.
    let kernel = KernelPart { congestion_control: CongestionControl::Reno, ..kernel(KERNEL) };
    match Lab::new(kinds, &kernel, wire, 11) {
        Ok(lab) => Some(lab),
        Err(reason) => {
            println!("skipped, since this machine offers no host of its kernel: {reason}");
            None
        }
    }
}

/// Connects both hosts. Returns this stack's socket, and runs `program` on the connection of Linux.
fn connect<T: std::marker::Send + 'static>(
    lab: &mut Lab,
    by_linux: bool,
    program: impl FnOnce(TcpStream) -> T + std::marker::Send + 'static,
) -> (SocketId, Receiver<T>) {
    let socket = lab.call(OURS, Open { family: Family::V4, protocol: Protocol::Stream }).expect("a socket");
    if by_linux {
        lab.call(OURS, Bind { socket, address: (address(OURS), PORT).into() }).expect("a free port");
        lab.call(OURS, Listen { socket, backlog: 4 }).expect("a socket to listen");
        let result = lab.machine(LINUX).spawn(|| program(TcpStream::connect((address(OURS), PORT)).expect("a connection")));
        let mut accepted = None;
        assert!(lab.run(PATIENCE, |lab| {
            accepted = lab.call(OURS, Accept { socket }).ok();
            accepted.is_some()
        }));
        return (accepted.expect("a connection").0, result);
    }
    let (ready, is_ready) = mpsc::channel();
    let result = lab.machine(LINUX).spawn(move || {
        let listener = TcpListener::bind((address(LINUX), PORT)).expect("a free port");
        let _ = ready.send(());
        program(listener.accept().expect("a connection").0)
    });
    is_ready.recv().expect("a server");
    let begun = lab.call(OURS, Connect { socket, to: (address(LINUX), PORT).into() });
    assert_eq!(begun, Err(NetError::InProgress));
    assert!(lab.run(PATIENCE, |lab| lab.readiness(OURS, socket).intersects(Events::WRITABLE)));
    (socket, result)
}

/// Writes the pattern and ends the direction, while it reads the peer's to its end.
fn exchange_on_linux(stream: TcpStream, total: u64) -> io::Result<bool> {
    let mut writer = stream.try_clone()?;
    let writing = std::thread::spawn(move || {
        let bytes: Vec<u8> = (0..total).map(pattern).collect();
        writer.write_all(&bytes)?;
        writer.shutdown(Direction::Write)
    });
    let mut bytes = Vec::new();
    (&stream).read_to_end(&mut bytes)?;
    writing.join().expect("no panic")?;
    Ok(bytes.len() as u64 == total && bytes.iter().enumerate().all(|(at, byte)| *byte == pattern(at as u64)))
}

/// Writes the pattern and ends the direction, while it reads the peer's to its end. Returns whether
/// all came right.
fn exchange(lab: &mut Lab, socket: SocketId, total: u64) -> bool {
    let (mut sent, mut received, mut is_shut, mut is_right) = (0, 0_u64, false, true);
    let is_over = lab.run(PATIENCE, |lab| {
        while sent < total {
            let bytes: Vec<u8> = (sent..(sent + 20_000).min(total)).map(pattern).collect();
            match lab.call(OURS, Send { socket, payload: Payload::from(&bytes[..]), urgent: false, more: false }) {
                Ok(taken) => sent += u64::from(taken),
                Err(_) => break,
            }
        }
        if sent == total && !is_shut {
            is_shut = lab.call(OURS, Shutdown { socket, receive: false, send: true }).is_ok();
        }
        while let Ok(payload) = lab.call(OURS, Receive { socket, most: 50_000, peek: false }) {
            if payload.is_empty() {
                return is_shut;
            }
            is_right &= payload.to_vec().iter().enumerate().all(|(at, byte)| *byte == pattern(received + at as u64));
            received += u64::from(payload.len());
        }
        false
    });
    is_over && is_right && received == total
}

/// Waits for the result of a program of Linux.
fn result<T>(lab: &mut Lab, program: &Receiver<T>) -> T {
    let mut found = None;
    assert!(
        lab.run(PATIENCE, |_| {
            found = program.try_recv().ok();
            found.is_some()
        }),
        "the program of Linux ends"
    );
    found.expect("a result")
}

#[test]
fn streams_go_both_ways_with_and_without_loss() {
    for (by_linux, loss_ppm, total) in [(false, 0, 1_000_000), (true, 0, 1_000_000), (false, 20_000, 200_000), (true, 20_000, 200_000)] {
        let Some(mut lab) = pair(Wire { loss_ppm, ..Wire::fast() }) else { return };
        let (socket, program) = connect(&mut lab, by_linux, move |stream| exchange_on_linux(stream, total));
        assert!(exchange(&mut lab, socket, total), "by Linux: {by_linux}, {loss_ppm} ppm lost");
        assert!(matches!(result(&mut lab, &program), Ok(true)), "by Linux: {by_linux}, {loss_ppm} ppm lost");
        assert!(loss_ppm == 0 || lab.lost > 0);
    }
}

#[test]
fn handshakes_say_the_same() {
    let mut said = Vec::new();
    for by_linux in [false, true] {
        let Some(mut lab) = pair(Wire::fast()) else { return };
        connect(&mut lab, by_linux, drop);
        let of = |side: usize| {
            let (_, segment) = lab.handshake.iter().find(|(from, _)| *from == side).expect("a segment").clone();
            let options = segment.options;
            (segment.window, options.mss, options.window_scale, options.sack_permitted, options.timestamps.is_some())
        };
        // SYN, then SYN-ACK.
        said.push(if by_linux { [of(LINUX), of(OURS)] } else { [of(OURS), of(LINUX)] });
    }
    println!("SYN and SYN-ACK: {said:?}");
    assert_eq!(said[0], said[1]);
}

#[test]
fn a_reader_that_sleeps_stops_the_writer_and_wakes_it() {
    const TOTAL: u64 = 3_000_000;
    let Some(mut lab) = pair(Wire::fast()) else { return };
    let (wake, sleep) = mpsc::channel::<()>();
    let (socket, program) = connect(&mut lab, false, move |mut stream| {
        let _ = sleep.recv();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).map(|_| bytes.len() as u64)
    });
    let mut sent = 0;
    let mut write = |lab: &mut Lab| {
        while sent < TOTAL {
            let len = (TOTAL - sent).min(50_000) as u32;
            match lab.call(OURS, Send { socket, payload: Payload::counted(len), urgent: false, more: false }) {
                Ok(taken) => sent += u64::from(taken),
                Err(_) => break,
            }
        }
        sent == TOTAL
    };
    let span = Duration::from_millis(700);
    assert!(!lab.run(span, &mut write), "the reader sleeps");
    let info = lab.call(OURS, Info { socket }).expect("a connection");
    assert!(info.peer_window < info.mss && info.in_flight == 0, "{info:?}");
    wake.send(()).expect("a reader");
    assert!(lab.run(PATIENCE, &mut write));
    lab.call(OURS, Close { socket }).expect("a socket");
    assert_eq!(result(&mut lab, &program).expect("a stream"), TOTAL);
}

#[test]
fn a_stack_that_does_not_read_stops_linux_and_wakes_it() {
    const TOTAL: usize = 3_000_000;
    let Some(mut lab) = pair(Wire::fast()) else { return };
    let (socket, program) = connect(&mut lab, true, |mut stream| stream.write_all(&vec![7; TOTAL]));
    assert!(!lab.run(Duration::from_millis(700), |_| program.try_recv().is_ok()), "nobody reads");
    let mut received = 0;
    assert!(lab.run(PATIENCE, |lab| loop {
        match lab.call(OURS, Receive { socket, most: 100_000, peek: false }) {
            Ok(payload) if payload.is_empty() => return true,
            Ok(payload) => received += payload.len() as usize,
            Err(_) => return false,
        }
    }));
    assert_eq!(received, TOTAL);
    assert!(result(&mut lab, &program).is_ok());
}

#[test]
fn resets_reach_the_other_side() {
    let Some(mut lab) = pair(Wire::fast()) else { return };
    // A close of Linux with unread data resets the connection.
    let (socket, program) = connect(&mut lab, false, |mut stream| stream.read(&mut [0; 1]));
    lab.call(OURS, Send { socket, payload: Payload::counted(100), urgent: false, more: false }).expect("room");
    assert!(matches!(result(&mut lab, &program), Ok(1)));
    let mut error = Ok(());
    assert!(lab.run(PATIENCE, |lab| {
        error = lab.call(OURS, Receive { socket, most: 1, peek: false }).map(drop);
        error != Err(NetError::WouldBlock)
    }));
    assert_eq!(error, Err(NetError::Reset));
    // So does one of this stack with a linger time of zero.
    let Some(mut lab) = pair(Wire::fast()) else { return };
    let (socket, program) = connect(&mut lab, true, |mut stream| stream.read(&mut [0; 1]));
    lab.call(OURS, SetOption { socket, option: SocketOption::Linger(Some(SimDuration::ZERO)) }).expect("an option");
    lab.call(OURS, Close { socket }).expect("a socket");
    assert_eq!(result(&mut lab, &program).expect_err("no stream").kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_port_without_a_listener_refuses() {
    let Some(mut lab) = pair(Wire::fast()) else { return };
    let program = lab.machine(LINUX).spawn(|| TcpStream::connect((address(OURS), PORT)).map(drop));
    assert_eq!(result(&mut lab, &program).expect_err("nobody listens").kind(), ErrorKind::ConnectionRefused);
    let socket = lab.call(OURS, Open { family: Family::V4, protocol: Protocol::Stream }).expect("a socket");
    let to = (address(LINUX), PORT).into();
    let mut answer = lab.call(OURS, Connect { socket, to });
    assert!(lab.run(PATIENCE, |lab| {
        answer = lab.call(OURS, Connect { socket, to });
        answer != Err(NetError::Already)
    }));
    assert_eq!(answer, Err(NetError::Refused));
}

/// Sends or receives one urgent byte on a socket of Linux.
fn urgent(stream: &TcpStream, sends: bool) -> io::Result<u8> {
    let mut byte = b'!';
    let (fd, at, flags) = (stream.as_raw_fd(), std::ptr::from_mut(&mut byte).cast(), libc::MSG_OOB);
    // SAFETY: the descriptor is open, and the buffer has the byte that the call moves.
    let moved = unsafe { if sends { libc::send(fd, at, 1, flags) } else { libc::recv(fd, at, 1, flags) } };
    if moved == 1 { Ok(byte) } else { Err(io::Error::last_os_error()) }
}

#[test]
fn urgent_bytes_arrive_beside_the_stream() {
    let Some(mut lab) = pair(Wire::fast()) else { return };
    let (socket, program) = connect(&mut lab, false, |mut stream| {
        stream.write_all(b"before")?;
        urgent(&stream, true)?;
        stream.write_all(b"after")?;
        let mut bytes = [0; 2];
        stream.read_exact(&mut bytes)?;
        // The pointer may arrive ahead of its byte.
        let byte = loop {
            match urgent(&stream, false) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                other => break other?,
            }
        };
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest)?;
        io::Result::Ok((bytes, byte, rest))
    });
    assert!(lab.run(PATIENCE, |lab| lab.readiness(OURS, socket).intersects(Events::URGENT)));
    let mut byte = Err(NetError::WouldBlock);
    assert!(lab.run(PATIENCE, |lab| {
        byte = lab.call(OURS, ReceiveUrgent { socket, peek: false });
        byte != Err(NetError::WouldBlock)
    }));
    assert_eq!(byte, Ok(b'!'));
    let mut stream = Vec::new();
    assert!(lab.run(PATIENCE, |lab| {
        stream.extend(lab.call(OURS, Receive { socket, most: 100, peek: false }).map(|payload| payload.to_vec()).unwrap_or_default());
        stream.len() >= 11
    }));
    assert_eq!(stream, b"beforeafter");
    lab.call(OURS, Send { socket, payload: Payload::from(&b"ab?"[..]), urgent: true, more: false }).expect("room");
    lab.call(OURS, Send { socket, payload: Payload::from(&b"cd"[..]), urgent: false, more: false }).expect("room");
    lab.call(OURS, Shutdown { socket, receive: false, send: true }).expect("a connection");
    assert_eq!(result(&mut lab, &program).expect("a stream"), (*b"ab", b'?', b"cd".to_vec()));
}
