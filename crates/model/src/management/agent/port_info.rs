//! PortInfo: a port's registers, and its link (IBTA 14.2.5.6).

use super::registers::{LinkState, PortRegisters};
use super::subnet::Request;
use super::training::{Trainable, speed_codes, width_code};
use super::{Agent, Hardware, LinkView, PortEvent, Refusal};
use crate::switch::LifetimeCode;
use softband_types::{CreditBlocks, Lid, Lmc, PortLids, PortNumber};
use softband_wire::mad::{
    CapabilityMask, Layout, LinkSpeedCode, LinkSpeedExtCode, LinkWidthCode, MKeyProtection, PhysicalState, PortInfo, PortState, Status,
};

/// Largest unicast LID.
const UNICAST_LAST: u16 = 0xBFFF;
/// Lines of each arbitration table that a port reports.
const ARBITRATION_LINES: u8 = 64;
/// Time to answer: 4.096 us * 2^16 is 268 ms, as ConnectX reports it.
const RESPONSE_TIME: u8 = 16;

/// Bit of the modifier by which a manager states that it knows extended speeds (IBTA 14.2.5.6). The
/// rest is the number of the port.
const SUPPORTS_EXTENDED_SPEEDS: u32 = 1 << 31;

impl Agent {
    pub(super) fn port_info(&self, request: &Request, hardware: &dyn Hardware) -> Result<PortInfo, Refusal> {
        let port = request.named_port(self, request.modifier & !SUPPORTS_EXTENDED_SPEEDS)?;
        let registers = &self.ports[usize::from(port)];
        let link = hardware.link(port);
        let is_own = port == 0;
        let has_lid = is_own || !self.facts.is_switch();
        let (state, physical) = match link {
            _ if is_own => (PortState::ACTIVE, PhysicalState::LINK_UP),
            _ if registers.is_disabled => (PortState::DOWN, PhysicalState::DISABLED),
            None => (PortState::DOWN, PhysicalState::POLLING),
            Some(_) => (state_code(registers.state), PhysicalState::LINK_UP),
        };
        let key = &self.ports[self.key_port(PortNumber(port))];
        // A requester without the key cannot read it. The one who has just set it can.
        let shows_key = key.m_key_protection == MKeyProtection::READ_ALL || request.m_key == key.m_key || request.is_set;
        let mut info = PortInfo {
            m_key_violations: key.m_key_violations,
            p_key_violations: registers.p_key_violations,
            partition_enforcement_inbound: registers.enforcement.0,
            partition_enforcement_outbound: registers.enforcement.1,
            q_key_violations: registers.q_key_violations,
            m_key_lease_period: key.m_key_lease_seconds,
            m_key_protect_bits: key.m_key_protection,
            m_key: if shows_key { key.m_key } else { 0 },
            gid_prefix: if has_lid { registers.gid_prefix } else { 0 },
            lid: if has_lid { hardware.lid(port) } else { Lid::NONE },
            lmc: if has_lid { hardware.lids(port).lmc.value() } else { 0 },
            master_sm_lid: if has_lid { registers.master_sm_lid } else { Lid::NONE },
            master_sm_sl: registers.master_sm_sl,
            local_port_num: PortNumber(request.port),
            port_state: state,
            port_physical_state: physical,
            link_down_default_state: PhysicalState::POLLING,
            neighbor_mtu: link.map_or(self.facts.mtu_max, |link| link.mtu).into(),
            mtu_cap: self.facts.mtu_max.into(),
            vl_cap: self.facts.vl_cap.into(),
            operational_vls: link.map_or(self.facts.vl_cap, |link| link.vls).into(),
            vl_high_limit: registers.weights.as_ref().map_or(registers.high_limit, |tables| tables.high_limit),
            vl_arbitration_high_cap: ARBITRATION_LINES,
            vl_arbitration_low_cap: ARBITRATION_LINES,
            vl_stall_count: registers.vl_stall_count,
            hoq_life: hardware.head_lifetime(port).code(),
            guid_cap: if has_lid { 8 } else { 0 },
            subnet_timeout: registers.subnet_timeout,
            resp_time_value: RESPONSE_TIME,
            local_phy_errors: registers.local_phy_errors,
            overrun_errors: registers.overrun_errors,
            max_credit_hint: (self.facts.port_buffer_bytes / CreditBlocks::BLOCK_BYTES).min(u32::from(u16::MAX)) as u16,
            ..PortInfo::default()
        };
        self.state_rate(&mut info, registers.trainable, link.filter(|_| !is_own));
        if has_lid {
            info.capability_mask = self.capabilities(port);
        }
        Ok(info)
    }

    fn state_rate(&self, info: &mut PortInfo, enabled: Trainable, link: Option<LinkView>) {
        let supported = Trainable::supported(&self.facts);
        (info.link_width_supported, info.link_width_enabled) = (supported.widths, enabled.widths);
        (info.link_speed_supported, info.link_speed_enabled) = (supported.speeds, enabled.speeds);
        (info.link_speed_ext_supported, info.link_speed_ext_enabled) = (supported.extended, enabled.extended);
        let rate = link.map(|link| (width_code(link.rate.width), speed_codes(link.rate.speed)));
        let (width, (speed, ext)) = rate.unwrap_or((LinkWidthCode::X4, (LinkSpeedCode::SDR, LinkSpeedExtCode(0))));
        (info.link_width_active, info.link_speed_active, info.link_speed_ext_active) = (width, speed, ext);
    }

    /// Returns the abilities of a port of an HCA, or of port 0.
    pub(super) fn capabilities(&self, port: u8) -> CapabilityMask {
        let mut mask = CapabilityMask::IS_SL_MAPPING_SUPPORTED
            | CapabilityMask::IS_SYSTEM_IMAGE_GUID_SUPPORTED
            | CapabilityMask::IS_TRAP_SUPPORTED
            | CapabilityMask::IS_CAPABILITY_MASK_NOTICE_SUPPORTED;
        if self.facts.speeds.iter().any(|speed| speed_codes(*speed).1.0 != 0) {
            mask = mask | CapabilityMask::IS_EXTENDED_SPEEDS_SUPPORTED;
        }
        if self.facts.is_switch() {
            mask = mask | CapabilityMask::IS_P_KEY_SWITCH_EXTERNAL_PORT_TRAP_SUPPORTED;
        } else {
            mask = mask | CapabilityMask::IS_COMMUNICATION_MANAGEMENT_SUPPORTED | CapabilityMask::IS_CLIENT_REREGISTRATION_SUPPORTED;
        }
        if self.manager.is_some() || self.ports.get(usize::from(port)).is_some_and(|port| port.has_manager) {
            mask = mask | CapabilityMask::IS_SM;
        }
        mask
    }

    pub(super) fn set_port_info(&mut self, request: &Request, hardware: &mut dyn Hardware) -> Result<(), Refusal> {
        let port = request.named_port(self, request.modifier & !SUPPORTS_EXTENDED_SPEEDS)?;
        let info = PortInfo::parse(&request.data).map_err(|_| Status::INVALID_FIELD)?;
        let has_lid = port == 0 || !self.facts.is_switch();
        let lids = PortLids { base: info.lid, lmc: Lmc::new(info.lmc).ok_or(Status::INVALID_FIELD)? };
        if has_lid && (!self.may_have(port, lids) || info.master_sm_lid.0 > UNICAST_LAST) {
            return Err(Status::INVALID_FIELD.into());
        }
        let trainable = self.trainable_after(port, &info)?;
        let is_switched = self.switch_port(port, &info, hardware)?;
        // The change of the link itself changes the state.
        let wanted = if is_switched { PortState::NO_CHANGE } else { info.port_state };
        let state = self.next_state(port, wanted, hardware)?;
        if wanted == PortState::DOWN && hardware.link(port).is_some() {
            self.restarts.push(PortNumber(port));
        }
        self.note_changes(port, state, &info, hardware);
        hardware.set_head_lifetime(port, LifetimeCode::of_wire(info.hoq_life));
        if has_lid {
            hardware.set_lids(port, lids);
            self.set_key(port, &info);
        }
        if self.facts.is_switch() && port > 0 {
            let wanted = (info.partition_enforcement_inbound, info.partition_enforcement_outbound);
            self.ports[usize::from(port)].enforcement = wanted;
            hardware.enforce_partitions(port, wanted.0, wanted.1);
        }
        let former_lanes = hardware.link(port).map(|link| link.vls);
        self.configure_link(port, state, &info, hardware);
        let has_other_lanes = hardware.link(port).map(|link| link.vls) != former_lanes;
        let registers = &mut self.ports[usize::from(port)];
        // A port in Polling trains by its new values at once.
        if registers.trainable != trainable && !registers.is_disabled && !is_switched && hardware.link(port).is_none() {
            self.switched.push(PortNumber(port));
        }
        (registers.state, registers.trainable) = (state, trainable);
        clear_violations(registers, &info);
        if has_lid {
            (registers.gid_prefix, registers.master_sm_lid) = (info.gid_prefix, info.master_sm_lid);
            registers.subnet_timeout = info.subnet_timeout;
        }
        registers.master_sm_sl = info.master_sm_sl;
        registers.high_limit = info.vl_high_limit;
        if let Some(tables) = registers.weights.as_mut().filter(|tables| tables.high_limit != info.vl_high_limit || has_other_lanes) {
            tables.high_limit = info.vl_high_limit;
            hardware.set_weights(port, tables);
        }
        registers.vl_stall_count = info.vl_stall_count;
        (registers.local_phy_errors, registers.overrun_errors) = (info.local_phy_errors, info.overrun_errors);
        Ok(())
    }

    /// Checks whether a port can have these LIDs. A switch has a single one, because its port 0 is not
    /// enhanced (IBTA 14.2.5.6, LMC).
    fn may_have(&self, port: u8, lids: PortLids) -> bool {
        let may_have_several = port > 0 && !self.facts.is_switch();
        lids.base.is_unicast() && lids.last().is_unicast() && lids.path_bits(lids.base) == 0 && (lids.lmc == Lmc::ZERO || may_have_several)
    }

    /// Disables or enables a port by its physical state (IBTA 14.2.5.6). A link that is up begins
    /// anew in Polling. Returns whether the link changes.
    fn switch_port(&mut self, port: u8, info: &PortInfo, hardware: &dyn Hardware) -> Result<bool, Refusal> {
        let may_change = port > 0 && matches!(info.port_state, PortState::NO_CHANGE | PortState::DOWN);
        let is_disabled = match info.port_physical_state {
            PhysicalState::POLLING if may_change => false,
            PhysicalState::DISABLED if may_change => true,
            PhysicalState::DISABLED => return Err(Status::INVALID_FIELD.into()),
            // Managers write back the state that they have read.
            _ => return Ok(false),
        };
        let registers = &mut self.ports[usize::from(port)];
        let changes = registers.is_disabled != is_disabled || !is_disabled && hardware.link(port).is_some();
        registers.is_disabled = is_disabled;
        if changes {
            self.switched.push(PortNumber(port));
        }
        Ok(changes)
    }

    /// Checks whether a manager has disabled a port.
    pub fn is_disabled(&self, port: PortNumber) -> bool {
        self.ports.get(usize::from(port.0)).is_some_and(|registers| registers.is_disabled)
    }

    /// Takes the ports that a manager has disabled, enabled or reset since the last call.
    pub fn take_switched(&mut self) -> Vec<PortNumber> {
        std::mem::take(&mut self.switched)
    }

    /// Notes the changes that programs of an HCA's host may want to know.
    fn note_changes(&mut self, port: u8, state: LinkState, info: &PortInfo, hardware: &dyn Hardware) {
        let registers = &self.ports[usize::from(port)];
        let (was_active, is_active) = (registers.state == LinkState::Active, state == LinkState::Active);
        let changes = [
            (PortEvent::Active, is_active && !was_active),
            (PortEvent::Inactive, was_active && !is_active),
            (PortEvent::LidChange, hardware.lid(port) != info.lid),
            (PortEvent::SmChange, registers.master_sm_lid != info.master_sm_lid),
            (PortEvent::GidChange, registers.gid_prefix != info.gid_prefix),
            (PortEvent::ClientReregister, info.client_reregister),
        ];
        let happened = changes.into_iter().filter(|(_, happens)| *happens && !self.facts.is_switch());
        self.events.extend(happened.map(|(event, _)| (PortNumber(port), event)));
    }

    /// Lets the link carry data, or stops it. Its MTU and lanes can change before it carries data.
    fn configure_link(&mut self, port: u8, state: LinkState, info: &PortInfo, hardware: &mut dyn Hardware) {
        if port == 0 {
            return;
        }
        if let (Some(mtu), Some(vls)) = (info.neighbor_mtu.mtu(), info.operational_vls.lanes()) {
            hardware.configure(port, mtu.min(self.facts.mtu_max), vls.min(self.facts.vl_cap));
        }
        hardware.let_data_pass(port, state == LinkState::Active);
    }

    fn set_key(&mut self, port: u8, info: &PortInfo) {
        let index = self.key_port(PortNumber(port));
        let key = &mut self.ports[index];
        key.m_key_lease_end = None;
        if info.m_key_violations == 0 {
            key.m_key_violations = 0;
        }
        (key.m_key, key.m_key_protection, key.m_key_lease_seconds) = (info.m_key, info.m_key_protect_bits, info.m_key_lease_period);
    }

    /// Returns the state after a request for one (IBTA 14.2.5.6, table of PortState transitions).
    fn next_state(&self, port: u8, wanted: PortState, hardware: &dyn Hardware) -> Result<LinkState, Refusal> {
        let present = self.ports[usize::from(port)].state;
        if wanted == PortState::NO_CHANGE {
            return Ok(present);
        }
        let is_up = hardware.link(port).is_some();
        match (wanted, present) {
            (PortState::ARMED, LinkState::Init | LinkState::Armed) if is_up => Ok(LinkState::Armed),
            (PortState::ACTIVE, LinkState::Armed | LinkState::Active) if is_up => Ok(LinkState::Active),
            // A requested Down starts the link again. The built-in manager then makes it Active.
            (PortState::DOWN, _) if port > 0 => Ok(if self.is_configured { present } else { LinkState::Init }),
            _ => Err(Status::INVALID_FIELD.into()),
        }
    }
}

/// Clears the counts of violations that a manager sets to 0. Other values leave them.
fn clear_violations(registers: &mut PortRegisters, info: &PortInfo) {
    for (count, wanted) in [(&mut registers.p_key_violations, info.p_key_violations), (&mut registers.q_key_violations, info.q_key_violations)] {
        *count = if wanted == 0 { 0 } else { *count };
    }
}

fn state_code(state: LinkState) -> PortState {
    match state {
        LinkState::Init => PortState::INIT,
        LinkState::Armed => PortState::ARMED,
        LinkState::Active => PortState::ACTIVE,
    }
}
