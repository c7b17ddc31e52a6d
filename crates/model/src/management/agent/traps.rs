//! Traps: an agent reports a change to the subnet manager (IBTA 13.4.8.2, 14.2.5.1).
//!
//! It repeats a trap until the manager answers it (IBTA 13.4.9), no more often than SubnetTimeOut of
//! the port states (IBTA 14.2.5.6). A new event has a new trap at once, except for wrong keys: anybody
//! can cause them, so their traps keep the distance.

use super::{Agent, Hardware};
use crate::management::ManagementPacket;
use softband_sim::{SimDuration, SimTime};
use softband_types::{Lid, PKey, PortNumber, QKey, Qpn, ServiceLevel};
use softband_wire::mad::{
    AttributeId, DirectedSmp, Header, KeyViolationDetails, Layout, LinkStateDetails, LocalChangesDetails, MAD_BYTES, MKeyViolationDetails,
    ManagementClass, Method, NodeType, Notice, NoticeType, SMP_DATA_OFFSET, SwitchPKeyViolationDetails, TrapNumber,
};

/// Times that an agent sends a trap without an answer. The specification states no end, and no
/// maker publishes a number: assumed.
const SENDS_MAX: u8 = 30;
/// Unit of SubnetTimeOut: code n is 4.096 us x 2^n.
const TIMEOUT_UNIT_PICOS: u64 = 4_096_000;
/// Flags of trap 259 for the LIDs, the P_Key, the SL and the QPs, without those for the GIDs. OpenSM's
/// `ib_types.h` and Wireshark have the word, but no names of its bits. `stl_sm_types.h` of Omni-Path's
/// tools has them, for the same fields without `switch_lid` and `port`: from the highest bit on, in
/// the order LID 1, LID 2, P_Key, SL, QP 1, QP 2, GID 1, GID 2, and eight reserved bits. InfiniBand
/// is assumed to have the same.
const WITHOUT_GIDS: u16 = 0xFC00;
/// Ports of a return path that trap 256 has room for.
const RETURN_PATH: usize = 30;

/// The traps of a node.
#[derive(Default)]
pub(super) struct Traps {
    waiting: Vec<Waiting>,
    /// Number of traps so far: each has it as its transaction.
    count: u64,
}

/// A trap until its answer, and then until the agent may send the next of this kind.
struct Waiting {
    /// Port of the registers that name the manager.
    port: u8,
    notice: Notice,
    transaction: u64,
    due: SimTime,
    sends_left: u8,
    is_answered: bool,
    /// The same happened again after the agent had sent the trap.
    is_outdated: bool,
}

/// A packet with a wrong key that reached a queue pair (IBTA 9.6.1).
#[derive(Clone, Copy, Debug)]
pub struct KeyViolation {
    /// Key of the packet.
    pub key: ViolatedKey,
    /// Source LID.
    pub slid: Lid,
    /// Destination LID.
    pub dlid: Lid,
    /// Service level.
    pub service_level: ServiceLevel,
    /// QP of the source.
    pub source: Qpn,
    /// QP of the destination.
    pub destination: Qpn,
}

/// A wrong key.
#[derive(Clone, Copy, Debug)]
pub enum ViolatedKey {
    /// Key of a partition that the queue pair is no member of.
    Partition(PKey),
    /// Q_Key of a datagram.
    Queue(QKey),
}

impl Agent {
    /// Checks whether a manager configures the node's ports by packets, also after each change of a
    /// link.
    pub fn waits_for_manager(&self) -> bool {
        !self.is_configured
    }

    /// Starts a port again whose link went down or came up. A switch has a trap then.
    pub fn restart_port(&mut self, port: PortNumber, now: SimTime) {
        let Some(registers) = self.ports.get_mut(usize::from(port.0)) else { return };
        registers.state = super::LinkState::Init;
        self.switch.port_state_change = true;
        if self.facts.is_switch() {
            self.note_trap(0, (TrapNumber::LINK_STATE_CHANGED, NoticeType::URGENT), LinkStateDetails::default().to_bytes(), now);
        }
    }

    /// Counts a packet with a wrong key that has reached a port.
    pub fn count_key_violation(&mut self, port: PortNumber, key: ViolatedKey) {
        let Some(registers) = self.ports.get_mut(usize::from(port.0)) else { return };
        let count = match key {
            ViolatedKey::Partition(_) => &mut registers.p_key_violations,
            ViolatedKey::Queue(_) => &mut registers.q_key_violations,
        };
        *count = count.saturating_add(1);
    }

    /// Notes a trap about a packet with a wrong key that has reached a port.
    pub fn note_key_violation(&mut self, port: PortNumber, violation: &KeyViolation, now: SimTime) {
        if usize::from(port.0) >= self.ports.len() {
            return;
        }
        let (trap, key) = match violation.key {
            ViolatedKey::Partition(key) => (TrapNumber::BAD_P_KEY, u32::from(key.0)),
            ViolatedKey::Queue(key) => (TrapNumber::BAD_Q_KEY, key.0),
        };
        let KeyViolation { slid: lid1, dlid: lid2, service_level: sl, source: qp1, destination: qp2, .. } = *violation;
        if self.facts.is_switch() {
            let p_key = PKey(key as u16);
            let details = SwitchPKeyViolationDetails { data_valid: WITHOUT_GIDS, lid1, lid2, p_key, sl, qp1, qp2, port, ..Default::default() };
            return self.note_trap(0, (TrapNumber::SWITCH_BAD_P_KEY, NoticeType::SECURITY), details.to_bytes(), now);
        }
        let details = KeyViolationDetails { lid1, lid2, key, sl, qp1, qp2, ..KeyViolationDetails::default() };
        self.note_trap(port.0, (trap, NoticeType::SECURITY), details.to_bytes(), now);
    }

    /// Notes a request with a wrong M_Key.
    pub(super) fn note_m_key_violation(&mut self, port: u8, packet: &ManagementPacket, now: SimTime) {
        let smp = DirectedSmp::view(&packet.mad[..]);
        let is_directed = Self::is_directed(packet);
        let hops = if is_directed { usize::from(smp.hop_count()) } else { 0 };
        let (mut path, way) = ([0; RETURN_PATH], smp.return_path());
        let shown = hops.min(RETURN_PATH);
        // The first hop has index 1.
        if let Some(way) = way.get(1..=shown) {
            path[..shown].copy_from_slice(way);
        }
        let details = MKeyViolationDetails {
            lid: packet.slid,
            dr_slid: if is_directed { smp.dr_slid() } else { Lid::NONE },
            method: smp.method(),
            attribute_id: smp.attribute_id(),
            attribute_modifier: smp.attribute_modifier(),
            m_key: smp.m_key(),
            dr_notice: is_directed,
            dr_path_truncated: hops > RETURN_PATH,
            dr_hop_count: hops as u8,
            dr_return_path: path,
        };
        self.note_trap(port, (TrapNumber::BAD_M_KEY, NoticeType::SECURITY), details.to_bytes(), now);
    }

    /// Notes that the abilities of a port have changed.
    pub(super) fn note_abilities(&mut self, port: u8, now: SimTime) {
        let details = LocalChangesDetails { capability_mask: self.capabilities(port), ..LocalChangesDetails::default() };
        self.note_trap(port, (TrapNumber::LOCAL_CHANGES, NoticeType::INFORMATIONAL), details.to_bytes(), now);
    }

    fn note_trap(&mut self, port: u8, (number, kind): (TrapNumber, NoticeType), data_details: [u8; 54], now: SimTime) {
        let producer = if self.facts.is_switch() { NodeType::SWITCH } else { NodeType::CHANNEL_ADAPTER };
        let notice = Notice {
            is_generic: true,
            notice_type: kind,
            producer_type: u32::from(producer.0),
            trap_number: number,
            data_details,
            ..Notice::default()
        };
        self.traps.note(port, notice, now);
    }

    /// Takes the answer to a trap. Returns false if no trap has this transaction.
    pub(super) fn repress(&mut self, transaction: u64) -> bool {
        self.traps.repress(transaction)
    }

    /// Returns the time of the next trap to send; `None` without one.
    pub fn next_trap(&self) -> Option<SimTime> {
        self.traps.waiting.iter().filter(|trap| !trap.is_answered).map(|trap| trap.due).min()
    }

    /// Returns the traps that are due, each with the port that sends it; number 0 is a switch's own
    /// port. It forgets those of a port whose manager is unknown.
    pub fn take_traps(&mut self, now: SimTime, hardware: &dyn Hardware) -> Vec<(PortNumber, Box<ManagementPacket>)> {
        let (mut packets, ports) = (Vec::new(), &self.ports);
        self.traps.waiting.retain_mut(|trap| {
            if trap.due > now {
                return true;
            }
            let (lid, registers) = (hardware.lid(trap.port), &ports[usize::from(trap.port)]);
            if trap.is_answered || trap.sends_left == 0 || lid == Lid::NONE || registers.master_sm_lid == Lid::NONE {
                return false;
            }
            trap.sends_left -= 1;
            trap.is_outdated = false;
            trap.due = now + SimDuration::from_picos(TIMEOUT_UNIT_PICOS << registers.subnet_timeout);
            let way = (lid, registers.master_sm_lid, registers.master_sm_sl);
            packets.push((PortNumber(trap.port), trap.packet(way)));
            true
        });
        packets
    }
}

impl Traps {
    fn note(&mut self, port: u8, notice: Notice, now: SimTime) {
        let same = |trap: &&mut Waiting| trap.port == port && trap.notice.trap_number == notice.trap_number;
        let Some(trap) = self.waiting.iter_mut().find(same) else {
            self.count += 1;
            let (transaction, sends_left) = (self.count, SENDS_MAX);
            self.waiting.push(Waiting { port, notice, transaction, due: now, sends_left, is_answered: false, is_outdated: false });
            return;
        };
        trap.notice = notice;
        if !trap.keeps_distance() {
            trap.begin_again(&mut self.count);
            trap.due = now;
        } else if trap.is_answered {
            trap.begin_again(&mut self.count);
            trap.due = trap.due.max(now);
        } else {
            trap.is_outdated = true;
        }
    }

    fn repress(&mut self, transaction: u64) -> bool {
        let is_asked = |trap: &&mut Waiting| trap.transaction == transaction && !trap.is_answered;
        let Some(trap) = self.waiting.iter_mut().find(is_asked) else { return false };
        if trap.is_outdated {
            trap.begin_again(&mut self.count)
        } else {
            trap.is_answered = true
        }
        true
    }
}

impl Waiting {
    fn keeps_distance(&self) -> bool {
        self.notice.notice_type == NoticeType::SECURITY
    }

    fn begin_again(&mut self, count: &mut u64) {
        *count += 1;
        (self.transaction, self.sends_left) = (*count, SENDS_MAX);
        (self.is_answered, self.is_outdated) = (false, false);
    }

    fn packet(&self, (lid, manager, service_level): (Lid, Lid, ServiceLevel)) -> Box<ManagementPacket> {
        let mut mad = Box::new([0; MAD_BYTES]);
        let header = Header {
            base_version: Header::BASE_VERSION,
            mgmt_class: ManagementClass::SUBNET_LID_ROUTED,
            class_version: 1,
            method: Method::TRAP,
            transaction_id: self.transaction,
            attribute_id: AttributeId::NOTICE,
            ..Header::default()
        };
        header.emit(&mut mad[..]);
        let mut notice = Notice { issuer_lid: lid, ..self.notice };
        match notice.trap_number {
            TrapNumber::LINK_STATE_CHANGED => {
                LinkStateDetails::view_mut(&mut notice.data_details).lid(lid);
            }
            TrapNumber::SWITCH_BAD_P_KEY => {
                SwitchPKeyViolationDetails::view_mut(&mut notice.data_details).switch_lid(lid);
            }
            TrapNumber::LOCAL_CHANGES => {
                LocalChangesDetails::view_mut(&mut notice.data_details).lid(lid);
            }
            _ => {}
        }
        notice.emit(&mut mad[SMP_DATA_OFFSET..]);
        let packet = ManagementPacket {
            slid: lid,
            dlid: manager,
            service_level,
            source: Qpn(0),
            destination: Qpn(0),
            qkey: QKey(0),
            pkey: PKey::DEFAULT_FULL,
            mad,
        };
        Box::new(packet)
    }
}
