//! Tables of ports and switches, in blocks (IBTA 14.2.5.5 to 14.2.5.12).

use super::subnet::{Data, ENFORCED_PKEYS, LINEAR_ENTRIES, MULTICAST_ENTRIES, PKEYS, Request, data_of};
use super::{Agent, Hardware, PortEvent, Refusal};
use crate::link::{ArbitrationTables, Sl2Vl, WeightedLane};
use softband_types::{Guid, Lid, PKey, PortNumber, VirtualLane};
use softband_wire::mad::{
    GuidInfo, Layout, LinearForwardingTable, MulticastForwardingTable, PKeyTable, SlToVlMappingTable, Status, VlArbitrationTable, VlWeight,
};

/// Output of a LID that the switch discards.
const NO_PORT: u8 = 255;
/// First multicast LID.
const MULTICAST_FIRST: u16 = 0xC000;
/// Entries of a block of partition keys, and of half an arbitration table.
const BLOCK: usize = 32;

/// One of the two arbitration tables of a port, and its first line in a request.
struct Half {
    port: u8,
    is_high: bool,
    first: usize,
}

impl Agent {
    pub(super) fn guid_info(&self, request: &Request) -> Result<Data, Refusal> {
        if request.modifier != 0 {
            return Err(Status::INVALID_FIELD.into());
        }
        let own = self.facts.port_guid(if self.facts.is_switch() { 0 } else { request.port });
        let guids = std::array::from_fn(|index| if index == 0 { own } else { Guid(0) });
        Ok(data_of(&GuidInfo { guids }))
    }

    /// Returns the port and the block that a request for partition keys names.
    fn pkey_block(&self, request: &Request) -> Result<(u8, usize), Refusal> {
        let (port, block) = (request.modifier >> 16, request.modifier as usize & 0xFFFF);
        let port = request.named_port(self, if self.facts.is_switch() { port } else { 0 })?;
        let keys = if port > 0 && self.facts.is_switch() { ENFORCED_PKEYS } else { PKEYS };
        if block < usize::from(keys) / BLOCK { Ok((port, block)) } else { Err(Status::INVALID_FIELD.into()) }
    }

    pub(super) fn pkey_table(&self, request: &Request, hardware: &dyn Hardware) -> Result<Data, Refusal> {
        let (port, block) = self.pkey_block(request)?;
        let keys = hardware.pkeys(port);
        let key = |index: usize| keys.get(block * BLOCK + index).copied().unwrap_or(PKey(0));
        Ok(data_of(&PKeyTable { p_keys: std::array::from_fn(key) }))
    }

    pub(super) fn set_pkey_table(&mut self, request: &Request, hardware: &mut dyn Hardware) -> Result<(), Refusal> {
        let (port, block) = self.pkey_block(request)?;
        let table = PKeyTable::parse(&request.data).map_err(|_| Status::INVALID_FIELD)?;
        let former = hardware.pkeys(port);
        let mut keys = former.clone();
        keys.resize(keys.len().max((block + 1) * BLOCK), PKey(0));
        keys[block * BLOCK..(block + 1) * BLOCK].copy_from_slice(&table.p_keys);
        keys.truncate(keys.iter().rposition(|key| key.0 != 0).map_or(0, |last| last + 1));
        if keys != former {
            hardware.set_pkeys(port, keys);
            self.note_event(port, PortEvent::PKeyChange);
        }
        Ok(())
    }

    /// Returns the input and the output that a request for a map of service levels names.
    fn sl_to_vl_ports(&self, request: &Request) -> Result<(u8, u8), Refusal> {
        if !self.facts.is_switch() {
            return Ok((request.port, request.port));
        }
        let (input, output) = (request.modifier >> 8 & 0xFF, request.modifier & 0xFF);
        Ok((request.named_port(self, input)?, request.named_port(self, output)?))
    }

    pub(super) fn sl_to_vl(&self, request: &Request, hardware: &dyn Hardware) -> Result<Data, Refusal> {
        let (input, output) = self.sl_to_vl_ports(request)?;
        let lanes = hardware.lanes(input, output);
        Ok(data_of(&SlToVlMappingTable { vls: lanes.lanes().map(VirtualLane) }))
    }

    pub(super) fn set_sl_to_vl(&mut self, request: &Request, hardware: &mut dyn Hardware) -> Result<(), Refusal> {
        let (input, output) = self.sl_to_vl_ports(request)?;
        let table = SlToVlMappingTable::parse(&request.data).map_err(|_| Status::INVALID_FIELD)?;
        // Lane 15 discards packets, which the model lacks.
        let lanes = Sl2Vl::new(table.vls.map(|lane| lane.0)).ok_or(Status::INVALID_FIELD)?;
        hardware.set_lanes(input, output, lanes);
        Ok(())
    }

    /// Returns the half of an arbitration table that a request names.
    fn arbitration_half(&self, request: &Request) -> Result<Half, Refusal> {
        let port = request.named_port(self, request.modifier & 0xFFFF)?;
        match request.modifier >> 16 {
            half @ (1 | 2) => Ok(Half { port, is_high: false, first: (half as usize - 1) * BLOCK }),
            half @ (3 | 4) => Ok(Half { port, is_high: true, first: (half as usize - 3) * BLOCK }),
            _ => Err(Status::INVALID_FIELD.into()),
        }
    }

    pub(super) fn vl_arbitration(&self, request: &Request) -> Result<Data, Refusal> {
        let half = self.arbitration_half(request)?;
        let tables = self.ports[usize::from(half.port)].weights.as_ref();
        let lines: &[WeightedLane] = tables.map_or(&[], |tables| if half.is_high { &tables.high } else { &tables.low });
        let entry = |index: usize| {
            let line = lines.get(half.first + index);
            line.map_or_else(VlWeight::default, |line| VlWeight { vl: line.lane, weight: line.weight })
        };
        Ok(data_of(&VlArbitrationTable { entries: std::array::from_fn(entry) }))
    }

    pub(super) fn set_vl_arbitration(&mut self, request: &Request, hardware: &mut dyn Hardware) -> Result<(), Refusal> {
        let half = self.arbitration_half(request)?;
        let table = VlArbitrationTable::parse(&request.data).map_err(|_| Status::INVALID_FIELD)?;
        let registers = &mut self.ports[usize::from(half.port)];
        let high_limit = registers.high_limit;
        let tables = registers.weights.get_or_insert_with(|| ArbitrationTables { high: Vec::new(), low: Vec::new(), high_limit });
        let lines = if half.is_high { &mut tables.high } else { &mut tables.low };
        lines.resize(ArbitrationTables::LINES_MAX, WeightedLane { lane: VirtualLane(0), weight: 0 });
        for (line, entry) in lines[half.first..].iter_mut().zip(table.entries) {
            *line = WeightedLane { lane: entry.vl, weight: entry.weight };
        }
        hardware.set_weights(half.port, tables);
        Ok(())
    }
}

/// Returns the first LID of the block that a request for a forwarding table names.
fn first_lid(request: &Request) -> Result<u16, Refusal> {
    let first = request.modifier.checked_mul(64).filter(|first| *first < u32::from(LINEAR_ENTRIES));
    first.map(|first| first as u16).ok_or(Status::INVALID_FIELD.into())
}

pub(super) fn linear_block(request: &Request, hardware: &dyn Hardware) -> Result<Data, Refusal> {
    let first = first_lid(request)?;
    let port = |index: usize| PortNumber(hardware.route(Lid(first + index as u16)).unwrap_or(NO_PORT));
    Ok(data_of(&LinearForwardingTable { ports: std::array::from_fn(port) }))
}

pub(super) fn set_linear_block(request: &Request, ports: u8, hardware: &mut dyn Hardware) -> Result<(), Refusal> {
    let first = first_lid(request)?;
    let block = LinearForwardingTable::parse(&request.data).map_err(|_| Status::INVALID_FIELD)?;
    for (lid, port) in (first..).map(Lid).zip(block.ports) {
        // LID 0 has no entry.
        if lid != Lid::NONE {
            // A port that the switch lacks leads nowhere, as port 255 does.
            hardware.set_route(lid, (port.0 <= ports).then_some(port.0));
        }
    }
    Ok(())
}

/// Returns the position of the ports and the first LID of a block.
fn multicast_place(request: &Request) -> Result<(u8, u16), Refusal> {
    let (position, block) = ((request.modifier >> 28) as u8, request.modifier & 0x1FF);
    let first = u16::try_from(block * 32).ok().filter(|first| *first < MULTICAST_ENTRIES).ok_or(Status::INVALID_FIELD)?;
    Ok((position, MULTICAST_FIRST + first))
}

pub(super) fn multicast_block(request: &Request, hardware: &dyn Hardware) -> Result<Data, Refusal> {
    let (position, first) = multicast_place(request)?;
    let mask = |index: usize| {
        let outputs = hardware.multicast_outputs(Lid(first + index as u16));
        let here = outputs.into_iter().filter(|port| port / 16 == position);
        here.fold(0, |mask, port| mask | 1 << (port % 16))
    };
    Ok(data_of(&MulticastForwardingTable { port_masks: std::array::from_fn(mask) }))
}

pub(super) fn set_multicast_block(request: &Request, hardware: &mut dyn Hardware) -> Result<(), Refusal> {
    let (position, first) = multicast_place(request)?;
    let block = MulticastForwardingTable::parse(&request.data).map_err(|_| Status::INVALID_FIELD)?;
    for (mlid, mask) in (first..).map(Lid).zip(block.port_masks) {
        hardware.set_multicast_outputs(mlid, position.saturating_mul(16), mask);
    }
    Ok(())
}
