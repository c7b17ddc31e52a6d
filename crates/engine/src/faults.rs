//! Faults on the program side: dead hosts, port states that programs see, and traffic that no
//! longer bypasses the engine.

use crate::engine::{Engine, Pace};
use softband_model::verbs::api::QpSnapshot;
use softband_spec::faults::{FaultKind, FaultSpec};
use softband_types::{HcaId, PortNumber, QpType};

impl Engine {
    /// Ends the programs of a host that has died. They get no warning.
    pub(crate) fn host_died(&mut self, host: usize) {
        self.warn(format!("host {} died at {:.6} s", self.world.spec().hosts[host].name, self.now.as_secs_f64()));
        let is_there = |engine: &Self, process: usize| engine.processes[process].host == host && engine.processes[process].is_alive();
        let all: Vec<usize> = (0..).map_while(|nth| self.processes.nth_living(nth)).filter(|process| is_there(self, *process)).collect();
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
    pub(crate) fn port_changed(&mut self, hca: HcaId, number: PortNumber) {
        if let Some(files) = &self.files
            && let Err(error) = files.note_port(&self.world, hca, number)
        {
            self.warn(format!("the files that programs see of their ports are out of date: {error}"));
        }
        self.publish_all();
    }

    /// Rewrites the table entries of all queue pairs: the right of programs to move data may have
    /// changed.
    pub(crate) fn publish_all(&mut self) {
        if self.pace != Pace::Wall {
            return;
        }
        let all: Vec<_> = self.world.queue_pairs().map(|(_, hca, qp)| (hca, qp.qpn)).collect();
        for (hca, qpn) in all {
            self.publish_queue_pair(hca, qpn);
        }
    }

    /// Returns whether packets of a queue pair may meet a fault. The World then carries them.
    pub(crate) fn may_meet_faults(&self, hca: HcaId, qp: &QpSnapshot) -> bool {
        match qp.init.qp_type {
            QpType::Ud => self.world.is_any_way_affected(hca, qp.port, self.now),
            _ => self.world.is_way_affected((hca, qp.port), qp.address_vector.dlid, self.now),
        }
    }

    /// Adds a fault, given as words, that acts from now on. Fails with the reason.
    pub(crate) fn add_fault(&mut self, words: &[&str]) -> Result<(), String> {
        let kind = FaultKind::of_words(self.world.spec(), words).map_err(|unknown| match unknown.known.is_empty() {
            true => unknown.message,
            false => format!("{}; the {} are {}", unknown.message, unknown.what, unknown.known.join(", ")),
        })?;
        if let FaultKind::LinkUp { cable } = kind
            && self.world.has_dead_end(cable)
        {
            return Err("the link cannot come up: a host or switch at its end has died".into());
        }
        self.set_wall_clock();
        let at = self.now.max(self.world.now());
        self.world.add_faults(&[FaultSpec { at, kind }]);
        // Programs must see the fault before they send anything else past the engine.
        self.publish_all();
        Ok(())
    }
}
