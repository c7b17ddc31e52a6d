//! Tables of ports and switches, in blocks (IBTA 14.2.5.5 to 14.2.5.12).

use super::subnet::{Data, LINEAR_ENTRIES, MULTICAST_ENTRIES, PKEYS, Request, data_of};
use super::{Agent, Hardware, Refusal};
use crate::link::WeightedLane;
use softband_types::{Guid, Lid, PKey, PortNumber, VirtualLane};
use softband_wire::mad::{
    GuidInfo, Layout, LinearForwardingTable, MulticastForwardingTable, PKeyTable, SlToVlMappingTable, Status, VlArbitrationTable, VlWeight,
};

/// Output of a LID that the switch discards.
const NO_PORT: u8 = 255;
/// First multicast LID.
const MULTICAST_FIRST: u16 = 0xC000;

impl Agent {
    pub(super) fn guid_info(&self, request: &Request) -> Result<Data, Refusal> {
        if request.modifier != 0 {
            return Err(Status::INVALID_FIELD.into());
        }
        let mut info = GuidInfo::default();
        info.guids = [Guid(0); 8];
        info.guids[0] = self.facts.port_guid(if self.facts.is_switch() { 0 } else { request.port });
        Ok(data_of(&info))
    }

    pub(super) fn pkey_table(&self, request: &Request, hardware: &dyn Hardware) -> Result<Data, Refusal> {
        let (port, block) = (request.modifier >> 16, request.modifier as usize & 0xFFFF);
        let port = request.named_port(self, if self.facts.is_switch() { port } else { 0 })?;
        if block >= usize::from(PKEYS) / 32 {
            return Err(Status::INVALID_FIELD.into());
        }
        let keys = hardware.pkeys(port);
        let key = |index: usize| keys.get(block * 32 + index).copied().unwrap_or(PKey(0));
        Ok(data_of(&PKeyTable { p_keys: std::array::from_fn(key) }))
    }

    pub(super) fn sl_to_vl(&self, request: &Request, hardware: &dyn Hardware) -> Result<Data, Refusal> {
        let (input, output) = (request.modifier >> 8 & 0xFF, request.modifier & 0xFF);
        let (input, output) =
            if self.facts.is_switch() { (request.named_port(self, input)?, request.named_port(self, output)?) } else { (request.port, request.port) };
        let lanes = hardware.lanes(input, output);
        Ok(data_of(&SlToVlMappingTable { vls: lanes.lanes().map(VirtualLane) }))
    }

    pub(super) fn vl_arbitration(&self, request: &Request) -> Result<Data, Refusal> {
        let half = request.modifier >> 16;
        let port = request.named_port(self, request.modifier & 0xFFFF)?;
        let tables = self.ports[usize::from(port)].weights.as_ref();
        let (lines, first): (&[WeightedLane], _) = match half {
            1 | 2 => (tables.map_or(&[], |tables| &tables.low), (half as usize - 1) * 32),
            3 | 4 => (tables.map_or(&[], |tables| &tables.high), (half as usize - 3) * 32),
            _ => return Err(Status::INVALID_FIELD.into()),
        };
        let entry = |index: usize| {
            let line = lines.get(first + index);
            line.map_or_else(VlWeight::default, |line| VlWeight { vl: line.lane, weight: line.weight })
        };
        Ok(data_of(&VlArbitrationTable { entries: std::array::from_fn(entry) }))
    }
}

fn first_lid(request: &Request) -> Result<u16, Refusal> {
    let first = request.modifier.checked_mul(64).filter(|first| *first < u32::from(LINEAR_ENTRIES));
    first.map(|first| first as u16).ok_or(Status::INVALID_FIELD.into())
}

pub(super) fn linear_block(request: &Request, hardware: &dyn Hardware) -> Result<Data, Refusal> {
    let first = first_lid(request)?;
    let port = |index: usize| PortNumber(hardware.route(Lid(first + index as u16)).unwrap_or(NO_PORT));
    Ok(data_of(&LinearForwardingTable { ports: std::array::from_fn(port) }))
}

pub(super) fn set_linear_block(request: &Request, hardware: &mut dyn Hardware) -> Result<(), Refusal> {
    let first = first_lid(request)?;
    let block = LinearForwardingTable::parse(&request.data).map_err(|_| Status::INVALID_FIELD)?;
    for (lid, port) in (first..).map(Lid).zip(block.ports) {
        // LID 0 has no entry.
        if lid != Lid::NONE {
            hardware.set_route(lid, (port.0 != NO_PORT).then_some(port.0));
        }
    }
    Ok(())
}

pub(super) fn multicast_block(request: &Request, hardware: &dyn Hardware) -> Result<Data, Refusal> {
    let (position, block) = ((request.modifier >> 28) as u8, request.modifier & 0x1FF);
    let first = u16::try_from(block * 32).ok().filter(|first| *first < MULTICAST_ENTRIES).ok_or(Status::INVALID_FIELD)?;
    let mask = |index: usize| {
        let outputs = hardware.multicast_outputs(Lid(MULTICAST_FIRST + first + index as u16));
        let here = outputs.into_iter().filter(|port| port / 16 == position);
        here.fold(0, |mask, port| mask | 1 << (port % 16))
    };
    Ok(data_of(&MulticastForwardingTable { port_masks: std::array::from_fn(mask) }))
}
