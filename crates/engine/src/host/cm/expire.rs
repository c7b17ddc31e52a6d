//! Deadlines: messages without an answer, and ends of waits.

use super::CmTable;
use super::events::{Kind, Parameters};
use super::identifier::Stage;
use super::link::State;
use softband_sim::SimTime;

impl CmTable {
    /// Handles the deadlines up to `now`.
    pub(crate) fn expire(&mut self, now: SimTime) {
        self.scheduled = self.scheduled.filter(|at| *at > now);
        self.refuse_late(now);
        self.groups_expire(now);
        while let Some((_, number)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.set_deadline(number, None);
            self.expire_one(number, now);
        }
    }

    fn expire_one(&mut self, number: u32, now: SimTime) {
        let Some(id) = self.ids.get_mut(&number) else { return };
        if id.advance(Stage::AddressQuery, Stage::Bound).is_ok() {
            return self.post(number, Kind::AddressError, -libc::ETIMEDOUT, Parameters::default(), now);
        }
        let Some(link) = id.link.as_mut() else { return };
        if let Some(pending) = link.pending.as_mut().filter(|pending| pending.retries_left > 0) {
            pending.retries_left -= 1;
            self.outgoing.push((pending.port, pending.packet.clone()));
            let at = now + pending.timeout;
            return self.set_deadline(number, Some(at));
        }
        link.pending = None;
        match link.state {
            State::ReqSent | State::RepSent | State::SidrReqSent => {
                link.state = State::Idle;
                self.post_while(Stage::Connect, number, (Kind::Unreachable, -libc::ETIMEDOUT), Parameters::default(), now);
            }
            State::DreqSent => {
                self.enter_time_wait(number, now);
                self.disconnected(number, -libc::ETIMEDOUT, now);
            }
            State::TimeWait => {
                link.state = State::Idle;
                self.post_while(Stage::Disconnect, number, (Kind::TimewaitExit, 0), Parameters::default(), now);
            }
            _ => {}
        }
    }
}
