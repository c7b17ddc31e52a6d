//! Reaction of a source to BECN: the injection rate control of a channel adapter (IBTA annex A10,
//! CACongestionSetting).
//!
//! Each flow has an index into the congestion control table (CCTI). A BECN raises it, and a timer
//! lowers it by one at a time. The table gives the wait of a flow after a packet: the packet's own
//! time on the link >> CCT_Shift x CCT_Multiplier.

use crate::packet::{Carried, Packet, PacketKind};
use softband_sim::{SimDuration, SimTime};
use softband_types::{Lid, Psn};

/// Entry of the congestion control table: the pause after a packet, as a multiple of the packet's
/// own time on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CctEntry {
    /// CCT_Shift, from 0 to [`CctEntry::SHIFT_MAX`]: the time is divided by 2^shift.
    pub shift: u8,
    /// CCT_Multiplier, from 0 to [`CctEntry::MULTIPLIER_MAX`]. 0 means no pause.
    pub multiplier: u16,
}

impl CctEntry {
    /// Largest CCT_Shift: 2 bits.
    pub const SHIFT_MAX: u8 = 3;
    /// Largest CCT_Multiplier: 14 bits.
    pub const MULTIPLIER_MAX: u16 = (1 << 14) - 1;

    /// Returns the pause after a packet that took `time` on the link.
    pub fn delay(self, time: SimDuration) -> SimDuration {
        SimDuration::from_picos((time.as_picos() >> self.shift) * u64::from(self.multiplier))
    }
}

/// Unit that is slowed down as one flow (Port_Control).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Each queue pair by itself.
    QueuePair,
    /// All queue pairs of a port on a service level.
    ServiceLevel,
}

/// CACongestionSetting, the same for all service levels, and the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectionSettings {
    /// Unit that has an index of its own.
    pub flow: Flow,
    /// Rise of the index with each BECN.
    pub ccti_increase: u8,
    /// Largest index: the last entry of the table in use.
    pub ccti_limit: u16,
    /// Least index.
    pub ccti_min: u8,
    /// Period after which indices fall by one, in steps of 1.024 us. With 0 they never fall.
    pub ccti_timer: u16,
    /// Congestion control table: entries 0 to `ccti_limit` at least.
    pub cct: Vec<CctEntry>,
}

impl InjectionSettings {
    /// Step of `ccti_timer`.
    pub const TIMER_STEP: SimDuration = SimDuration::from_nanos(1_024);

    /// Returns how often the timer has fired by `at`. It runs in circles, for all flows alike.
    fn expiries(&self, at: SimTime) -> u64 {
        let period = Self::TIMER_STEP * u64::from(self.ccti_timer);
        at.as_picos().checked_div(period.as_picos()).unwrap_or(0)
    }
}

/// Index of a flow, and the time when its next packet may go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Throttle {
    ccti: u16,
    /// Number of times that the timer had fired at the last look at the index.
    expiries: u64,
    not_before: SimTime,
}

impl Throttle {
    /// Raises the index: the receiver reported congestion.
    pub fn on_becn(&mut self, settings: &InjectionSettings, now: SimTime) {
        let ccti = self.ccti(settings, now).saturating_add(u16::from(settings.ccti_increase));
        self.ccti = ccti.min(settings.ccti_limit);
    }

    /// Returns the index as of `now`.
    pub(crate) fn ccti(&mut self, settings: &InjectionSettings, now: SimTime) -> u16 {
        let expiries = settings.expiries(now);
        let fallen = u16::try_from(expiries - self.expiries).unwrap_or(u16::MAX);
        let floor = u16::from(settings.ccti_min);
        self.expiries = expiries;
        self.ccti = self.ccti.saturating_sub(fallen).max(floor);
        self.ccti
    }

    /// Notes a packet on its way that takes `time` on the link.
    pub fn on_injected(&mut self, settings: &InjectionSettings, time: SimDuration, now: SimTime) {
        let delay = settings.cct[usize::from(self.ccti(settings, now))].delay(time);
        self.not_before = if delay == SimDuration::ZERO { now } else { now + time + delay };
    }

    /// Returns the time when the flow's next packet may go.
    pub fn not_before(&self) -> SimTime {
        self.not_before
    }
}

/// Returns the packet by which the receiver of a marked packet informs its source, if no
/// acknowledgement does.
pub fn congestion_notification(marked: &Packet, slid: Lid) -> Packet {
    Packet {
        slid,
        dlid: marked.slid,
        service_level: marked.service_level,
        pkey: marked.pkey,
        source: marked.destination,
        destination: marked.source,
        psn: Psn::new(0),
        ack_request: false,
        solicited: false,
        fecn: false,
        becn: true,
        grh: None,
        carried: Carried::Nothing,
        service: marked.service,
        kind: PacketKind::CongestionNotification,
        payload: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> InjectionSettings {
        let cct = (0..=4).map(|multiplier| CctEntry { shift: 1, multiplier }).collect();
        InjectionSettings { flow: Flow::QueuePair, ccti_increase: 2, ccti_limit: 3, ccti_min: 0, ccti_timer: 10, cct }
    }

    fn micros(micros: u64) -> SimTime {
        SimTime::from_picos(micros * 1_000_000)
    }

    #[test]
    fn becns_raise_the_index_to_its_limit_and_the_timer_lowers_it() {
        let (settings, mut flow) = (settings(), Throttle::default());
        flow.on_becn(&settings, micros(1));
        assert_eq!(flow.ccti(&settings, micros(2)), 2);
        flow.on_becn(&settings, micros(3));
        assert_eq!(flow.ccti(&settings, micros(4)), 3);
        assert_eq!(flow.ccti(&settings, micros(11)), 2);
        assert_eq!(flow.ccti(&settings, micros(31)), 0);
    }

    #[test]
    fn the_pause_is_a_multiple_of_the_packets_own_time() {
        let (settings, mut flow) = (settings(), Throttle::default());
        let time = SimDuration::from_micros(2);
        flow.on_injected(&settings, time, micros(1));
        assert_eq!(flow.not_before(), micros(1), "a flow that nobody complained of goes on at once");
        flow.on_becn(&settings, micros(1));
        flow.on_injected(&settings, time, micros(2));
        // Entry 2: half of the packet's time, twice.
        assert_eq!(flow.not_before(), micros(2 + 2 + 2));
    }

    #[test]
    fn without_a_timer_the_index_stays_and_its_least_holds_at_once() {
        let settings = InjectionSettings { ccti_timer: 0, ccti_min: 1, ..settings() };
        let mut flow = Throttle::default();
        assert_eq!(flow.ccti(&settings, micros(1)), 1);
        flow.on_becn(&settings, micros(1));
        assert_eq!(flow.ccti(&settings, micros(1_000_000)), 3);
    }
}
