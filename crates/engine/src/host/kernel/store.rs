//! Packets of kernels in memory, as HCAs read and write them.

use softband_model::verbs::api::{HostMemory, MemoryFault, PayloadSlice};
use softband_net::sdp::REGION_BITS;
use softband_types::ProcessId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bits of an address within a packet: the longest has 65,520 bytes and its headers.
const OFFSET_BITS: u32 = 17;
/// Bits of the number of a slot. The highest bit tells receive slots from send slots.
const SLOT_BITS: u32 = 16;
const RECEIVE: u32 = 1 << (SLOT_BITS - 1);
/// Most slots of an area in each direction.
pub(super) const SLOTS_MAX: u32 = RECEIVE;
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

    fn of(address: u64) -> Option<(Self, u32)> {
        let slot = address >> OFFSET_BITS;
        let number = (slot & ((1 << SLOT_BITS) - 1)) as u32;
        let area = u32::try_from(slot >> SLOT_BITS).ok()?;
        Some((Self { area, number }, (address & ((1 << OFFSET_BITS) - 1)) as u32))
    }
}

/// Packets of an interface.
#[derive(Debug)]
struct Area {
    owner: ProcessId,
    sent: Vec<StoredPacket>,
    received: Vec<StoredPacket>,
}

/// Bytes of a packet, as the kernel put them or as writes of the HCA left them. They are shared.
#[derive(Clone, Debug, Default)]
pub(super) struct StoredPacket {
    /// Slices with their places, in order. They do not overlap.
    pieces: Vec<(u32, PayloadSlice)>,
}

impl StoredPacket {
    pub(super) fn new(bytes: Arc<[u8]>) -> Self {
        let len = bytes.len() as u32;
        Self { pieces: vec![(0, PayloadSlice { buffer: Some(bytes), offset: 0, len })] }
    }

    fn end(&self) -> u32 {
        self.pieces.last().map_or(0, |(at, slice)| at + slice.len)
    }

    /// Returns the bytes from `start` to `end`; `None` if the packet ends before.
    pub(super) fn part(&self, start: u32, end: u32) -> Option<PayloadSlice> {
        let len = end.checked_sub(start)?;
        let covers = |(at, slice): &&(u32, PayloadSlice)| *at <= start && end <= at + slice.len;
        if let Some((at, slice)) = self.pieces.iter().find(covers) {
            return Some(PayloadSlice { buffer: slice.buffer.clone(), offset: slice.offset + (start - at), len });
        }
        let mut bytes = vec![0; len as usize];
        self.read(start, &mut bytes)?;
        Some(PayloadSlice { buffer: Some(bytes.into()), offset: 0, len })
    }

    /// Fills `into` with the bytes from `start` on. Bytes without a write are zeros. Returns `None` if
    /// the packet ends before.
    fn read(&self, start: u32, into: &mut [u8]) -> Option<()> {
        let end = start.checked_add(u32::try_from(into.len()).ok()?)?;
        for (at, slice) in &self.pieces {
            let (from, to) = ((*at).max(start), (at + slice.len).min(end));
            if from < to {
                let bytes = &slice.bytes()[(from - at) as usize..(to - at) as usize];
                into[(from - start) as usize..(to - start) as usize].copy_from_slice(bytes);
            }
        }
        (end <= self.end()).then_some(())
    }

    fn write(&mut self, at: u32, payload: &PayloadSlice) {
        if at < self.end() {
            // HCAs write in order. A write in another order costs a copy.
            let end = self.end().max(at + payload.len);
            let mut bytes = vec![0; end as usize];
            let _ = self.read(0, &mut bytes[..self.end() as usize]);
            bytes[at as usize..(at + payload.len) as usize].copy_from_slice(payload.bytes());
            *self = Self::new(bytes.into());
            return;
        }
        if let Some((start, last)) = self.pieces.last_mut()
            && *start + last.len == at
            && last.offset + last.len == payload.offset
            && let (Some(a), Some(b)) = (&last.buffer, &payload.buffer)
            && Arc::ptr_eq(a, b)
        {
            last.len += payload.len;
            return;
        }
        self.pieces.push((at, payload.clone()));
    }
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
        let slots = |count: u32| vec![StoredPacket::default(); count.min(RECEIVE) as usize];
        self.areas.push(Area { owner, sent: slots(sends), received: slots(receives) });
        self.areas.len() as u32 - 1
    }

    fn slot(&mut self, slot: Slot) -> Option<&mut StoredPacket> {
        let area = self.areas.get_mut(slot.area as usize)?;
        let slots = if slot.number & RECEIVE == 0 { &mut area.sent } else { &mut area.received };
        slots.get_mut((slot.number & !RECEIVE) as usize)
    }

    /// Puts a packet into a slot.
    pub(super) fn put(&mut self, slot: Slot, packet: Arc<[u8]>) {
        if let Some(bytes) = self.slot(slot) {
            *bytes = StoredPacket::new(packet);
        }
    }

    /// Returns the packet in a slot.
    pub(super) fn get(&self, slot: Slot) -> Option<&StoredPacket> {
        let area = self.areas.get(slot.area as usize)?;
        let slots = if slot.number & RECEIVE == 0 { &area.sent } else { &area.received };
        slots.get((slot.number & !RECEIVE) as usize)
    }

    /// Takes the packet out of a slot.
    pub(super) fn take(&mut self, slot: Slot) -> StoredPacket {
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

    fn region(&mut self, process: ProcessId, address: u64) -> Result<(&mut Vec<u8>, usize), MemoryFault> {
        let offset = address & ((1 << REGION_BITS) - 1);
        self.regions.get_mut(&(process, address - offset)).map(|bytes| (bytes, offset as usize)).ok_or(MemoryFault)
    }

    fn of(&mut self, process: ProcessId, address: u64) -> Result<(&mut StoredPacket, u32), MemoryFault> {
        let (slot, offset) = Slot::of(address).ok_or(MemoryFault)?;
        let is_own = self.areas.get(slot.area as usize).is_some_and(|area| area.owner == process);
        self.slot(slot).filter(|_| is_own).map(|bytes| (bytes, offset)).ok_or(MemoryFault)
    }
}

impl HostMemory for PacketStore {
    fn read(&mut self, process: ProcessId, address: u64, into: &mut [u8]) -> Result<(), MemoryFault> {
        if address >= FIRST_REGION {
            let (bytes, offset) = self.region(process, address)?;
            into.copy_from_slice(bytes.get(offset..).and_then(|rest| rest.get(..into.len())).ok_or(MemoryFault)?);
            return Ok(());
        }
        let (packet, offset) = self.of(process, address)?;
        packet.read(offset, into).ok_or(MemoryFault)
    }

    fn share(&mut self, process: ProcessId, address: u64, len: u32) -> Option<PayloadSlice> {
        if address >= FIRST_REGION {
            return None;
        }
        let (packet, offset) = self.of(process, address).ok()?;
        packet.part(offset, offset.checked_add(len)?)
    }

    fn write(&mut self, process: ProcessId, address: u64, payload: &PayloadSlice) -> Result<(), MemoryFault> {
        if address >= FIRST_REGION {
            let (bytes, offset) = self.region(process, address)?;
            let end = offset + payload.len as usize;
            if end > 1 << REGION_BITS {
                return Err(MemoryFault);
            }
            bytes.resize(end.max(bytes.len()), 0);
            bytes[offset..end].copy_from_slice(payload.bytes());
            return Ok(());
        }
        let (packet, offset) = self.of(process, address)?;
        if offset + payload.len > 1 << OFFSET_BITS {
            return Err(MemoryFault);
        }
        if payload.len > 0 {
            packet.write(offset, payload);
        }
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
    fn share(&mut self, process: ProcessId, address: u64, len: u32) -> Option<PayloadSlice> {
        self.of(process).share(process, address, len)
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
        let part = |packet: &StoredPacket| packet.part(0, 5).map(|slice| slice.bytes().to_vec());
        assert_eq!(part(&store.take(slot)), Some(vec![0, 0, 7, 7, 7]));
        assert_eq!(part(&store.take(slot)), None);
    }

    #[test]
    fn a_packet_keeps_writes_in_order_without_a_copy() {
        let buffer: Arc<[u8]> = (0..100).collect();
        let piece = |offset: u32, len: u32| PayloadSlice { buffer: Some(buffer.clone()), offset, len };
        let mut packet = StoredPacket::default();
        packet.write(40, &piece(0, 30));
        packet.write(70, &piece(30, 20));
        let part = packet.part(45, 90).expect("bytes");
        assert!(part.buffer.as_ref().is_some_and(|held| Arc::ptr_eq(held, &buffer)));
        assert_eq!(part.bytes(), &buffer[5..50]);
        assert_eq!(packet.part(0, 42).expect("bytes").bytes()[38..], [0, 0, 0, 1]);
        assert!(packet.part(80, 91).is_none());
        // A second write of the same place replaces the bytes.
        packet.write(41, &piece(99, 1));
        assert_eq!(packet.part(40, 43).expect("bytes").bytes(), [0, 99, 2]);
    }
}
