//! Life of connections: handshakes, ends, timers, and what programs see of them.

use crate::common::{CLIENT, Net, SERVER, Transfer, Wire, address, kernel};
use softband_net::calls::{Accept, AtMark, Close, Connect, Receive, ReceiveUrgent, Send, SetOption, Shutdown, SocketOption, TakeError};
use softband_net::{Body, Events, NetError, Packet, Payload, Protocol, SocketId, State};
use softband_sim::{SimDuration, SimTime};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

const MILLI: SimDuration = SimDuration::from_micros(1_000);
const SECOND: SimDuration = SimDuration::from_micros(1_000_000);

fn net_of(name: &str) -> Net {
    let kernel = kernel(name);
    Net::new([&kernel, &kernel], Wire::new(1_000, SimDuration::from_micros(25)), 5)
}

/// Records the times of a host's packets that `chooses`, in milliseconds.
fn record(net: &mut Net, chooses: impl Fn(usize, &Packet) -> bool + 'static) -> Rc<RefCell<Vec<u64>>> {
    let times = Rc::new(RefCell::new(Vec::new()));
    let log = times.clone();
    net.tap = Some(Box::new(move |at, host, packet| {
        if chooses(host, packet) {
            log.borrow_mut().push(at.as_nanos() / 1_000_000);
        }
    }));
    times
}

fn is_syn(packet: &Packet) -> bool {
    matches!(&packet.body, Body::Tcp(segment) if segment.flags.syn)
}

fn connect(net: &mut Net, port: u16) -> SocketId {
    let socket = net.open(CLIENT, Protocol::Stream);
    assert_eq!(net.call(CLIENT, Connect { socket, to: SocketAddr::new(address(SERVER), port) }), Err(NetError::InProgress));
    socket
}

#[test]
fn a_closed_port_refuses() {
    let mut net = net_of("linux-6.1");
    let socket = connect(&mut net, 81);
    assert_eq!(net.call(CLIENT, Connect { socket, to: SocketAddr::new(address(SERVER), 81) }), Err(NetError::Already));
    net.run_for(MILLI);
    assert!(net.hosts[CLIENT].stack.readiness(socket).intersects(Events::ERROR));
    assert_eq!(net.call(CLIENT, TakeError { socket }), Err(NetError::Refused));
    assert_eq!(net.call(CLIENT, TakeError { socket }), Ok(()));
}

#[test]
fn a_dead_host_costs_the_time_of_the_kernels_schedule() {
    for (name, times, end) in [("linux-2.6.18", vec![0, 3, 9, 21, 45, 93], 189), ("linux-6.1", vec![0, 1, 3, 7, 15, 31, 63], 127)] {
        let mut net = net_of(name);
        net.drop = Some(Box::new(|_, _| true));
        let sent = record(&mut net, |_, packet| is_syn(packet));
        let socket = connect(&mut net, 80);
        net.run_until(SimTime::ZERO + SECOND * (end - 1));
        assert_eq!(net.call(CLIENT, TakeError { socket }), Ok(()));
        net.run_for(SECOND * 2);
        assert_eq!(net.call(CLIENT, TakeError { socket }), Err(NetError::TimedOut), "{name}");
        assert_eq!(sent.borrow().iter().map(|at| at / 1_000).collect::<Vec<_>>(), times, "{name}");
    }
}

#[test]
fn a_lost_syn_ack_comes_again() {
    let mut net = net_of("linux-6.1");
    let mut left = 1;
    net.drop = Some(Box::new(move |host, packet| host == SERVER && is_syn(packet) && std::mem::replace(&mut left, 0) == 1));
    let begin = net.now;
    net.pair(&[]);
    assert_eq!((net.now - begin).as_nanos() / 1_000_000, 1_000);
}

#[test]
fn each_direction_closes_alone() {
    let mut net = net_of("linux-6.1");
    let (client, server) = net.pair(&[]);
    net.send(CLIENT, client, b"last").unwrap();
    net.call(CLIENT, Shutdown { socket: client, receive: false, send: true }).unwrap();
    net.run_for(MILLI);
    assert_eq!(net.send(CLIENT, client, b"x"), Err(NetError::Broken));
    assert_eq!(net.receive(SERVER, server, 9).unwrap(), b"last");
    assert_eq!(net.receive(SERVER, server, 9).unwrap(), b"");
    assert_eq!((net.info(CLIENT, client).state, net.info(SERVER, server).state), (State::FinWait2, State::CloseWait));
    net.send(SERVER, server, b"answer").unwrap();
    net.call(SERVER, Close { socket: server }).unwrap();
    net.run_for(MILLI);
    assert_eq!(net.receive(CLIENT, client, 9).unwrap(), b"answer");
    assert_eq!(net.receive(CLIENT, client, 9).unwrap(), b"");
    assert_eq!((net.hosts[CLIENT].stack.time_waits(), net.hosts[SERVER].stack.time_waits()), (1, 0));
    net.call(CLIENT, Close { socket: client }).unwrap();
    net.run_for(SECOND * 59);
    assert_eq!(net.hosts[CLIENT].stack.time_waits(), 1);
    net.run_for(SECOND * 2);
    assert_eq!((net.hosts[CLIENT].stack.time_waits(), net.hosts[CLIENT].stack.sockets()), (0, 0));
}

#[test]
fn both_sides_may_close_at_once() {
    let mut net = net_of("linux-6.1");
    let (client, server) = net.pair(&[]);
    net.call(CLIENT, Close { socket: client }).unwrap();
    net.call(SERVER, Close { socket: server }).unwrap();
    net.run_for(MILLI * 10);
    let count = |net: &Net, host: usize| (net.hosts[host].stack.time_waits(), net.hosts[host].stack.sockets());
    assert_eq!((count(&net, CLIENT), count(&net, SERVER)), ((1, 0), (1, 1)));
}

#[test]
fn unread_data_and_a_linger_time_of_zero_reset_the_peer() {
    let mut net = net_of("linux-6.1");
    let (client, server) = net.pair(&[]);
    net.send(CLIENT, client, b"unread").unwrap();
    net.run_for(MILLI);
    net.call(SERVER, Close { socket: server }).unwrap();
    net.run_for(MILLI);
    assert_eq!(net.receive(CLIENT, client, 9), Err(NetError::Reset));
    let mut net = net_of("linux-6.1");
    let (client, server) = net.pair(&[SocketOption::Linger(Some(SimDuration::ZERO))]);
    net.call(CLIENT, Close { socket: client }).unwrap();
    net.run_for(MILLI);
    assert_eq!(net.receive(SERVER, server, 9), Err(NetError::Reset));
    assert_eq!(net.receive(SERVER, server, 9).unwrap(), b"");
    assert_eq!(net.send(SERVER, server, b"x"), Err(NetError::Broken));
}

#[test]
fn a_write_to_a_closed_peer_is_reset() {
    let mut net = net_of("linux-6.1");
    let (client, server) = net.pair(&[]);
    net.call(SERVER, Close { socket: server }).unwrap();
    net.run_for(MILLI);
    assert_eq!(net.info(CLIENT, client).state, State::CloseWait);
    assert_eq!(net.send(CLIENT, client, b"first"), Ok(5));
    net.run_for(MILLI);
    assert_eq!(net.send(CLIENT, client, b"second"), Err(NetError::Broken));
}

/// Returns the payloads that the client sends for three small writes.
fn payloads(options: &[SocketOption], then: Option<SocketOption>) -> Vec<u32> {
    let mut net = net_of("linux-6.1");
    let (client, server) = net.pair(options);
    let sizes = Rc::new(RefCell::new(Vec::new()));
    let log = sizes.clone();
    net.tap = Some(Box::new(move |_, host, packet| {
        if host == CLIENT && packet.payload_bytes() > 0 {
            log.borrow_mut().push(packet.payload_bytes());
        }
    }));
    assert!((0..3).all(|_| net.send(CLIENT, client, &[1; 10]) == Ok(10)));
    if let Some(option) = then {
        net.call(CLIENT, SetOption { socket: client, option }).unwrap();
    }
    net.run_for(MILLI * 10);
    assert_eq!(net.receive(SERVER, server, 99).unwrap(), [1; 30]);
    sizes.take()
}

#[test]
fn small_writes_wait_for_each_other_unless_the_program_says_otherwise() {
    assert_eq!(payloads(&[], None), [10, 20]);
    assert_eq!(payloads(&[SocketOption::NoDelay(true)], None), [10, 10, 10]);
    assert_eq!(payloads(&[SocketOption::Cork(true)], Some(SocketOption::Cork(false))), [30]);
}

#[test]
fn a_corked_segment_leaves_after_a_fifth_of_a_second() {
    let mut net = net_of("linux-6.1");
    let (client, server) = net.pair(&[SocketOption::Cork(true)]);
    net.send(CLIENT, client, b"small").unwrap();
    net.run_for(MILLI * 199);
    assert_eq!(net.receive(SERVER, server, 9), Err(NetError::WouldBlock));
    net.run_for(MILLI * 3);
    assert_eq!(net.receive(SERVER, server, 9).unwrap(), b"small");
}

#[test]
fn an_acknowledgement_waits_for_an_answer_for_40_milliseconds() {
    let mut net = net_of("linux-6.1");
    let (client, server) = net.pair(&[SocketOption::NoDelay(true)]);
    let acks = record(&mut net, |host, packet| host == SERVER && packet.payload_bytes() == 0);
    // Question and answer: the acknowledgements ride on the answers.
    for _ in 0..20 {
        net.send(CLIENT, client, b"question").unwrap();
        net.run_for(MILLI);
        net.receive(SERVER, server, 99).unwrap();
        net.send(SERVER, server, b"answer").unwrap();
        net.run_for(MILLI);
        net.receive(CLIENT, client, 99).unwrap();
    }
    acks.borrow_mut().clear();
    net.send(CLIENT, client, b"question").unwrap();
    let begin = net.now.as_nanos() / 1_000_000;
    net.run_for(MILLI * 100);
    let delays: Vec<u64> = acks.borrow().iter().map(|at| at - begin).collect();
    assert!(matches!(delays[..], [40..=44]), "{delays:?}");
}

#[test]
fn a_closed_window_opens_again_even_if_the_news_is_lost() {
    let mut net = net_of("linux-6.1");
    let (client, server) = net.pair(&[SocketOption::ReceiveBuffer(8_192)]);
    let mut transfer = Transfer::new((CLIENT, client), (SERVER, server), 100_000, true);
    transfer.write(&mut net);
    net.run_for(SECOND * 20);
    let unread = net.info(SERVER, server).unread_bytes;
    assert!((4_000..16_384).contains(&unread), "{unread}");
    let mut left = 1;
    net.drop = Some(Box::new(move |host, _| host == SERVER && std::mem::replace(&mut left, 0) == 1));
    transfer.read(&mut net);
    let end = net.now + SECOND * 60;
    transfer.run(&mut net, end, |_| {});
    assert_eq!(transfer.received, 100_000);
}

#[test]
fn a_receiver_that_never_reads_is_probed_at_growing_intervals() {
    let mut net = net_of("linux-6.1");
    let (client, server) = net.pair(&[SocketOption::ReceiveBuffer(8_192)]);
    Transfer::new((CLIENT, client), (SERVER, server), 100_000, true).write(&mut net);
    net.run_for(MILLI * 50);
    let probes = record(&mut net, |host, _| host == CLIENT);
    net.run_for(SECOND * 1_000);
    let times = probes.borrow();
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!((12..25).contains(&times.len()), "{times:?}");
    assert!(gaps.windows(2).all(|pair| pair[1] >= pair[0] || pair[1] >= 119_000), "{gaps:?}");
    assert_eq!(net.info(CLIENT, client).state, State::Established);
}

#[test]
fn the_urgent_byte_is_out_of_band() {
    let mut net = net_of("linux-6.1");
    let (client, server) = net.pair(&[]);
    assert_eq!(net.call(SERVER, ReceiveUrgent { socket: server, peek: false }), Err(NetError::Invalid));
    net.send(CLIENT, client, b"abc").unwrap();
    net.call(CLIENT, Send { socket: client, payload: Payload::from(&b"de!"[..]), urgent: true, more: false }).unwrap();
    net.send(CLIENT, client, b"fg").unwrap();
    net.run_for(MILLI * 100);
    assert!(net.hosts[SERVER].stack.readiness(server).intersects(Events::URGENT));
    assert_eq!(net.receive(SERVER, server, 99).unwrap(), b"abcde");
    assert_eq!(net.call(SERVER, AtMark { socket: server }), Ok(true));
    assert_eq!(net.call(SERVER, ReceiveUrgent { socket: server, peek: true }), Ok(b'!'));
    assert_eq!(net.call(SERVER, ReceiveUrgent { socket: server, peek: false }), Ok(b'!'));
    assert_eq!(net.call(SERVER, ReceiveUrgent { socket: server, peek: false }), Err(NetError::Invalid));
    assert_eq!(net.receive(SERVER, server, 99).unwrap(), b"fg");
}

#[test]
fn a_peek_leaves_the_data() {
    let mut net = net_of("linux-6.1");
    let (client, server) = net.pair(&[]);
    net.send(CLIENT, client, b"data").unwrap();
    net.run_for(MILLI);
    let peeked = net.call(SERVER, Receive { socket: server, most: 2, peek: true }).unwrap();
    assert_eq!((peeked.to_vec(), net.receive(SERVER, server, 9).unwrap()), (b"da".to_vec(), b"data".to_vec()));
}

#[test]
fn keep_alive_notices_a_dead_peer() {
    let mut net = net_of("linux-6.1");
    let times = [
        SocketOption::KeepAliveIdle(SECOND * 10),
        SocketOption::KeepAliveInterval(SECOND * 2),
        SocketOption::KeepAliveProbes(3),
        SocketOption::KeepAlive(true),
    ];
    let (client, _) = net.pair(&times);
    net.run_for(SECOND * 100);
    assert_eq!(net.info(CLIENT, client).state, State::Established, "a live peer answers");
    net.drop = Some(Box::new(|_, _| true));
    net.run_for(SECOND * 5);
    assert_eq!(net.call(CLIENT, TakeError { socket: client }), Ok(()));
    net.run_for(SECOND * 12);
    assert_eq!(net.call(CLIENT, TakeError { socket: client }), Err(NetError::TimedOut));
}

#[test]
fn the_last_packet_is_repaired_by_a_probe_or_by_the_timeout() {
    for (name, range) in [("linux-2.6.18", 200..210), ("linux-6.1", 200..210)] {
        let mut net = net_of(name);
        let (client, server) = net.pair(&[SocketOption::NoDelay(true)]);
        net.send(CLIENT, client, b"first").unwrap();
        net.run_for(MILLI * 300);
        net.receive(SERVER, server, 9).unwrap();
        let mut left = 1;
        net.drop = Some(Box::new(move |host, packet| host == CLIENT && packet.payload_bytes() > 0 && std::mem::replace(&mut left, 0) == 1));
        let begin = net.now;
        net.send(CLIENT, client, b"second").unwrap();
        while net.receive(SERVER, server, 9).is_err() {
            net.step().unwrap();
        }
        let took = (net.now - begin).as_nanos() / 1_000_000;
        assert!(range.contains(&took), "{name}: {took} ms");
    }
    // With two packets in flight the probe needs no allowance for a delayed acknowledgement.
    for (name, range) in [("linux-2.6.18", 200..210), ("linux-6.1", 1..10)] {
        let mut net = net_of(name);
        let (client, server) = net.pair(&[]);
        let mut count = 0;
        net.drop = Some(Box::new(move |host, packet| {
            let is_data = host == CLIENT && packet.payload_bytes() > 0;
            count += u32::from(is_data);
            is_data && (count == 2 || count == 3)
        }));
        let begin = net.now;
        let mut transfer = Transfer::new((CLIENT, client), (SERVER, server), 3 * 1_448, true);
        transfer.run(&mut net, begin + SECOND, |_| {});
        let took = (net.now - begin).as_nanos() / 1_000_000;
        assert!(transfer.received == 3 * 1_448 && range.contains(&took), "{name}: {took} ms");
    }
}

#[test]
fn data_without_an_answer_fails_after_the_kernels_retries() {
    let mut net = net_of("linux-6.1");
    let (client, _) = net.pair(&[]);
    net.drop = Some(Box::new(|_, _| true));
    net.send(CLIENT, client, b"lost").unwrap();
    net.run_for(SECOND * 900);
    assert_eq!(net.call(CLIENT, TakeError { socket: client }), Ok(()));
    // tcp(7): 924.6 s for 15 retries at the least timeout; the last timer may end later.
    net.run_for(SECOND * 150);
    assert_eq!(net.call(CLIENT, TakeError { socket: client }), Err(NetError::TimedOut));
}

#[test]
fn a_full_accept_queue_delays_clients() {
    let mut net = net_of("linux-6.1");
    let listener = net.listen(80, 2);
    let clients: Vec<SocketId> = (0..5).map(|_| connect(&mut net, 80)).collect();
    net.run_for(MILLI * 500);
    // Linux: the queue holds one more than the backlog. Clients believe in the others.
    let accepted = (0..5).filter(|_| net.call(SERVER, Accept { socket: listener }).is_ok()).count();
    assert_eq!(accepted, 3);
    net.run_for(SECOND * 4);
    let later = (0..5).filter(|_| net.call(SERVER, Accept { socket: listener }).is_ok()).count();
    assert_eq!(later, 2);
    assert!(clients.iter().all(|client| net.info(CLIENT, *client).state == State::Established));
}

#[test]
fn connections_within_a_host_need_no_link() {
    let mut net = net_of("linux-6.1");
    let listener = net.listen(80, 2);
    let client = net.open(SERVER, Protocol::Stream);
    let begun = net.call(SERVER, Connect { socket: client, to: "127.0.0.1:80".parse().unwrap() });
    assert_eq!(begun, Err(NetError::InProgress));
    let (server, _) = net.call(SERVER, Accept { socket: listener }).unwrap();
    let mut transfer = Transfer::new((SERVER, client), (SERVER, server), 10_000_000, true);
    let end = net.now + SECOND;
    while transfer.received < transfer.total && net.now < end {
        transfer.write(&mut net);
        transfer.read(&mut net);
    }
    assert_eq!((transfer.received, net.packets), (10_000_000, 0));
}

#[test]
fn a_program_that_polls_before_it_writes_again_is_woken() {
    let mut net = net_of("linux-6.1");
    let (client, server) = net.pair(&[SocketOption::SendBuffer(20_000), SocketOption::ReceiveBuffer(20_000)]);
    // The peer reads nothing, so the data stays: the write is whole, but the buffer is not writable.
    while net.hosts[CLIENT].stack.readiness(client).intersects(Events::WRITABLE) {
        assert_eq!(net.send(CLIENT, client, &[0; 1_000]), Ok(1_000));
        net.run_for(MILLI);
    }
    net.hosts[CLIENT].ready.clear();
    while net.receive(SERVER, server, 1 << 20).is_ok() {
        net.run_for(MILLI * 100);
    }
    let woken =
        |net: &Net| net.hosts[CLIENT].ready.iter().filter(|(socket, events)| *socket == client && events.intersects(Events::WRITABLE)).count();
    assert_eq!(woken(&net), 1);
    net.hosts[CLIENT].ready.clear();
    net.call(CLIENT, Shutdown { socket: client, receive: false, send: true }).unwrap();
    assert_eq!(woken(&net), 1);
}
