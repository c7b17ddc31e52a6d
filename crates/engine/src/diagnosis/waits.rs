//! Describes the waits of a run: a line for each waiting thread, and a line for each queue pair on
//! which it depends.

use crate::diagnosis::call_names::CallNames;
use crate::diagnosis::observer::Observer;
use crate::host::objects::Object;
use crate::host::sockets::{Socket, SocketState};
use crate::process::record::{Process, ProcessState};
use crate::process::thread::{Thread, ThreadState, Waiting};
use crate::realtime::receive_queues::QueueName;
use softband_fabric::QueuePairView;
use softband_ipc::calls::{self, Op, WaitEntry, readiness, reason};
use softband_ipc::layout::token;
use softband_sim::SimTime;
use softband_types::{Lid, QpState, QpType, counted};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;

/// Most queue pairs that an answer lists. It only counts the others.
const QUEUE_PAIRS_MAX: usize = 8;

const TIMER_NOT_SET: &str = "a timer that is not set";

/// Subject of the detail lines of an answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    None,
    /// Queue pairs that complete into this CQ.
    CompletionQueue(u32),
    /// Every queue pair of the process.
    Process,
}

impl Observer<'_> {
    /// Describes every waiting thread and its wait.
    pub(crate) fn describe_waits(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let calls = CallNames::ask(self.processes);
        for process in self.processes.living() {
            match process.state() {
                ProcessState::Attached if !self.scheduler.is_wall() => self.describe_process(process, &calls, &mut lines),
                ProcessState::Attached => self.describe_natively(process, &calls, &mut lines),
                ProcessState::Foreign => {
                    lines.push(format!("{} runs outside simulated time (the library is not loaded)", self.command_of(process)));
                }
                ProcessState::Expected | ProcessState::Promised => {
                    lines.push(format!("{} has started and not reached the engine yet", self.command_of(process)));
                }
                ProcessState::Ended => {}
            }
        }
        lines
    }

    fn describe_process(&self, process: &Process, calls: &CallNames, lines: &mut Vec<String>) {
        let mut told = BTreeSet::new();
        for (slot, thread) in process.threads().iter().enumerate() {
            let Some((what, detail)) = self.describe_thread(process, slot as u32, thread) else { continue };
            let tid = process.shared().slot(slot as u32).tid.load(Ordering::Relaxed);
            lines.push(format!("{} {what}{}", self.name_of_thread(process, slot), calls.in_words(process, tid)));
            if detail != Detail::None && told.insert(detail) {
                lines.extend(self.queue_pair_lines(process, detail));
            }
        }
    }

    /// Names a thread: `a: 'ib_send_bw' (process 1000, thread 0)`.
    pub(crate) fn name_of_thread(&self, process: &Process, slot: usize) -> String {
        format!("{} (process {}, thread {slot})", self.command_of(process), process.virtual_pid())
    }

    /// Describes the activity of a thread, if the thread exists.
    fn describe_thread(&self, process: &Process, slot: u32, thread: &Thread) -> Option<(String, Detail)> {
        let request = process.shared().request(slot);
        let op = Op::from_number(process.shared().slot(slot).op.load(Ordering::Relaxed));
        let has_token = process.shared().slot(slot).token.load(Ordering::Relaxed) == token::PROGRAM;
        Some(match thread.state() {
            ThreadState::Ended | ThreadState::Expected => return None,
            ThreadState::Waiting(Waiting::Poll) => self.describe_poll(&request, thread),
            ThreadState::Waiting(Waiting::Pause) => ("polls memory, a clock or a descriptor".into(), Detail::None),
            ThreadState::Waiting(Waiting::Spin) => (describe_spin(&request), Detail::Process),
            ThreadState::Waiting(Waiting::Sleep | Waiting::OsPoll) => (describe_sleep(&request), Detail::None),
            ThreadState::Waiting(Waiting::Objects(entries)) => self.describe_objects(process, &request, entries),
            ThreadState::Away => (outside(process, slot), Detail::None),
            ThreadState::Scheduled if has_token => ("runs code of its own (it computes, or loops without a call)".into(), Detail::Process),
            ThreadState::Scheduled if thread.waiting_since().is_some() && op == Some(Op::Poll) => self.describe_poll(&request, thread),
            ThreadState::Scheduled => ("goes on at its next turn".into(), Detail::None),
        })
    }

    fn describe_poll(&self, request: &[u8], thread: &Thread) -> (String, Detail) {
        let since = thread.waiting_since().map_or_else(String::new, |since| format!(" since {}", moment(since)));
        let polled = calls_request::<calls::Handle>(request).filter(|cq| self.cqs.contains(cq.handle));
        match polled {
            Some(cq) => (format!("polls {} in vain{since}", self.name_of_cq(cq.handle)), Detail::CompletionQueue(cq.handle)),
            None => (format!("polls for something that does not come{since}"), Detail::Process),
        }
    }

    /// Names a CQ: `completion queue 0x100 (a/mthca0)`.
    pub(crate) fn name_of_cq(&self, cq: u32) -> String {
        let device = self.cqs.get(cq).map_or_else(String::new, |record| format!(" ({})", self.world.device_name(record.hca())));
        format!("completion queue {cq:#x}{device}")
    }

    fn describe_objects(&self, process: &Process, request: &[u8], entries: &[WaitEntry]) -> (String, Detail) {
        let head = calls_request::<calls::WaitRequest>(request);
        let until =
            head.and_then(|head| crate::protocol::program_time(head.deadline_ps)).map_or_else(String::new, |at| format!(", until {}", moment(at)));
        if head.is_some_and(|head| head.reason == reason::LOCK) {
            return (format!("waits for a lock, a condition or the end of a thread{until}"), Detail::None);
        }
        let mut detail = Detail::None;
        let mut names: Vec<String> = Vec::new();
        for WaitEntry { object, interest, .. } in entries {
            let name = match self.host.object(*object) {
                Some(Object::Socket) => {
                    self.host.socket(*object).map_or_else(|_| "a socket".into(), |socket| self.describe_socket(socket, *interest))
                }
                Some(Object::StackSocket) => self.describe_stack_socket(*object, *interest),
                Some(Object::DatagramSocket) if interest & readiness::READABLE != 0 => "a datagram (UDP)".into(),
                Some(Object::DatagramSocket) => "room to send a datagram (UDP)".into(),
                Some(Object::CompletionChannel(_)) => {
                    let (name, of) = self.describe_channel(process, *object);
                    detail = of;
                    name
                }
                Some(Object::AsyncChannel { hca, .. }) => format!("an asynchronous event of {}", self.world.device_name(softband_types::HcaId(*hca))),
                Some(Object::ManagementDevice) => self.describe_device(*object),
                Some(Object::ConnectionManager) => "an event of the connection manager (rdma_cm)".into(),
                Some(Object::Timer { at, .. }) if *at > SimTime::ZERO => format!("a timer at {}", moment(*at)),
                Some(Object::Timer { .. }) => TIMER_NOT_SET.into(),
                None => "a closed descriptor".into(),
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        // The bell of a thread is such a timer. It says nothing of the wait.
        if names.len() > 1 {
            names.retain(|name| name != TIMER_NOT_SET);
        }
        (format!("waits for {}{until}", names.join(", or ")), detail)
    }

    fn describe_stack_socket(&self, object: u32, interest: u32) -> String {
        let table = self.host.stack_sockets();
        if let Some(to) = table.sought(object) {
            return format!("a program that listens on {to} (TCP)");
        }
        let is_datagram = table.place(object).is_some_and(|place| place.is_datagram);
        match (is_datagram, interest & readiness::READABLE != 0) {
            (true, true) => "a datagram (UDP)".into(),
            (true, false) => "room to send a datagram (UDP)".into(),
            (false, true) => "data or a connection (TCP)".into(),
            (false, false) => "room to send or a connection (TCP)".into(),
        }
    }

    fn describe_device(&self, object: u32) -> String {
        let port = self.host.mads().port_of(object);
        port.map_or_else(|| "a MAD".into(), |(hca, port)| format!("a MAD at {}/{}", self.world.device_name(hca), port.0))
    }

    fn describe_channel(&self, process: &Process, channel: u32) -> (String, Detail) {
        let queues: Vec<u32> = self.cqs.of_channel(process.index(), channel).collect();
        match queues.as_slice() {
            [] => ("an event of a completion channel without completion queues".into(), Detail::None),
            [one] => (format!("an event of {}", self.name_of_cq(*one)), Detail::CompletionQueue(*one)),
            many => (format!("an event of one of {} completion queues", many.len()), Detail::Process),
        }
    }

    fn describe_socket(&self, socket: &Socket, interest: u32) -> String {
        let peer = self.name_of_address(socket.peer_address, socket.host);
        match socket.state {
            SocketState::Listening => format!("a connection to its TCP port {}", socket.local.1),
            SocketState::Seeking => format!("a program that listens on {peer} (TCP)"),
            SocketState::Connecting => format!("its TCP connection to {peer}"),
            SocketState::Connected if interest & readiness::READABLE != 0 => format!("data from {peer} (TCP)"),
            SocketState::Connected => format!("room to send to {peer} (TCP), which reads nothing"),
            SocketState::New | SocketState::Failed(_) => "a socket that is not connected".into(),
        }
    }

    /// Names an address, with the host's name if the fabric has the address: `b:18515`.
    pub(crate) fn name_of_address(&self, (address, port): (u32, u16), from: usize) -> String {
        match self.host.sockets().host_of(address, from) {
            Some(host) => format!("{}:{port}", self.world.spec().hosts[host].name),
            None => format!("{}:{port}", Ipv4Addr::from_bits(address)),
        }
    }

    /// Returns a line for each queue pair that `detail` selects.
    pub(crate) fn queue_pair_lines(&self, process: &Process, detail: Detail) -> Vec<String> {
        let mut views = self.world.queue_pairs_of(process.number());
        if let Detail::CompletionQueue(cq) = detail {
            views.retain(|view| [view.attributes.init.send_cq.0, view.attributes.init.recv_cq.0].contains(&cq));
            if views.is_empty() {
                return vec!["    no queue pair completes into it".into()];
            }
        }
        let more = views.len().saturating_sub(QUEUE_PAIRS_MAX);
        let mut lines: Vec<String> = views.iter().take(QUEUE_PAIRS_MAX).map(|view| format!("    {}", self.describe_queue_pair(view))).collect();
        if more > 0 {
            lines.push(format!("    and {} more", counted(more, "queue pair", "queue pairs")));
        }
        lines
    }

    /// Describes a queue pair: `queue pair 0x404 (RC, RTS) to b/mthca0/1, queue pair 0x405: 0 sends
    /// and 128 receives outstanding`.
    fn describe_queue_pair(&self, view: &QueuePairView) -> String {
        let attributes = &view.attributes;
        let number = attributes.qpn.0;
        let receives = view.receives + self.shared_receives_of(view);
        let head = format!("queue pair {number:#x} ({}, {})", name_of_type(attributes.init.qp_type), name_of_state(attributes.state));
        let is_connected = attributes.init.qp_type != QpType::Ud && attributes.dest_qpn.0 != 0;
        let peer = match attributes.init.qp_type {
            QpType::Ud => String::new(),
            _ if !is_connected => ", not connected".into(),
            _ => format!(" to {}", self.name_of_peer(attributes.address_vector.dlid, attributes.dest_qpn)),
        };
        let state = if view.waits_for_receiver {
            "; its peer has no receive request (RNR)"
        } else if view.waits_for_acknowledgement {
            "; it waits for an acknowledgement"
        } else {
            ""
        };
        // In wall pace the World does not see transfers that programs carry out themselves.
        let where_ = if self.scheduler.is_wall() { " with the engine" } else { "" };
        format!("{head}{peer}: {}{where_} and {} outstanding{state}", counted(view.sends, "send", "sends"), counted(receives, "receive", "receives"))
    }

    /// Returns the number of receive requests in the queue that peers reach, in wall pace.
    fn shared_receives_of(&self, view: &QueuePairView) -> usize {
        let init = view.attributes.init;
        let name = init.srq.map_or(QueueName::Own(view.hca, view.attributes.qpn), QueueName::Shared);
        self.realtime.receives_in(self.processes, name).unwrap_or(0)
    }

    fn name_of_peer(&self, lid: Lid, qpn: softband_types::Qpn) -> String {
        let Some(port) = self.world.name_of_lid(lid) else { return format!("LID {}, which no port of the fabric has", lid.0) };
        let gone = if self.world.has_queue_pair(lid, qpn) { "" } else { ", which does not exist" };
        format!("{port}, queue pair {:#x}{gone}", qpn.0)
    }
}

/// Reads the beginning of a thread's request.
fn calls_request<T: bytemuck::Pod>(bytes: &[u8]) -> Option<T> {
    crate::protocol::request(bytes).ok()
}

fn describe_spin(request: &[u8]) -> String {
    match calls_request::<calls::SpinTarget>(request) {
        Some(target) => format!("spins on registered memory ({:#x}) that no peer writes", target.address),
        None => "spins on registered memory that no peer writes".into(),
    }
}

fn describe_sleep(request: &[u8]) -> String {
    let Some(sleep) = calls_request::<calls::Sleep>(request) else { return "sleeps".into() };
    let (only_polls, why) = calls::polls_of(sleep.polls);
    let until = crate::protocol::program_time(sleep.until_ps).map(moment);
    let limit = until.as_ref().filter(|_| !only_polls).map_or_else(String::new, |until| format!(", looks again at {until}"));
    match (why, until) {
        (reason::LOCK, _) => format!("waits for a lock or semaphore that processes share{limit}"),
        (reason::CHILD, _) => format!("waits for a child process{limit}"),
        (reason::SIGNAL, _) => format!("waits for a signal{limit}"),
        (reason::DESCRIPTOR, _) => format!("waits for a pipe or a file{limit}"),
        (_, _) if only_polls => "waits for what another process does (a child, a lock or a pipe)".into(),
        (_, Some(until)) => format!("sleeps until {until}"),
        (_, None) => "sleeps until a signal comes".into(),
    }
}

/// Describes a thread that the engine does not await.
fn outside(process: &Process, slot: u32) -> String {
    let tid = process.shared().slot(slot).tid.load(Ordering::Relaxed);
    let call = crate::diagnosis::native_waits::of_thread(process.pid(), tid as i32).map_or_else(String::new, |call| format!(": {call}"));
    format!("waits in the operating system, outside simulated time{call}")
}

/// Formats a time: `3.000001 s of simulated time`.
pub(crate) fn moment(at: SimTime) -> String {
    format!("{:.6} s of simulated time", at.as_secs_f64())
}

fn name_of_type(qp_type: QpType) -> &'static str {
    match qp_type {
        QpType::Rc => "RC",
        QpType::Uc => "UC",
        QpType::Ud => "UD",
        QpType::XrcSend => "XRC send",
        QpType::XrcRecv => "XRC receive",
    }
}

fn name_of_state(state: QpState) -> &'static str {
    match state {
        QpState::Reset => "RESET",
        QpState::Init => "INIT",
        QpState::Rtr => "RTR",
        QpState::Rts => "RTS",
        QpState::Sqd => "SQD",
        QpState::Sqe => "SQE",
        QpState::Error => "ERROR",
    }
}
