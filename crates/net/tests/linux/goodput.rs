//! Goodput of senders of both kinds at the same delay and loss.

use super::lab::{Kind, Lab, Wire, address};
use super::{PATIENCE, PORT, lab};
use softband_net::calls::{Accept, Bind, Connect, Listen, Open, Receive, Send};
use softband_net::{Family, Payload, Protocol, SocketId};
use softband_sim::SimDuration;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

const SENDER: usize = 0;
const RECEIVER: usize = 1;
const SPAN: Duration = Duration::from_secs(4);

/// Endless transfer from host 0 to host 1.
struct Transfer {
    /// Listening socket and connection of this stack, as far as it is the receiver.
    listener: Option<SocketId>,
    receiver: Option<SocketId>,
    sender: Option<SocketId>,
    received: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Transfer {
    fn begin(lab: &mut Lab, kinds: [Kind; 2]) -> Self {
        let (received, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let open = |lab: &mut Lab, side| lab.call(side, Open { family: Family::V4, protocol: Protocol::Stream }).expect("a socket");
        let listener = if kinds[RECEIVER] == Kind::Linux {
            let (ready, is_ready) = mpsc::channel();
            let count = received.clone();
            drop(lab.machine(RECEIVER).spawn(move || {
                let listener = TcpListener::bind((address(RECEIVER), PORT)).expect("a free port");
                let _ = ready.send(());
                let (mut stream, _) = listener.accept().expect("a connection");
                let mut bytes = vec![0; 1 << 18];
                while let Ok(len @ 1..) = stream.read(&mut bytes) {
                    count.fetch_add(len as u64, Ordering::Relaxed);
                }
            }));
            is_ready.recv().expect("a server");
            None
        } else {
            let socket = open(lab, RECEIVER);
            lab.call(RECEIVER, Bind { socket, address: (address(RECEIVER), PORT).into() }).expect("a free port");
            lab.call(RECEIVER, Listen { socket, backlog: 4 }).expect("a socket to listen");
            Some(socket)
        };
        let sender = if kinds[SENDER] == Kind::Linux {
            let is_over = is_over.clone();
            drop(lab.machine(SENDER).spawn(move || {
                let mut stream = TcpStream::connect((address(RECEIVER), PORT)).expect("a connection");
                stream.set_write_timeout(Some(Duration::from_millis(100))).expect("a timeout");
                let bytes = vec![0; 1 << 16];
                while !is_over.load(Ordering::Relaxed) {
                    let _ = stream.write(&bytes);
                }
            }));
            None
        } else {
            let socket = open(lab, SENDER);
            let _ = lab.call(SENDER, Connect { socket, to: (address(RECEIVER), PORT).into() });
            Some(socket)
        };
        Self { listener, receiver: None, sender, received, is_over }
    }

    fn step(&mut self, lab: &mut Lab) {
        if let Some(socket) = self.sender {
            while lab.call(SENDER, Send { socket, payload: Payload::counted(1 << 16), urgent: false, more: false }).is_ok() {}
        }
        if let (Some(socket), None) = (self.listener, self.receiver) {
            self.receiver = lab.call(RECEIVER, Accept { socket }).ok().map(|(accepted, _)| accepted);
        }
        if let Some(socket) = self.receiver {
            while let Ok(payload) = lab.call(RECEIVER, Receive { socket, most: 1 << 18, peek: false }) {
                self.received.fetch_add(u64::from(payload.len()), Ordering::Relaxed);
            }
        }
    }
}

/// Returns the goodput in Mb/s.
fn goodput(kinds: [Kind; 2], wire: Wire) -> Option<f64> {
    let mut lab = lab(kinds, wire)?;
    let mut transfer = Transfer::begin(&mut lab, kinds);
    assert!(lab.run(PATIENCE, |lab| {
        transfer.step(lab);
        transfer.received.load(Ordering::Relaxed) > 0
    }));
    lab.run(SPAN, |lab| {
        transfer.step(lab);
        false
    });
    transfer.is_over.store(true, Ordering::Relaxed);
    Some(transfer.received.load(Ordering::Relaxed) as f64 * 8e-6 / SPAN.as_secs_f64())
}

#[test]
#[ignore = "measures for a minute in real time"]
fn a_sender_reaches_the_rate_of_the_machines_kernel() {
    for (delay, loss_ppm) in [(5_000, 0), (5_000, 1_000), (5_000, 10_000), (20_000, 1_000)] {
        let wire = Wire { delay: SimDuration::from_micros(delay), loss_ppm, bytes_per_second: 25_000_000, queue_bytes: 500_000 };
        let mut rates = Vec::new();
        for kinds in [[Kind::Linux, Kind::Linux], [Kind::Ours, Kind::Linux], [Kind::Linux, Kind::Ours], [Kind::Ours, Kind::Ours]] {
            let Some(rate) = goodput(kinds, wire) else { return };
            rates.push(rate);
        }
        println!(
            "{} ms, {} % lost: Linux {:.1}, ours to Linux {:.1}, Linux to ours {:.1}, ours {:.1} Mb/s",
            delay / 500,
            loss_ppm as f64 / 1e4,
            rates[0],
            rates[1],
            rates[2],
            rates[3]
        );
        // Losses hit by chance, which real time draws anew.
        assert!(rates.iter().all(|rate| *rate > rates[0] / 2.0 && *rate < rates[0] * 2.0), "{rates:?}");
    }
}
