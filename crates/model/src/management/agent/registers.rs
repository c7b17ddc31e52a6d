//! Registers of a node: values that a subnet manager writes and only management reads.

use super::performance::Resets;
use super::training::Trainable;
use super::{Agent, NodeFacts};
use crate::link::ArbitrationTables;
use crate::management::ManagementPacket;
use softband_sim::{SimDuration, SimTime};
use softband_types::{Gid, Lid, PortNumber, ServiceLevel};
use softband_wire::mad::{Layout, MKeyProtection, Method, Smp};

/// Code of a lifetime without an end (IBTA 14.2.5.6, HOQLife).
const LIFE_WITHOUT_END: u8 = 20;

/// State of a port while its link is up (IBTA 7.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkState {
    /// The link carries only packets of subnet management.
    Init,
    /// The link receives data, and sends none.
    Armed,
    /// The link carries data.
    Active,
}

/// Registers of a port (PortInfo, IBTA 14.2.5.6).
pub(super) struct PortRegisters {
    pub(super) state: LinkState,
    /// A manager has disabled the port: its link stays down.
    pub(super) is_disabled: bool,
    pub(super) trainable: Trainable,
    pub(super) m_key: u64,
    pub(super) m_key_protection: MKeyProtection,
    pub(super) m_key_lease_seconds: u16,
    pub(super) m_key_violations: u16,
    /// End of the protection, after a request with a wrong key.
    pub(super) m_key_lease_end: Option<SimTime>,
    pub(super) p_key_violations: u16,
    /// Whether the port of a switch checks the P_Keys of packets that come in, and that go out.
    pub(super) enforcement: (bool, bool),
    pub(super) q_key_violations: u16,
    pub(super) gid_prefix: u64,
    pub(super) master_sm_lid: Lid,
    pub(super) master_sm_sl: ServiceLevel,
    pub(super) subnet_timeout: u8,
    pub(super) head_of_queue_life: u8,
    pub(super) vl_stall_count: u8,
    pub(super) local_phy_errors: u8,
    pub(super) overrun_errors: u8,
    /// Tables as written; `None` if the lanes take turns.
    pub(super) weights: Option<ArbitrationTables>,
    pub(super) high_limit: u8,
    /// A subnet manager runs on the port's host.
    pub(super) has_manager: bool,
    pub(super) vl15_dropped: u32,
    pub(super) resets: Resets,
}

impl PortRegisters {
    pub(super) fn new(facts: &NodeFacts, port: u8, configured_by: Option<Lid>) -> Self {
        let index = usize::from(port).checked_sub(1);
        Self {
            state: if configured_by.is_some() { LinkState::Active } else { LinkState::Init },
            is_disabled: false,
            trainable: Trainable::supported(facts),
            m_key: 0,
            m_key_protection: MKeyProtection::READ_ALL,
            m_key_lease_seconds: 0,
            m_key_violations: 0,
            m_key_lease_end: None,
            p_key_violations: 0,
            enforcement: (false, false),
            q_key_violations: 0,
            gid_prefix: Gid::DEFAULT_PREFIX,
            master_sm_lid: configured_by.unwrap_or_default(),
            master_sm_sl: ServiceLevel(0),
            // OpenSM's default: 4.096 us * 2^18 is about a second.
            subnet_timeout: 18,
            head_of_queue_life: index.and_then(|index| facts.head_lifetimes.get(index)).copied().unwrap_or(LIFE_WITHOUT_END),
            vl_stall_count: 7,
            local_phy_errors: 8,
            overrun_errors: 8,
            weights: index.and_then(|index| facts.weights.get(index)).cloned().flatten(),
            high_limit: 0,
            has_manager: false,
            vl15_dropped: 0,
            resets: Resets::default(),
        }
    }
}

/// Registers of a switch (SwitchInfo, IBTA 14.2.5.4).
pub(super) struct SwitchRegisters {
    pub(super) linear_fdb_top: Lid,
    pub(super) life_time_value: u8,
    pub(super) port_state_change: bool,
}

impl SwitchRegisters {
    pub(super) fn new(facts: &NodeFacts) -> Self {
        Self { linear_fdb_top: Lid::NONE, life_time_value: facts.packet_lifetime, port_state_change: false }
    }
}

impl Agent {
    /// Returns the number of the port whose registers hold the M_Key: a switch has a single M_Key.
    pub(super) fn key_port(&self, port: PortNumber) -> usize {
        if self.facts.is_switch() { 0 } else { usize::from(port.0) }
    }

    /// Checks the M_Key of a request (IBTA 14.2.4). A request with a wrong key gets no response. It
    /// starts the lease period, after which the key protects no longer. A right key stops it.
    pub(super) fn check_m_key(&mut self, packet: &ManagementPacket, port: PortNumber, now: SimTime) -> bool {
        let smp = Smp::view(&packet.mad[..]);
        let index = self.key_port(port);
        let Some(own) = self.ports.get_mut(index) else { return false };
        if own.m_key_lease_end.is_some_and(|end| end <= now) {
            (own.m_key_lease_end, own.m_key_protection) = (None, MKeyProtection::READ_ALL);
        }
        if own.m_key == 0 || own.m_key == smp.m_key() {
            own.m_key_lease_end = None;
            return true;
        }
        let permits_reads = matches!(own.m_key_protection, MKeyProtection::READ_ALL | MKeyProtection::HIDE_KEY);
        if smp.header().method == Method::GET && permits_reads {
            return true;
        }
        own.m_key_violations = own.m_key_violations.saturating_add(1);
        if own.m_key_lease_seconds > 0 {
            let lease = SimDuration::from_micros(u64::from(own.m_key_lease_seconds) * 1_000_000);
            own.m_key_lease_end = own.m_key_lease_end.or(Some(now + lease));
        }
        self.note_m_key_violation(index as u8, packet, now);
        false
    }
}
