//! Execution of the calls of threads. Programs send them: this code checks all lengths and numbers.

use crate::control::tickets::Grant;
use crate::engine::{Engine, Event, Pace};
use crate::host::objects::Object;
use crate::host::sockets::{self, Path, SocketState, Wakeups};
use crate::process::image::{ThreadState, Waiting};
use bytemuck::Pod;
use softband_ipc::calls::{self, Op};
use softband_sim::{SimDuration, SimTime};
use std::collections::BTreeSet;

/// The state of a thread after its call.
pub(crate) enum After {
    /// The thread continues at once with this reply.
    Reply(Vec<u8>),
    /// The thread continues with this reply after the cost of the call.
    ReplyLater(Vec<u8>, SimDuration),
    Fail(i32),
    /// The engine parked the thread or queued its call again, or the thread is gone.
    Nothing,
}

pub(crate) type Answer = Result<Vec<u8>, i32>;

/// Longest wait of a connection attempt for a listener on its target host.
const SEEK_LIMIT: SimDuration = SimDuration::from_micros(10_000_000);

/// End of simulated time for programs, after 106 days. Deadlines after it never come.
pub(crate) const END: SimTime = SimTime::from_picos(1 << 63);

/// Converts a time from a program in picoseconds. Returns `None` for a time that never comes.
pub(crate) fn program_time(picos: u64) -> Option<SimTime> {
    Some(SimTime::from_picos(picos)).filter(|time| *time <= END)
}

/// Reads a request of type `T` from the front of `bytes`. Fails with `EPROTO` if they are too few.
pub(crate) fn request<T: Pod>(bytes: &[u8]) -> Result<T, i32> {
    bytes.get(..size_of::<T>()).map(bytemuck::pod_read_unaligned).ok_or(libc::EPROTO)
}

pub(crate) fn reply<T: Pod>(value: &T) -> Vec<u8> {
    bytemuck::bytes_of(value).to_vec()
}

impl Engine {
    /// Carries out the call of a thread. `now` is the thread's own time.
    pub(crate) fn execute(&mut self, process: usize, slot: u32) {
        let number = self.processes[process].shared.slot(slot).op.load(std::sync::atomic::Ordering::Relaxed);
        let after = match Op::from_number(number) {
            Some(op) => self.dispatch(process, slot, op),
            None => After::Fail(libc::ENOSYS),
        };
        match after {
            After::Reply(bytes) => self.answer(process, slot, 0, &bytes, SimDuration::ZERO),
            After::ReplyLater(bytes, cost) => self.answer(process, slot, 0, &bytes, cost),
            After::Fail(errno) => self.answer(process, slot, errno, &[], SimDuration::ZERO),
            After::Nothing => {}
        }
    }

    fn answer(&mut self, process: usize, slot: u32, status: i32, bytes: &[u8], cost: SimDuration) {
        self.processes[process].shared.reply(slot, status, &[bytes]);
        // At wall pace the host's own time is the cost of a call.
        let cost = if self.pace == Pace::Wall { SimDuration::ZERO } else { cost };
        self.queue.push(self.now + cost, process as u32, Event::Resume { process, slot });
    }

    fn dispatch(&mut self, process: usize, slot: u32, op: Op) -> After {
        let bytes = self.processes[process].shared.request(slot);
        match op {
            Op::Poll => self.poll(process, slot, Waiting::Poll),
            Op::SpinWait => self.poll(process, slot, Waiting::Spin),
            Op::Sync => After::Reply(Vec::new()),
            Op::Sleep | Op::Wait => self.wait(process, slot, op, &bytes),
            Op::Away => {
                self.goes_away(process, slot);
                After::Nothing
            }
            Op::ThreadExit => {
                let thread = &mut self.processes[process].threads[slot as usize];
                thread.state = ThreadState::Ended;
                thread.generation = thread.generation.wrapping_add(1);
                After::Nothing
            }
            Op::ProcessExit => {
                self.process_exits(process);
                After::Nothing
            }
            Op::ResizeCq => self.pay_first(process, slot, op, &bytes),
            Op::RegisterMr
            | Op::ReregisterMr
            | Op::CreateQp
            | Op::CreateSrq
            | Op::AllocMw
            | Op::AttachMulticast
            | Op::DetachMulticast
            | Op::ModifySrq
            | Op::ModifyQp
            | Op::CreateCq
            | Op::AllocPd
            | Op::CreateAh => self.costly_verb(process, op, &bytes),
            _ => self.plain(process, slot, op, &bytes).map_or_else(After::Fail, After::Reply),
        }
    }

    fn plain(&mut self, process: usize, slot: u32, op: Op, bytes: &[u8]) -> Answer {
        match op as u32 {
            0..30 => self.process_call(process, slot, op, bytes),
            30..100 => self.object_call(process, op, bytes),
            _ => self.verb(process, op, bytes),
        }
    }

    /// Handles an empty poll: the thread polls again if it missed news, else it waits for news.
    fn poll(&mut self, process: usize, slot: u32, waiting: Waiting) -> After {
        let record = &self.processes[process];
        let thread = &record.threads[slot as usize];
        let news = if waiting == Waiting::Poll { thread.news_seen != record.news } else { thread.memory_seen != record.memory_written };
        if news {
            return After::Reply(Vec::new());
        }
        self.park_for_news(process, slot, waiting);
        After::Nothing
    }

    fn wait(&mut self, process: usize, slot: u32, op: Op, bytes: &[u8]) -> After {
        if op == Op::Sleep {
            let Ok(sleep) = request::<calls::Sleep>(bytes) else { return After::Fail(libc::EPROTO) };
            let waiting = if calls::polls_of(sleep.polls).0 { Waiting::OsPoll } else { Waiting::Sleep };
            self.park(process, slot, waiting, program_time(sleep.until_ps));
            return After::Nothing;
        }
        let (head, entries) = match wait_request(bytes) {
            Ok(parsed) => parsed,
            Err(errno) => return After::Fail(errno),
        };
        let wanted: Vec<(u32, u32)> = entries.iter().map(|entry| (entry.object, entry.interest)).collect();
        let ready = wanted.iter().any(|(object, interest)| self.is_ready(*object, *interest));
        if ready || head.deadline_ps <= self.now.as_picos() {
            return After::Reply(self.wait_reply(&wanted, false));
        }
        let deadline = program_time(head.deadline_ps);
        self.park(process, slot, Waiting::Objects(wanted), deadline);
        After::Nothing
    }

    fn wait_reply(&mut self, wanted: &[(u32, u32)], interrupted: bool) -> Vec<u8> {
        use calls::readiness::{ERROR, HANG_UP};
        let mut entries = Vec::new();
        let mut ready_count = 0;
        for (object, interest) in wanted {
            let ready = self.readiness(*object) & (interest | ERROR | HANG_UP);
            ready_count += u32::from(ready != 0);
            entries.extend_from_slice(bytemuck::bytes_of(&calls::WaitEntry { object: *object, interest: *interest, ready, reserved: 0 }));
        }
        let mut bytes = reply(&calls::WaitReply { ready_count, interrupted: u32::from(interrupted) });
        bytes.extend(entries);
        bytes
    }

    /// Ends the wait of a thread: an object is ready, its time is over, or a signal came.
    pub(crate) fn finish_wait(&mut self, process: usize, slot: u32, interrupted: bool) {
        let wanted = match &self.processes[process].threads[slot as usize].state {
            ThreadState::Waiting(Waiting::Objects(wanted)) => wanted.clone(),
            _ => Vec::new(),
        };
        let bytes = self.wait_reply(&wanted, interrupted);
        self.processes[process].shared.reply(slot, 0, &[&bytes]);
        self.wake(process, slot);
    }

    pub(crate) fn wait_over(&mut self, process: usize, slot: u32) {
        match self.processes[process].threads[slot as usize].state {
            ThreadState::Waiting(Waiting::Poll | Waiting::Spin) => self.wake(process, slot),
            ThreadState::Waiting(_) => self.finish_wait(process, slot, false),
            _ => {}
        }
    }

    pub(crate) fn readiness(&mut self, object: u32) -> u32 {
        match self.objects.get_mut(object) {
            Some(Object::Socket) => self.sockets.readiness(object, self.now),
            Some(other) => other.readiness(self.now),
            None => calls::readiness::ERROR,
        }
    }

    pub(crate) fn is_ready(&mut self, object: u32, interest: u32) -> bool {
        self.readiness(object) & (interest | calls::readiness::ERROR | calls::readiness::HANG_UP) != 0
    }

    fn process_call(&mut self, process: usize, slot: u32, op: Op, bytes: &[u8]) -> Answer {
        match op {
            Op::ThreadNew => self.new_thread(process, slot).map(|slot| reply(&calls::ThreadReply { slot, reserved: 0 })),
            Op::Fork => {
                let (ticket, child) = self.fork(process)?;
                Ok(reply(&calls::ForkReply { ticket, process: child.0, virtual_pid: Self::virtual_pid(child) }))
            }
            Op::ForkCancel => {
                self.cancel_fork(request::<calls::Ticket>(bytes)?.ticket);
                Ok(Vec::new())
            }
            Op::Exec => {
                let ticket = self.tickets.issue(Grant::Image(process)).map_err(|_| libc::EAGAIN)?;
                let number = self.processes[process].number;
                Ok(reply(&calls::ForkReply { ticket, process: number.0, virtual_pid: Self::virtual_pid(number) }))
            }
            Op::Alarm => {
                let alarm: calls::Alarm = request(bytes)?;
                if alarm.signal == 0 || alarm.signal > 63 {
                    return Err(libc::EINVAL);
                }
                let (at_ps, interval_ps) = self.set_alarm(process, alarm.signal, SimTime::from_picos(alarm.at_ps), alarm.interval_ps);
                Ok(reply(&calls::AlarmReply { at_ps, interval_ps }))
            }
            Op::FindProcess => self.find_process(&request(bytes)?),
            _ => Err(libc::ENOSYS),
        }
    }

    /// Checks that the process holds the object. Nobody may guess objects of other programs.
    pub(crate) fn held(&self, process: usize, object: u32) -> Result<u32, i32> {
        self.processes[process].objects.contains_key(&object).then_some(object).ok_or(libc::EBADF)
    }

    pub(crate) fn hold(&mut self, process: usize, object: u32) {
        *self.processes[process].objects.entry(object).or_insert(0) += 1;
    }

    fn object_call(&mut self, process: usize, op: Op, bytes: &[u8]) -> Answer {
        match op {
            Op::Resolve => self.resolve(&request(bytes)?),
            Op::ReverseResolve => {
                let address = request::<calls::AddressReply>(bytes)?.address;
                let host = self.sockets.host_of(address, self.processes[process].host).ok_or(libc::ENOENT)?;
                Ok(reply(&name_of(&self.world.spec().hosts[host].name)))
            }
            Op::ObjectClose => {
                let object = self.held(process, request::<calls::Object>(bytes)?.object)?;
                let count = self.processes[process].objects.get_mut(&object).ok_or(libc::EBADF)?;
                *count -= 1;
                if *count == 0 {
                    self.processes[process].objects.remove(&object);
                }
                self.release_object(object);
                Ok(Vec::new())
            }
            Op::ObjectRetain => {
                let object = self.held(process, request::<calls::Object>(bytes)?.object)?;
                self.objects.retain(object);
                self.hold(process, object);
                Ok(Vec::new())
            }
            Op::TimerNew | Op::TimerSet | Op::TimerRead => self.timer_call(process, op, bytes),
            _ => self.socket_call(process, op, bytes),
        }
    }

    fn resolve(&self, name: &calls::Name) -> Answer {
        let len = (name.len as usize).min(name.bytes.len());
        let wanted = std::str::from_utf8(&name.bytes[..len]).map_err(|_| libc::ENOENT)?;
        let host = self.world.spec().hosts.iter().position(|host| host.name == wanted).ok_or(libc::ENOENT)?;
        Ok(reply(&calls::AddressReply { address: sockets::host_address(host), reserved: 0 }))
    }

    fn timer_call(&mut self, process: usize, op: Op, bytes: &[u8]) -> Answer {
        if op == Op::TimerNew {
            let object = self.objects.add(Object::Timer { at: SimTime::ZERO, interval_picos: 0, expirations: 0, generation: 0 });
            self.hold(process, object);
            return Ok(reply(&calls::Object { object, reserved: 0 }));
        }
        let object = self.held(process, request::<calls::Object>(bytes)?.object)?;
        let Some(Object::Timer { at, interval_picos, expirations, generation }) = self.objects.get_mut(object) else { return Err(libc::EINVAL) };
        if op == Op::TimerRead {
            let count = std::mem::take(expirations);
            return if count == 0 { Err(libc::EAGAIN) } else { Ok(reply(&calls::Count { count })) };
        }
        let set: calls::TimerSet = request(bytes)?;
        let former = calls::TimerSet { object, reserved: 0, at_ps: at.as_picos(), interval_ps: *interval_picos };
        *generation += 1;
        *expirations = 0;
        (*at, *interval_picos) = (SimTime::from_picos(set.at_ps), set.interval_ps);
        let generation = *generation;
        if let Some(at) = program_time(set.at_ps).filter(|at| *at > SimTime::ZERO) {
            self.queue.push(at.max(self.now), process as u32, Event::TimerFires { object, generation });
        }
        Ok(reply(&former))
    }

    pub(crate) fn timer_fires(&mut self, object: u32, fired: u32) {
        let now = self.now;
        let Some(Object::Timer { at, interval_picos, expirations, generation }) = self.objects.get_mut(object) else { return };
        if *generation != fired {
            return;
        }
        *expirations += 1;
        let next = program_time(now.as_picos().saturating_add(*interval_picos)).filter(|_| *interval_picos > 0);
        if let Some(next) = next {
            *at = next;
            let at = *at;
            self.queue.push(at, u32::MAX, Event::TimerFires { object, generation: fired });
        } else {
            *at = SimTime::ZERO;
        }
        self.object_changed(object);
    }

    /// Returns the path over the management network. Within a host it takes a thread's wake-up.
    fn path(&self, from: usize, to: usize) -> Path {
        let part = &self.world.spec().hosts[from].part;
        let latency = if from == to { part.event_wakeup } else { part.ethernet_latency };
        Path { latency, bytes_per_second: part.ethernet_bytes_per_second }
    }

    fn path_of(&self, object: u32) -> Path {
        let Ok(socket) = self.sockets.get(object) else { return self.path(0, 0) };
        let peer = self.sockets.host_of(socket.peer_address.0, socket.host).unwrap_or(socket.host);
        self.path(socket.host, peer)
    }

    fn wake_at(&mut self, wakeups: Wakeups) {
        for (at, object) in wakeups {
            self.queue.push(at.max(self.now), u32::MAX, Event::ObjectChanged { object });
        }
    }

    fn socket_call(&mut self, process: usize, op: Op, bytes: &[u8]) -> Answer {
        if op == Op::SocketNew {
            if request::<calls::SocketNew>(bytes)?.datagram != 0 {
                return Err(libc::EOPNOTSUPP);
            }
            let object = self.objects.add(Object::Socket);
            self.sockets.open(object, self.processes[process].host);
            self.hold(process, object);
            return Ok(reply(&calls::Object { object, reserved: 0 }));
        }
        // Every other request begins with the object.
        let object = self.held(process, request::<u32>(bytes)?)?;
        match op {
            Op::SocketBind => {
                let mut address: calls::SocketAddress = request(bytes)?;
                let port = u16::try_from(address.port).map_err(|_| libc::EINVAL)?;
                address.port = u32::from(self.sockets.bind(object, address.address, port)?);
                Ok(reply(&address))
            }
            Op::SocketListen => {
                for seeker in self.sockets.listen(object)? {
                    self.complete_connection(seeker);
                }
                Ok(Vec::new())
            }
            Op::SocketAccept => self.accept(process, object),
            Op::SocketConnect => self.connect(object, &request(bytes)?),
            Op::SocketError => self.sockets.outcome(object, self.now).map(|()| Vec::new()),
            Op::SocketNames => self.names(object),
            _ => self.socket_data(object, op, bytes),
        }
    }

    fn socket_data(&mut self, object: u32, op: Op, bytes: &[u8]) -> Answer {
        let (path, now) = (self.path_of(object), self.now);
        let mut wakeups = Wakeups::new();
        let answer = match op {
            Op::SocketSend => {
                let head: calls::SocketData = request(bytes)?;
                let data = bytes.get(size_of::<calls::SocketData>()..).and_then(|rest| rest.get(..head.len as usize)).ok_or(libc::EPROTO)?;
                self.sockets.send(object, data, now, path, &mut wakeups).map(|len| reply(&calls::Count { count: len as u64 }))
            }
            Op::SocketReceive => {
                let head: calls::SocketReceive = request(bytes)?;
                let len = (head.len_max as usize).min(softband_ipc::layout::PAYLOAD_BYTES - size_of::<calls::Count>());
                self.sockets.receive(object, len, head.peek != 0, now, path, &mut wakeups).map(|data| {
                    let mut bytes = reply(&calls::Count { count: data.len() as u64 });
                    bytes.extend(data);
                    bytes
                })
            }
            Op::SocketShutdown => {
                let how = request::<calls::SocketShutdown>(bytes)?.how;
                self.sockets.shutdown(object, how, now, path, &mut wakeups).map(|()| Vec::new())
            }
            _ => Err(libc::ENOSYS),
        };
        self.wake_at(wakeups);
        answer
    }

    fn accept(&mut self, process: usize, object: u32) -> Answer {
        let (server, (address, port)) = self.sockets.accept(object, self.now)?;
        self.hold(process, server);
        Ok(reply(&calls::SocketAccepted { object: server, address, port: u32::from(port), reserved: 0 }))
    }

    fn connect(&mut self, object: u32, to: &calls::SocketAddress) -> Answer {
        let port = u16::try_from(to.port).map_err(|_| libc::EINVAL)?;
        let found = self.sockets.connect(object, to.address, port)?;
        if found {
            self.complete_connection(object);
            return Ok(Vec::new());
        }
        let host = self.sockets.get(object)?.host;
        let target = self.sockets.host_of(to.address, host).ok_or(libc::ENETUNREACH)?;
        let somebody = self.processes.any(|process| process.host == target && process.is_alive()) || self.now == SimTime::ZERO;
        if somebody {
            self.queue.push(self.now + SEEK_LIMIT, u32::MAX, Event::SeekOver { object });
        } else {
            self.refuse_seeker(object);
        }
        Ok(Vec::new())
    }

    fn complete_connection(&mut self, object: u32) {
        let server = self.objects.add(Object::Socket);
        let mut wakeups = Wakeups::new();
        let path = self.path_of(object);
        if self.sockets.complete(object, server, self.now, path, &mut wakeups).is_err() {
            self.objects.release(server);
        }
        self.wake_at(wakeups);
    }

    pub(crate) fn refuse_seeker(&mut self, object: u32) {
        let Ok(socket) = self.sockets.get(object) else { return };
        if socket.state != SocketState::Seeking {
            return;
        }
        let (address, port) = socket.peer_address;
        let (from, target) = (socket.host, self.sockets.host_of(address, socket.host));
        let spec = self.world.spec();
        let (from, target) = (spec.hosts[from].name.clone(), target.map_or_else(String::new, |host| spec.hosts[host].name.clone()));
        let there = self.processes.ever().iter().filter(|process| spec.hosts[process.host].name == target);
        let running: Vec<String> = there.map(|process| self.command_of(process.number.0 as usize)).collect::<BTreeSet<_>>().into_iter().collect();
        let whose = if running.is_empty() { "no program was started there".to_owned() } else { format!("programs there: {}", running.join(", ")) };
        self.warn(format!("{from}: connection to {target}:{port} refused: nothing listens there ({whose})"));
        self.sockets.refuse(object, libc::ECONNREFUSED);
        self.object_changed(object);
    }

    pub(crate) fn refuse_seekers_of(&mut self, host: usize) {
        for object in self.seekers(Some(host)) {
            self.refuse_seeker(object);
        }
    }

    /// Refuses all waiting connection attempts. Returns whether any existed.
    pub(crate) fn refuse_all_seekers(&mut self) -> bool {
        let seekers = self.seekers(None);
        for object in &seekers {
            self.refuse_seeker(*object);
        }
        !seekers.is_empty()
    }

    fn seekers(&self, target: Option<usize>) -> Vec<u32> {
        let seeking = self.sockets.sockets.iter().filter(|(_, socket)| socket.state == SocketState::Seeking);
        let wanted = seeking.filter(|(_, socket)| target.is_none() || self.sockets.host_of(socket.peer_address.0, socket.host) == target);
        wanted.map(|(object, _)| *object).collect()
    }

    fn names(&mut self, object: u32) -> Answer {
        let connected = self.sockets.outcome(object, self.now).is_ok();
        let socket = self.sockets.get(object)?;
        Ok(reply(&calls::SocketNames {
            local_address: socket.local.0,
            local_port: u32::from(socket.local.1),
            peer_address: socket.peer_address.0,
            peer_port: u32::from(socket.peer_address.1),
            connected: u32::from(connected && socket.state == SocketState::Connected),
            listening: u32::from(socket.state == SocketState::Listening),
        }))
    }

    /// Gives back one reference to an object.
    pub(crate) fn release_object(&mut self, object: u32) {
        if let Some(Object::Socket) = self.objects.release(object) {
            let path = self.path_of(object);
            let mut wakeups = Wakeups::new();
            self.sockets.close(object, self.now, path, &mut wakeups);
            self.wake_at(wakeups);
        }
    }
}

fn wait_request(bytes: &[u8]) -> Result<(calls::WaitRequest, Vec<calls::WaitEntry>), i32> {
    let head: calls::WaitRequest = request(bytes)?;
    let rest = &bytes[size_of::<calls::WaitRequest>()..];
    let count = head.count as usize;
    if count > rest.len() / size_of::<calls::WaitEntry>() {
        return Err(libc::EPROTO);
    }
    let entries = rest.chunks_exact(size_of::<calls::WaitEntry>()).take(count).map(bytemuck::pod_read_unaligned).collect();
    Ok((head, entries))
}

fn name_of(text: &str) -> calls::Name {
    let (len, mut bytes) = (text.len().min(256), [0; 256]);
    bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
    calls::Name { len: len as u32, bytes }
}
