//! An engine without programs, as a target for messages of fuzzing and property tests.

use crate::engine::Engine;
use crate::host::ports::management_ports;
use crate::options::Pace;
use crate::scheduler::agenda::Event;
use softband_ipc::layout::{PAYLOAD_BYTES, POSTED_BYTES};
use softband_model::management::{MAD_BYTES, ManagementPacket};
use softband_spec::FabricSpec;
use softband_types::{HcaId, Lid, PKey, PortNumber, ProcessId, QKey, Qpn, ServiceLevel};
use std::sync::atomic::Ordering;

/// An attached process on host 0 that sends the caller's messages, valid or not.
pub struct Harness(Engine);

impl Harness {
    /// Creates the engine and the process.
    ///
    /// # Panics
    /// Panics if the machine has no memory for it.
    pub fn new(spec: &FabricSpec) -> Self {
        let mut engine = Engine::for_harness(spec, "", Pace::Virtual).expect("an engine");
        engine.expect_process(0, 0, None).expect("memory for a process");
        engine.processes[0].attach(0, None, 0);
        engine.memory.set_pid(ProcessId(0), Some(std::process::id() as i32));
        Self(engine)
    }

    /// Posts `posted` and makes call number `op` with `request`, in the name of the process.
    /// Returns the status of the answer.
    pub fn call(&mut self, op: u32, request: &[u8], posted: &[u8]) -> i32 {
        let slot = self.0.processes[0].shared().slot(0);
        let (len, posted_len) = (request.len().min(PAYLOAD_BYTES), posted.len().min(POSTED_BYTES));
        // SAFETY: nobody else uses the slot here, and both lengths are cut to its size.
        unsafe {
            std::ptr::copy_nonoverlapping(request.as_ptr(), slot.payload.as_ptr().cast_mut(), len);
            std::ptr::copy_nonoverlapping(posted.as_ptr(), slot.posted.as_ptr().cast_mut(), posted_len);
        }
        // A lying program may claim any length.
        slot.payload_len.store(request.len() as u32, Ordering::Relaxed);
        slot.posted_len.store(posted.len() as u32, Ordering::Relaxed);
        slot.op.store(op, Ordering::Relaxed);
        self.0.take_posts(0, 0);
        if self.0.processes[0].is_attached() {
            self.0.execute(0, 0);
        }
        self.0.processes[0].shared().slot(0).status.load(Ordering::Relaxed)
    }

    /// Lets a MAD arrive at the first port of the process's host, for its files. `mad` is its beginning.
    pub fn arrive(&mut self, mad: &[u8]) {
        if let Some((port, packet)) = self.packet(mad) {
            self.0.verbs().mad_arrived(port, &packet);
        }
    }

    /// Lets a MAD arrive at the same port, for the connection manager.
    pub fn arrive_at_manager(&mut self, mad: &[u8]) {
        if let Some((port, packet)) = self.packet(mad) {
            self.0.verbs().cm_arrived(port, &packet);
        }
    }

    fn packet(&self, mad: &[u8]) -> Option<((HcaId, PortNumber), ManagementPacket)> {
        let mut whole = Box::new([0; MAD_BYTES]);
        let len = mad.len().min(MAD_BYTES);
        whole[..len].copy_from_slice(&mad[..len]);
        let port = management_ports(&self.0.world, 0).first().copied()?;
        let packet = ManagementPacket {
            slid: Lid(2),
            dlid: Lid(1),
            service_level: ServiceLevel(0),
            source: Qpn(1),
            destination: Qpn(1),
            qkey: QKey(0x8001_0000),
            pkey: PKey::DEFAULT_FULL,
            mad: whole,
        };
        Some((port, packet))
    }

    /// Returns the reply to the last call.
    pub fn reply(&self) -> Vec<u8> {
        self.0.processes[0].shared().request(0)
    }

    /// Handles at most `events` events. The program never gets the token.
    pub fn step(&mut self, events: usize) {
        let mut notices = Vec::new();
        for _ in 0..events {
            match (self.0.world.next_event_time(), self.0.scheduler.next_time()) {
                (Some(fabric), own) if own.is_none_or(|own| fabric <= own) => self.0.step_fabric(&mut notices),
                (_, Some(_)) => {
                    let (time, event) = self.0.scheduler.pop().expect("there is one");
                    self.0.scheduler.set_now(time);
                    if !matches!(event, Event::Resume { .. } | Event::StartProgram { .. }) {
                        self.0.handle(event);
                    }
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::objects::Object;
    use crate::process::thread::ThreadState;
    use crate::protocol::{Caller, Outcome};
    use softband_catalog::{Catalog, LoadOptions, load_fabric};
    use softband_ipc::calls::readiness::{ERROR, EXCLUSIVE, READABLE};
    use softband_ipc::calls::{SharedMapping, TimerNew, WaitEntry, WaitRequest, WithTail};
    use softband_sim::SimTime;
    use std::path::Path;

    const DAY_PS: u64 = 86_400 * 1_000_000_000_000;
    const NOW: SimTime = SimTime::from_picos(1_000_000);
    const NEXT_EVENT: SimTime = SimTime::from_picos(2_000_000);

    fn spec() -> FabricSpec {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let catalog = Catalog::load(&root.join("catalog")).expect("the catalogue");
        load_fabric(&root.join("fabrics/modern-pair.toml"), &catalog, &LoadOptions::default()).expect("a fabric").spec
    }

    /// Returns an engine with a process 0 on host 0, and a process 1 on `host`.
    fn two_processes(spec: &FabricSpec, host: usize) -> Engine {
        let Harness(mut engine) = Harness::new(spec);
        engine.expect_process(host, 0, None).expect("memory for a process");
        engine.processes[1].attach(0, None, 0);
        engine
    }

    fn caller(process: usize) -> Caller {
        Caller { process, slot: 0, owner: ProcessId(process as u32) }
    }

    /// Waits without a deadline. Returns the reply, or `None` if the thread has to wait.
    fn wait(engine: &mut Engine, process: usize, object: u32) -> Option<Vec<WaitEntry>> {
        let entry = WaitEntry { object, interest: READABLE | EXCLUSIVE, ready: 0, seen: 0 };
        let head = WaitRequest { deadline_ps: u64::MAX, count: 1, reason: 0 };
        match engine.host_calls().wait(caller(process), &WithTail { head, tail: vec![entry] }) {
            Outcome::Reply(reply) | Outcome::Paid(Ok(reply), _) => Some(reply.tail),
            Outcome::Fail(errno) | Outcome::Paid(Err(errno), _) => panic!("error {errno}"),
            Outcome::Later => None,
        }
    }

    fn waits(engine: &Engine, process: usize) -> bool {
        matches!(engine.processes[process].thread(0).state(), ThreadState::Waiting(_))
    }

    #[test]
    fn a_process_waits_only_for_objects_that_it_holds() {
        let mut engine = two_processes(&spec(), 1);
        let timer = engine.host_calls().timer_new(caller(1), &TimerNew { reserved: 0 }).expect("a timer").object;
        let refused = wait(&mut engine, 0, timer).expect("an answer at once");
        assert_eq!((refused[0].ready, refused[0].seen), (ERROR, 0));
        assert!(!waits(&engine, 0));

        assert_eq!(wait(&mut engine, 1, timer), None);
        let (_, child) = engine.fork(1).expect("a child");
        assert_eq!(wait(&mut engine, child.0 as usize, timer), None, "a child shares the objects of its parent");
    }

    #[test]
    fn a_wait_for_an_object_of_others_takes_no_wake_up() {
        let mut engine = two_processes(&spec(), 1);
        let timer = engine.host_calls().timer_new(caller(1), &TimerNew { reserved: 0 }).expect("a timer").object;
        assert!(wait(&mut engine, 0, timer).is_some());
        assert_eq!(wait(&mut engine, 1, timer), None);
        let Some(Object::Timer { expirations, .. }) = engine.host.object_mut(timer) else { panic!("no timer") };
        *expirations = 1;
        engine.scheduler.object_changed(&mut engine.processes, &mut engine.host, (timer, READABLE));
        assert!(!waits(&engine, 1), "the holder goes on");
        let refused = wait(&mut engine, 0, timer).expect("an answer at once");
        assert_eq!((refused[0].ready, refused[0].seen), (ERROR, 0), "the answer tells nothing of the object");
    }

    #[test]
    fn a_false_clock_of_a_process_puts_no_sharer_off() {
        let spec = spec();
        let mut engine = two_processes(&spec, 0);
        let mapping = SharedMapping { range: 0, kind: 0, space: 1, number: 2, start: 0, end: 4096, writable: 1 };
        for process in 0..2 {
            engine.host_calls().map_shared(caller(process), &mapping).expect("a number of a range");
        }
        engine.scheduler.set_now(NOW);
        engine.processes[0].begin_turn(0, NOW, NEXT_EVENT);
        let shared = engine.processes[0].shared();
        shared.slot(0).clock_ps.store(DAY_PS, Ordering::Relaxed);
        shared.header().written_at_ps.store(DAY_PS, Ordering::Relaxed);
        shared.header().written_ranges[0].store(1, Ordering::Relaxed);

        assert!(engine.host_calls().pass_on_writes(0));
        let visible = engine.processes[1].puts_off(0, NOW).expect("the line has to come");
        assert_eq!(visible, NEXT_EVENT + spec.hosts[0].part.cache_line_transfer);
    }
}
