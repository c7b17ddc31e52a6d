//! The memory of the programs. It knows the use of every byte, and judges each access.

use crate::oracle::{ROUTE_BYTES, Rule, Violation};
use crate::plan::REGIONS;
use crate::sabotage::Saboteur;
use softband_model::verbs::api::{HostMemory, MemoryFault, PayloadSlice};
use softband_types::{ProcessId, RKey};
use std::collections::BTreeMap;

/// Bytes between the bases of a process's regions.
const SPAN: u64 = 1 << 32;
/// Registered size of a region; only allocated bytes exist.
pub(crate) const REGION_BYTES: u64 = 1 << 30;
/// Bytes at the start of the main region that never change, so that peers may read them.
pub(crate) const STATIC_BYTES: u32 = 128 * 1024;
/// Counters for atomics, behind the static bytes.
pub(crate) const CELLS: u64 = 4;
/// The region with everything that is no target of a write.
pub(crate) const MAIN: usize = 0;
/// Content of landing bytes before anything lands.
const BLANK: u8 = 0xEE;
/// Content of source bytes after their request is done.
const POISON: u8 = 0xDD;

pub(crate) type SlotId = usize;

/// Returns byte `offset` of the content with this tag.
fn pattern(tag: u64, offset: u32) -> u8 {
    (mix(tag ^ u64::from(offset / 8) << 40) >> (offset % 8 * 8)) as u8
}

/// Scrambles a number; equal numbers give equal results.
pub(crate) fn mix(number: u64) -> u64 {
    softband_sim::RandomStream::new(number, 1).next_u64()
}

/// Returns the tag of a process's static bytes.
pub(crate) fn static_tag(process: usize) -> u64 {
    1 << 63 | process as u64
}

/// Use of a slot of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Payload of a send request.
    Source,
    /// Room for the payload of a message. An unreliable queue pair uses it again after an
    /// incomplete message.
    Receive { again: bool },
    /// Target of a write.
    Target { tag: u64 },
    /// Landing of a read whose bytes are those of `tag`, from an offset on.
    Landing { tag: u64, from: u32 },
    /// Landing of an atomic's result.
    Outcome,
}

/// Whether the program has a slot back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Open,
    /// Its queue pair went away with the request; payload may still be on the bus.
    Abandoned,
    Closed,
}

pub(crate) struct Slot {
    process: usize,
    region: usize,
    /// Address and length of each piece.
    pub pieces: Vec<(u64, u32)>,
    pub len_bytes: u32,
    usage: Use,
    pub access: Access,
    /// Bytes that have landed; they land in order.
    pub landed: u32,
    /// Offset of the first byte that landed.
    first: u32,
    /// End of the longest message that landed, even if it was given up.
    high: u32,
    /// Order among the writes of a reliable queue pair: queue and place.
    order: Option<(usize, usize)>,
    /// Window through which a write reaches it.
    pub window: Option<usize>,
}

/// A memory window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub key: RKey,
    pub region: usize,
    /// Whether its program has not seen its invalidation.
    pub is_open: bool,
    /// A deliberate error.
    pub is_closed_early: bool,
}

struct Region {
    bytes: Vec<u8>,
    registered: bool,
    /// Slot and offset of each piece, by address.
    pieces: BTreeMap<u64, (SlotId, u32)>,
}

/// An atomic that was executed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Update {
    pub process: usize,
    pub cell: u64,
    pub before: u64,
    pub after: u64,
}

#[derive(Default)]
pub(crate) struct Memory {
    processes: Vec<Option<Vec<Region>>>,
    pub slots: Vec<Slot>,
    /// For each send queue of a reliable connection, the write targets in posting order, and the
    /// number of those that are complete.
    pub orders: Vec<(Vec<SlotId>, usize)>,
    pub updates: Vec<Update>,
    pub windows: Vec<Window>,
    pub violation: Option<Violation>,
    pub saboteur: Saboteur,
}

fn base(region: usize) -> u64 {
    SPAN * (region as u64 + 1)
}

/// Returns the base address of a region.
pub(crate) fn address_of(region: usize) -> u64 {
    base(region)
}

pub(crate) fn cell_address(cell: u64) -> u64 {
    base(MAIN) + u64::from(STATIC_BYTES) + cell * 8
}

impl Slot {
    pub(crate) fn region(&self) -> usize {
        self.region
    }
}

impl Memory {
    pub(crate) fn new(processes: usize, saboteur: Saboteur) -> Self {
        let mut memory = Self { saboteur, ..Self::default() };
        for process in 0..processes {
            let empty = || Region { bytes: Vec::new(), registered: true, pieces: BTreeMap::new() };
            let mut regions: Vec<Region> = std::iter::repeat_with(empty).take(REGIONS + 1).collect();
            regions[MAIN].bytes.extend((0..STATIC_BYTES).map(|offset| pattern(static_tag(process), offset)));
            regions[MAIN].bytes.extend((0..CELLS).flat_map(|cell| mix(cell).to_ne_bytes()));
            memory.processes.push(Some(regions));
        }
        memory
    }

    /// Forgets a dead process's memory.
    pub(crate) fn kill(&mut self, process: usize) {
        self.processes[process] = None;
    }

    pub(crate) fn is_alive(&self, process: usize) -> bool {
        self.processes[process].is_some()
    }

    /// Notes that a region is no longer registered.
    pub(crate) fn deregister(&mut self, process: usize, region: usize) {
        if let Some(regions) = &mut self.processes[process] {
            regions[region].registered = false;
        }
    }

    pub(crate) fn is_registered(&self, process: usize, region: usize) -> bool {
        self.processes[process].as_ref().is_some_and(|regions| regions[region].registered)
    }

    /// Allocates a slot of `len_bytes` in `pieces` pieces with gaps between them.
    pub(crate) fn allocate(&mut self, (process, region): (usize, usize), len_bytes: u32, pieces: u8, usage: Use) -> SlotId {
        let id = self.slots.len();
        let count = u32::from(pieces).clamp(1, len_bytes.max(1));
        let mut slot = Slot {
            process,
            region,
            pieces: Vec::new(),
            len_bytes,
            usage,
            access: Access::Open,
            landed: 0,
            first: 0,
            high: 0,
            order: None,
            window: None,
        };
        let fill = if usage == Use::Source { POISON } else { BLANK };
        let mut offset = 0;
        for piece in 0..count {
            let len = if piece + 1 == count { len_bytes - offset } else { len_bytes / count };
            let Some(region_bytes) = self.processes[process].as_mut().map(|regions| &mut regions[region]) else { break };
            let start = region_bytes.bytes.len().next_multiple_of(8) + 8;
            region_bytes.bytes.resize(start + len as usize, fill);
            let address = base(region) + start as u64;
            region_bytes.pieces.insert(address, (id, offset));
            slot.pieces.push((address, len));
            offset += len;
        }
        self.slots.push(slot);
        id
    }

    /// Allocates the next target of writes of a reliable queue.
    pub(crate) fn allocate_target(&mut self, place: (usize, usize), len_bytes: u32, tag: u64, queue: Option<usize>) -> SlotId {
        let slot = self.allocate(place, len_bytes, 1, Use::Target { tag });
        if let Some(queue) = queue {
            let (targets, _) = &mut self.orders[queue];
            self.slots[slot].order = Some((queue, targets.len()));
            targets.push(slot);
        }
        slot
    }

    /// Returns the content with this tag.
    pub(crate) fn content(tag: u64, len_bytes: u32) -> Vec<u8> {
        (0..len_bytes).map(|offset| pattern(tag, offset)).collect()
    }

    pub(crate) fn overwrite(&mut self, slot: SlotId, content: &[u8]) {
        let Slot { process, region, pieces, .. } = &self.slots[slot];
        let Some(regions) = &mut self.processes[*process] else { return };
        let mut at = 0;
        for (address, len) in pieces {
            let start = (address - base(*region)) as usize;
            regions[*region].bytes[start..start + *len as usize].copy_from_slice(&content[at..at + *len as usize]);
            at += *len as usize;
        }
    }

    /// Gives a slot back to the program, which uses a source for something else.
    pub(crate) fn close(&mut self, slot: SlotId) {
        self.slots[slot].access = Access::Closed;
        if self.slots[slot].usage == Use::Source {
            let poison = vec![POISON; self.slots[slot].len_bytes as usize];
            self.overwrite(slot, &poison);
        }
    }

    pub(crate) fn abandon(&mut self, slot: SlotId) {
        if self.slots[slot].access == Access::Open {
            self.slots[slot].access = Access::Abandoned;
        }
    }

    /// Returns the bytes of a slot.
    pub(crate) fn bytes(&self, slot: SlotId) -> Vec<u8> {
        let Slot { process, region, pieces, .. } = &self.slots[slot];
        let Some(regions) = &self.processes[*process] else { return Vec::new() };
        let of_piece = |(address, len): &(u64, u32)| {
            let start = (address - base(*region)) as usize;
            regions[*region].bytes[start..start + *len as usize].iter().copied()
        };
        pieces.iter().flat_map(of_piece).collect()
    }

    /// Checks whether the bytes from `from` on are those of `tag`, and whether no others landed
    /// behind them. A message that was given up may have left bytes.
    pub(crate) fn holds(&self, id: SlotId, from: u32, tag: u64, len_bytes: u32) -> bool {
        let (slot, bytes) = (&self.slots[id], self.bytes(id));
        let end = from + len_bytes;
        let is_whole = len_bytes == 0 || slot.first + slot.landed == end;
        let blank_from = slot.high.max(end) as usize;
        let exact = slot.high <= end || slot.usage == Use::Receive { again: true };
        let content = bytes.get(from as usize..end as usize);
        let matches = content.is_some_and(|bytes| bytes.iter().enumerate().all(|(offset, byte)| *byte == pattern(tag, offset as u32)));
        is_whole && exact && matches && bytes[blank_from..].iter().all(|byte| *byte == BLANK)
    }

    /// Checks whether bytes can land in a slot: its process lives, and its region is registered.
    pub(crate) fn is_open(&self, id: SlotId) -> bool {
        self.is_registered(self.slots[id].process, self.slots[id].region)
    }

    /// Adds all memory to a digest.
    pub(crate) fn add_to(&self, digest: &mut crate::Digest) {
        for region in self.processes.iter().flatten().flatten() {
            digest.add_bytes(&region.bytes);
        }
    }

    pub(crate) fn cell(&self, process: usize, cell: u64) -> u64 {
        let Some(regions) = &self.processes[process] else { return 0 };
        let start = u64::from(STATIC_BYTES) + cell * 8;
        u64::from_ne_bytes(regions[MAIN].bytes[start as usize..][..8].try_into().expect("eight bytes"))
    }

    fn complain(&mut self, rule: Rule, detail: String) {
        self.violation.get_or_insert(Violation::new(rule, detail));
    }

    /// Returns the region of an address and its offset there, if the process lives and the bytes
    /// exist.
    fn locate(&mut self, process: ProcessId, address: u64, len: usize, verb: &str) -> Option<(usize, usize)> {
        let number = process.0 as usize;
        let Some(regions) = self.processes.get(number).and_then(Option::as_ref) else {
            self.complain(Rule::StaleMemory, format!("the fabric {verb} {len} bytes of the dead process {number}"));
            return None;
        };
        let region = (address / SPAN).wrapping_sub(1) as usize;
        let found = regions.get(region).map(|of| (of.registered, (address % SPAN) as usize + len <= of.bytes.len()));
        match found {
            Some((true, true)) => Some((region, (address % SPAN) as usize)),
            Some((false, _)) => {
                self.complain(
                    Rule::StaleMemory,
                    format!("the fabric {verb} {len} bytes at {address:#x} of process {number}, region {region}, which is deregistered"),
                );
                None
            }
            _ => {
                self.complain(
                    Rule::StaleMemory,
                    format!("the fabric {verb} {len} bytes at {address:#x} of process {number}, which has no such memory"),
                );
                None
            }
        }
    }

    /// Returns the slot at an address, with the offset in it, if the slot has all the bytes.
    fn slot_at(&self, process: usize, region: usize, address: u64, len: usize) -> Option<(SlotId, u32)> {
        let regions = self.processes[process].as_ref()?;
        let (start, (id, offset)) = regions[region].pieces.range(..=address).next_back()?;
        let into = (address - start) as u32;
        let piece = self.slots[*id].pieces.iter().find(|(at, _)| at == start)?;
        (u64::from(into) + len as u64 <= u64::from(piece.1)).then_some((*id, offset + into))
    }

    /// Judges bytes that land, and stores them.
    fn land(&mut self, process: ProcessId, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        let (region, start) = self.locate(process, address, bytes.len(), "wrote").ok_or(MemoryFault)?;
        let number = process.0 as usize;
        let Some((id, offset)) = self.slot_at(number, region, address, bytes.len()) else {
            self.complain(Rule::StaleMemory, format!("{} bytes landed at {address:#x} of process {number}, where nobody expects them", bytes.len()));
            return Ok(());
        };
        self.judge(id, offset, bytes);
        if let Some(regions) = &mut self.processes[number] {
            regions[region].bytes[start..start + bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }

    fn judge(&mut self, id: SlotId, offset: u32, bytes: &[u8]) {
        let slot = &self.slots[id];
        let place = format!("{:?} of process {} at offset {offset} of {}", slot.usage, slot.process, slot.len_bytes);
        if slot.access == Access::Closed || slot.usage == Use::Source {
            return self.complain(Rule::StaleMemory, format!("{} bytes landed in a buffer that its program has back: {place}", bytes.len()));
        }
        if slot.window.is_some_and(|window| !self.windows[window].is_open || self.windows[window].is_closed_early) {
            return self.complain(Rule::StaleMemory, format!("{} bytes landed through an invalidated window: {place}", bytes.len()));
        }
        let expected = match slot.usage {
            Use::Target { tag } => Some((tag, 0)),
            Use::Landing { tag, from } => Some((tag, from)),
            Use::Source | Use::Receive { .. } | Use::Outcome => None,
        };
        if let Some((tag, from)) = expected
            && let Some(at) = bytes.iter().enumerate().position(|(at, byte)| *byte != pattern(tag, from + offset + at as u32))
        {
            return self.complain(Rule::Content, format!("byte {at} of {} is wrong: {place}", bytes.len()));
        }
        let slot = &mut self.slots[id];
        // A datagram leaves room for a route header.
        let restarts = slot.usage == Use::Receive { again: true } && [0, ROUTE_BYTES].contains(&offset) && offset != slot.first + slot.landed;
        let begins = slot.landed == 0 || restarts;
        if begins {
            (slot.first, slot.landed) = (offset, 0);
        }
        if offset != slot.first + slot.landed {
            let expected = slot.first + slot.landed;
            return self.complain(Rule::Order, format!("expected offset {expected}: {place}"));
        }
        slot.landed += bytes.len() as u32;
        slot.high = slot.high.max(slot.first + slot.landed);
        if let Some((queue, place)) = slot.order {
            self.judge_order(queue, place);
        }
    }

    /// Checks that all earlier writes of a reliable queue are complete.
    fn judge_order(&mut self, queue: usize, place: usize) {
        self.complete_targets(queue);
        let complete = self.orders[queue].1;
        if complete < place {
            self.complain(Rule::Order, format!("write {place} of a queue pair landed before write {complete} was complete"));
        }
    }

    /// Returns the number of leading writes of a queue that are complete.
    pub(crate) fn complete_targets(&mut self, queue: usize) -> usize {
        let (targets, complete) = &mut self.orders[queue];
        while targets.get(*complete).is_some_and(|slot| self.slots[*slot].landed == self.slots[*slot].len_bytes) {
            *complete += 1;
        }
        *complete
    }
}

impl HostMemory for Memory {
    fn read(&mut self, process: ProcessId, address: u64, into: &mut [u8]) -> Result<(), MemoryFault> {
        let (region, start) = self.locate(process, address, into.len(), "read").ok_or(MemoryFault)?;
        let number = process.0 as usize;
        if let Some((id, offset)) = self.slot_at(number, region, address, into.len())
            && self.slots[id].usage == Use::Source
            && self.slots[id].access == Access::Closed
        {
            self.complain(Rule::StaleMemory, format!("the fabric read byte {offset} of a payload that its program of process {number} has back"));
        }
        if let Some(regions) = &self.processes[number] {
            into.copy_from_slice(&regions[region].bytes[start..start + into.len()]);
        }
        Ok(())
    }

    fn write(&mut self, process: ProcessId, address: u64, payload: &PayloadSlice) -> Result<(), MemoryFault> {
        let mut bytes = payload.bytes().to_vec();
        match self.saboteur.on_write(&mut bytes) {
            0 => Ok(()),
            1 => self.land(process, address, &bytes),
            _ => self.land(process, address, &bytes).and_then(|()| self.land(process, address, &bytes)),
        }
    }

    fn update(&mut self, process: ProcessId, address: u64, change: &dyn Fn(u64) -> u64) -> Result<u64, MemoryFault> {
        let (region, start) = self.locate(process, address, 8, "changed").ok_or(MemoryFault)?;
        let number = process.0 as usize;
        let Some(regions) = &mut self.processes[number] else { return Err(MemoryFault) };
        let cell = (start as u64).wrapping_sub(u64::from(STATIC_BYTES)) / 8;
        let bytes = &mut regions[region].bytes[start..start + 8];
        let before = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        let after = change(before);
        bytes.copy_from_slice(&after.to_ne_bytes());
        if region != MAIN || cell >= CELLS {
            self.complain(Rule::StaleMemory, format!("an atomic changed {address:#x} of process {number}, which is no counter"));
        }
        self.updates.push(Update { process: number, cell, before, after });
        Ok(self.saboteur.on_update(before))
    }
}
