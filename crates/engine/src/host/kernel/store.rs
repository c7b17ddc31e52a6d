//! Packets of kernels in memory, as HCAs read and write them.

use softband_model::verbs::api::{HostMemory, MemoryFault, PayloadSlice};
use softband_net::sdp::REGION_BITS;
use softband_types::ProcessId;
use std::collections::BTreeMap;

/// Bits of an address within a packet: the longest has 65,520 bytes and its headers.
const OFFSET_BITS: u32 = 17;
/// Bits of the number of a slot. The highest bit tells receive slots from send slots.
const SLOT_BITS: u32 = 16;
const RECEIVE: u32 = 1 << (SLOT_BITS - 1);
/// First address of regions, which connections of SDP use.
const FIRST_REGION: u64 = 1 << 47;
/// Bytes of all addresses.
pub(super) const SPAN_BYTES: u64 = 1 << 48;

/// Place of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) area: u32,
    number: u32,
}

impl Slot {
    pub(super) fn to_send(area: u32, number: u32) -> Self {
        Self { area, number }
    }
    pub(super) fn to_receive(area: u32, number: u32) -> Self {
        Self { area, number: number | RECEIVE }
    }
    /// Returns the address by which work requests name the slot.
    pub(super) fn address(self) -> u64 {
        (u64::from(self.area) << SLOT_BITS | u64::from(self.number)) << OFFSET_BITS
    }

    fn of(address: u64) -> Option<(Self, usize)> {
        let slot = address >> OFFSET_BITS;
        let number = (slot & ((1 << SLOT_BITS) - 1)) as u32;
        let area = u32::try_from(slot >> SLOT_BITS).ok()?;
        Some((Self { area, number }, (address & ((1 << OFFSET_BITS) - 1)) as usize))
    }
}

/// Packets of an interface.
#[derive(Debug)]
struct Area {
    owner: ProcessId,
    sent: Vec<Vec<u8>>,
    received: Vec<Vec<u8>>,
}

/// Packets of all kernels. Slots bound their number.
#[derive(Debug, Default)]
pub(super) struct PacketStore {
    areas: Vec<Area>,
    /// Buffers of connections of SDP by owner and address.
    regions: BTreeMap<(ProcessId, u64), Vec<u8>>,
}

impl PacketStore {
    /// Adds an area with slots for an interface. Returns its number.
    pub(super) fn add(&mut self, owner: ProcessId, sends: u32, receives: u32) -> u32 {
        let slots = |count: u32| vec![Vec::new(); count.min(RECEIVE) as usize];
        self.areas.push(Area { owner, sent: slots(sends), received: slots(receives) });
        self.areas.len() as u32 - 1
    }

    fn slot(&mut self, slot: Slot) -> Option<&mut Vec<u8>> {
        let area = self.areas.get_mut(slot.area as usize)?;
        let slots = if slot.number & RECEIVE == 0 { &mut area.sent } else { &mut area.received };
        slots.get_mut((slot.number & !RECEIVE) as usize)
    }

    /// Puts a packet into a slot.
    pub(super) fn put(&mut self, slot: Slot, packet: Vec<u8>) {
        if let Some(bytes) = self.slot(slot) {
            *bytes = packet;
        }
    }

    /// Takes the packet out of a slot.
    pub(super) fn take(&mut self, slot: Slot) -> Vec<u8> {
        self.slot(slot).map(std::mem::take).unwrap_or_default()
    }

    /// Puts bytes at the address of a region.
    pub(super) fn put_region(&mut self, owner: ProcessId, address: u64, bytes: Vec<u8>) {
        self.regions.insert((owner, address), bytes);
    }

    /// Takes the bytes of a region. It has no place in memory then.
    pub(super) fn take_region(&mut self, owner: ProcessId, address: u64) -> Vec<u8> {
        self.regions.remove(&(owner, address)).unwrap_or_default()
    }

    fn of(&mut self, process: ProcessId, address: u64) -> Result<(&mut Vec<u8>, usize), MemoryFault> {
        if address >= FIRST_REGION {
            let offset = address & ((1 << REGION_BITS) - 1);
            return self.regions.get_mut(&(process, address - offset)).map(|bytes| (bytes, offset as usize)).ok_or(MemoryFault);
        }
        let (slot, offset) = Slot::of(address).ok_or(MemoryFault)?;
        let is_own = self.areas.get(slot.area as usize).is_some_and(|area| area.owner == process);
        self.slot(slot).filter(|_| is_own).map(|bytes| (bytes, offset)).ok_or(MemoryFault)
    }
}

impl HostMemory for PacketStore {
    fn read(&mut self, process: ProcessId, address: u64, into: &mut [u8]) -> Result<(), MemoryFault> {
        let (packet, offset) = self.of(process, address)?;
        into.copy_from_slice(packet.get(offset..).and_then(|rest| rest.get(..into.len())).ok_or(MemoryFault)?);
        Ok(())
    }

    fn write(&mut self, process: ProcessId, address: u64, payload: &PayloadSlice) -> Result<(), MemoryFault> {
        let (packet, offset) = self.of(process, address)?;
        let end = offset + payload.len as usize;
        let bits = if address >= FIRST_REGION { REGION_BITS } else { OFFSET_BITS };
        if end > 1 << bits {
            return Err(MemoryFault);
        }
        if packet.len() < end {
            packet.resize(end, 0);
        }
        let bytes = payload.bytes();
        packet[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

/// Memory of kernels and programs together.
pub(crate) struct AllMemory<'a> {
    pub(super) packets: &'a mut PacketStore,
    pub(super) programs: &'a mut dyn HostMemory,
}

impl AllMemory<'_> {
    fn of(&mut self, process: ProcessId) -> &mut dyn HostMemory {
        if process.kernel_host().is_some() { self.packets } else { self.programs }
    }
}

impl HostMemory for AllMemory<'_> {
    fn read(&mut self, process: ProcessId, address: u64, into: &mut [u8]) -> Result<(), MemoryFault> {
        self.of(process).read(process, address, into)
    }
    fn write(&mut self, process: ProcessId, address: u64, payload: &PayloadSlice) -> Result<(), MemoryFault> {
        self.of(process).write(process, address, payload)
    }
    fn update(&mut self, process: ProcessId, address: u64, change: &dyn Fn(u64) -> u64) -> Result<u64, MemoryFault> {
        self.of(process).update(process, address, change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softband_types::HostId;
    use std::sync::Arc;

    #[test]
    fn only_the_owner_reaches_a_packet() {
        let (owner, other) = (ProcessId::of_kernel(HostId(1)), ProcessId::of_kernel(HostId(2)));
        let mut store = PacketStore::default();
        store.add(other, 1, 1);
        let slot = Slot::to_receive(store.add(owner, 2, 4), 3);
        let payload = PayloadSlice { buffer: Some(Arc::from([7_u8; 3].as_slice())), offset: 0, len: 3 };
        assert_eq!(store.write(other, slot.address() + 2, &payload), Err(MemoryFault));
        assert_eq!(store.write(owner, slot.address() + 2, &payload), Ok(()));
        let mut bytes = [0; 5];
        assert_eq!(store.read(owner, slot.address(), &mut bytes), Ok(()));
        assert_eq!(bytes, [0, 0, 7, 7, 7]);
        assert_eq!(store.read(owner, slot.address() + 1, &mut bytes), Err(MemoryFault), "behind the end");
        assert_eq!(store.read(owner, Slot::to_receive(1, 4).address(), &mut bytes), Err(MemoryFault));
        assert_eq!(store.read(owner, u64::MAX, &mut bytes), Err(MemoryFault));
        assert_eq!(store.take(slot), [0, 0, 7, 7, 7]);
        assert!(store.take(slot).is_empty());
    }
}
