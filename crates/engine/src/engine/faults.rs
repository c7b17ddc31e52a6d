//! Faults on the program side: dead hosts, port states that programs see, and traffic that no
//! longer bypasses the engine.

use crate::engine::Engine;
use softband_spec::faults::{FaultKind, FaultSpec};
use softband_types::{HcaId, PortNumber};

impl Engine {
    /// Ends the programs of a host that has died. They get no warning.
    pub(super) fn host_died(&mut self, host: usize) {
        self.warn(format!("host {} died at {:.6} s", self.world.spec().hosts[host].name, self.scheduler.now().as_secs_f64()));
        let is_there = |engine: &Self, process: usize| engine.processes[process].host() == host && engine.processes[process].is_alive();
        let all: Vec<usize> = (0..).map_while(|nth| self.processes.nth_living(nth)).filter(|process| is_there(self, *process)).collect();
        self.host_calls().kernel_died(host);
        for process in &all {
            self.processes[*process].send_signal(libc::SIGKILL);
        }
        for process in all {
            // The end of one process may have ended another one.
            if is_there(self, process) {
                self.process_exits(process);
            }
        }
    }

    /// Reacts to a link that went down or came up. Updates the host's files and the table entries
    /// of all queue pairs.
    pub(super) fn port_changed(&mut self, hca: HcaId, number: PortNumber) {
        if let Err(error) = self.host.note_port(&self.world, hca, number) {
            self.warn(format!("the files that programs see of their ports are out of date: {error}"));
        }
        self.publish_all();
    }

    /// Rewrites the table entries of all queue pairs: the right of programs to move data may have
    /// changed.
    pub(super) fn publish_all(&mut self) {
        if !self.scheduler.is_wall() {
            return;
        }
        let all: Vec<_> = self.world.queue_pairs().map(|(_, hca, qp)| (hca, qp.qpn)).collect();
        for (hca, qpn) in all {
            self.plane().publish_queue_pair(hca, qpn);
        }
    }

    /// Adds a fault, given as words, that acts from now on. Fails with the reason.
    pub(super) fn add_fault(&mut self, words: &[&str]) -> Result<(), String> {
        let kind = FaultKind::of_words(self.world.spec(), words).map_err(|unknown| match unknown.known.is_empty() {
            true => unknown.message,
            false => format!("{}; the {} are {}", unknown.message, unknown.what, unknown.known.join(", ")),
        })?;
        if let FaultKind::LinkUp { cable } = kind
            && self.world.has_dead_end(cable)
        {
            return Err("the link cannot come up: a host or switch at its end has died".into());
        }
        self.scheduler.set_wall_clock(self.world.now());
        let at = self.scheduler.now().max(self.world.now());
        self.world.add_faults(&[FaultSpec { at, kind }]);
        // Programs must see the fault before they send anything else past the engine.
        self.publish_all();
        Ok(())
    }
}
