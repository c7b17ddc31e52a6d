//! Steps of programs besides posts: destruction, errors, and new connections.

use super::Driver;
use crate::oracle::{Rule, Violation};
use crate::plan::{End, Step};
use crate::sabotage::Sabotage;
use softband_model::verbs::api::{QpModification, VerbsError};
use softband_types::QpState;

impl Driver<'_> {
    pub(super) fn take_step(&mut self, step: &Step) -> Result<(), Violation> {
        let taken = match step {
            Step::Post { end, message } => {
                if self.oracle.ends[end].exists {
                    self.post(*end, *message);
                }
                Ok(())
            }
            Step::Deregister { process, region } => self.deregister(*process, *region + 1),
            Step::Reconnect { connection } => self.reconnect(*connection),
            Step::Drain { end } => self.drain(*end),
            Step::Resume { end } => self.resume(*end),
            Step::Break { end } => self.modify(*end, QpState::Error),
            Step::Destroy { end } => self.destroy(*end),
            Step::Kill { process } => {
                self.kill(*process);
                Ok(())
            }
        };
        taken.map_err(|error| Violation::new(Rule::Outcome, format!("{step:?} was refused: {error}")))
    }

    fn deregister(&mut self, process: usize, region: usize) -> Result<(), VerbsError> {
        if !self.memory.is_registered(process, region) {
            return Ok(());
        }
        if self.memory.saboteur.plan() != Some(Sabotage::KeepRegion) {
            match self.world.deregister_mr(self.objects[process].id, self.objects[process].regions[region].0) {
                // A window is bound to the region, which stays.
                Err(VerbsError::Busy) => return Ok(()),
                result => result?,
            }
        }
        self.memory.deregister(process, region);
        self.oracle.processes[process].has_deregistered = true;
        Ok(())
    }

    fn modify(&mut self, end: End, state: QpState) -> Result<(), VerbsError> {
        let record = &self.oracle.ends[&end];
        if !record.exists {
            return Ok(());
        }
        let (now, id) = (self.world.now(), self.objects[record.process].id);
        let modification = QpModification { state: Some(state), ..QpModification::default() };
        self.world.modify_qp(now, id, record.hca, record.qpn, &modification).map(|_| ())
    }

    fn state(&self, end: End) -> Option<QpState> {
        let record = &self.oracle.ends[&end];
        self.world.find_qp(record.hca, record.qpn).filter(|_| record.exists).map(|(_, snapshot)| snapshot.state)
    }

    fn drain(&mut self, end: End) -> Result<(), VerbsError> {
        if self.state(end) == Some(QpState::Rts) { self.modify(end, QpState::Sqd) } else { Ok(()) }
    }

    pub(super) fn resume(&mut self, end: End) -> Result<(), VerbsError> {
        if matches!(self.state(end), Some(QpState::Sqd | QpState::Sqe)) {
            self.modify(end, QpState::Rts)?;
            self.oracle.restart(end);
            self.post_backlog(end);
        }
        Ok(())
    }

    fn reconnect(&mut self, connection: usize) -> Result<(), VerbsError> {
        let ends = [0, 1].map(|side| End { connection, side });
        if !ends.iter().all(|end| self.oracle.ends[end].exists) {
            return Ok(());
        }
        for end in ends {
            self.modify(end, QpState::Reset)?;
            self.oracle.begin(end, &mut self.memory);
            self.backlog.get_mut(&end).expect("every end has one").clear();
        }
        for end in ends {
            self.bring_up(end)?;
            self.fill_receives(end);
        }
        Ok(())
    }

    fn destroy(&mut self, end: End) -> Result<(), VerbsError> {
        let record = &self.oracle.ends[&end];
        if !record.exists {
            return Ok(());
        }
        let (now, id, hca, qpn) = (self.world.now(), self.objects[record.process].id, record.hca, record.qpn);
        self.world.destroy_qp(now, id, hca, qpn)?;
        self.oracle.remove(end, &mut self.memory);
        Ok(())
    }

    /// Ends a process as the engine does: its memory and all its objects go at once.
    pub(super) fn kill(&mut self, process: usize) {
        if self.memory.is_alive(process) {
            self.world.remove_process(self.world.now(), self.objects[process].id);
            self.memory.kill(process);
            self.oracle.kill(process, &mut self.memory);
        }
    }
}
