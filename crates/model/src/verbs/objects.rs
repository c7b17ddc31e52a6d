//! Protection domains, completion queues, memory regions and address handles: creation, use,
//! destruction.

use super::api::{AddressVector, MrChange, MrInit, VerbsError};
use super::memory_window::MemoryWindow;
use super::multicast::Multicast;
use super::shared_receive_queue::SharedReceiveQueue;
use super::table::Table;
use super::xrc::Xrcd;
use crate::parts::{HcaPart, OptionalVerbs};
use softband_sim::SimTime;
use softband_types::{AhHandle, CqHandle, HcaId, LKey, MrHandle, MwHandle, PdHandle, ProcessId, RKey, SrqHandle};

/// Domain that keeps memory regions, address handles and queue pairs of one trust together (IBTA
/// 10.2.3).
#[derive(Debug)]
pub struct ProtectionDomain {
    /// Process that allocated the domain.
    pub owner: ProcessId,
    /// HCA of the domain.
    pub hca: HcaId,
    /// Number of objects that name the domain.
    pub users: u32,
}

/// Completion queue: its owner, and the event that it is armed for. Its entries live with the
/// program.
#[derive(Debug)]
pub struct CompletionQueue {
    /// Process that created the queue.
    pub owner: ProcessId,
    /// HCA of the queue.
    pub hca: HcaId,
    /// Queue pairs that complete into the queue, counted once for each direction.
    pub users: u32,
    /// Whether the queue has overrun. An overrun queue takes no more completions.
    pub failed: bool,
    armed_any: Option<SimTime>,
    armed_solicited: Option<SimTime>,
}

impl CompletionQueue {
    /// Asks for one event with the next completion at `from` or later.
    pub fn arm(&mut self, from: SimTime, solicited_only: bool) {
        let armed = if solicited_only { &mut self.armed_solicited } else { &mut self.armed_any };
        *armed = Some(armed.map_or(from, |earlier| earlier.min(from)));
    }

    /// Checks whether a completion entering at `now` raises the event. If so, disarms the queue.
    pub fn take_event(&mut self, now: SimTime, solicited_or_error: bool) -> bool {
        let due = |armed: Option<SimTime>| armed.is_some_and(|from| now >= from);
        let raised = due(self.armed_any) || solicited_or_error && due(self.armed_solicited);
        if raised {
            self.armed_any = None;
            self.armed_solicited = None;
        }
        raised
    }
}

/// Memory region: a registered span of a program's memory.
#[derive(Debug)]
pub struct MemoryRegion {
    /// HCA of the region.
    pub hca: HcaId,
    /// Owner, place and rights.
    pub init: MrInit,
    /// Number of memory windows that are bound to the region.
    pub windows: u32,
}

/// Address handle: a destination for datagrams.
#[derive(Debug)]
pub struct AddressHandle {
    /// Process that created the handle.
    pub owner: ProcessId,
    /// Protection domain of the handle.
    pub pd: PdHandle,
    /// Address of the receiver.
    pub vector: AddressVector,
}

/// Largest number of objects of each kind on an HCA.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Protection domains.
    pub pds: u32,
    /// Completion queues.
    pub cqs: u32,
    /// Entries of a completion queue.
    pub cqes: u32,
    /// Memory regions.
    pub mrs: u32,
    /// Address handles.
    pub ahs: u32,
    /// Objects that not every HCA offers.
    pub optional: OptionalVerbs,
}

impl Limits {
    /// Returns the limits of an HCA part.
    pub fn of(part: &HcaPart) -> Self {
        Self { pds: part.max_pd, cqs: part.max_cq, cqes: part.max_cqe, mrs: part.max_mr, ahs: part.max_ah, optional: part.optional.clone() }
    }
}

#[derive(Clone, Copy, Default)]
pub(super) struct InUse {
    pds: u32,
    cqs: u32,
    mrs: u32,
    ahs: u32,
    pub(super) srqs: u32,
    pub(super) mws: u32,
    pub(super) xrcds: u32,
}

pub(super) fn take(used: &mut u32, limit: u32) -> Result<(), VerbsError> {
    if *used >= limit {
        return Err(VerbsError::NoMemory);
    }
    *used += 1;
    Ok(())
}

/// All verbs objects of a fabric except its queue pairs. Creation checks owners, limits and rights;
/// destruction checks users.
pub struct Verbs {
    /// Protection domains.
    pub pds: Table<ProtectionDomain>,
    /// Completion queues.
    pub cqs: Table<CompletionQueue>,
    /// Memory regions. A region's handle is also its L_Key and R_Key.
    pub mrs: Table<MemoryRegion>,
    /// Address handles.
    pub ahs: Table<AddressHandle>,
    /// Shared receive queues.
    pub srqs: Table<SharedReceiveQueue>,
    /// Memory windows.
    pub mws: Table<MemoryWindow>,
    /// Domains of extended reliable connections.
    pub xrcds: Table<Xrcd>,
    /// Multicast groups and their members.
    pub multicast: Multicast,
    pub(super) limits: Vec<Limits>,
    pub(super) in_use: Vec<InUse>,
}

impl Verbs {
    /// Creates tables for HCAs with these limits, in the order of their `HcaId`.
    pub fn new(limits: Vec<Limits>) -> Self {
        let in_use = vec![InUse::default(); limits.len()];
        Self {
            pds: Table::default(),
            cqs: Table::default(),
            mrs: Table::default(),
            ahs: Table::default(),
            srqs: Table::default(),
            mws: Table::default(),
            xrcds: Table::default(),
            multicast: Multicast::default(),
            limits,
            in_use,
        }
    }

    pub(super) fn hca_index(&self, hca: HcaId) -> Result<usize, VerbsError> {
        let index = hca.0 as usize;
        if index < self.limits.len() { Ok(index) } else { Err(VerbsError::Invalid) }
    }

    /// Checks whether the HCA offers atomic writes.
    pub(crate) fn offers_atomic_write(&self, hca: HcaId) -> bool {
        self.hca_index(hca).is_ok_and(|index| self.limits[index].optional.atomic_write)
    }

    /// Returns the protection domain, if `owner` may use it.
    ///
    /// # Errors
    /// `Invalid` if it does not exist, `Forbidden` if it belongs to another process.
    pub fn pd(&self, owner: ProcessId, pd: PdHandle) -> Result<&ProtectionDomain, VerbsError> {
        let found = self.pds.get(pd.0).ok_or(VerbsError::Invalid)?;
        if found.owner == owner { Ok(found) } else { Err(VerbsError::Forbidden) }
    }

    /// Returns the completion queue, if `owner` may use it.
    ///
    /// # Errors
    /// `Invalid` if it does not exist, `Forbidden` if it belongs to another process.
    pub fn cq(&self, owner: ProcessId, cq: CqHandle) -> Result<&CompletionQueue, VerbsError> {
        let found = self.cqs.get(cq.0).ok_or(VerbsError::Invalid)?;
        if found.owner == owner { Ok(found) } else { Err(VerbsError::Forbidden) }
    }

    /// Allocates a protection domain.
    ///
    /// # Errors
    /// `NoMemory` if the HCA has as many as it permits, `Invalid` if there is no such HCA.
    pub fn alloc_pd(&mut self, owner: ProcessId, hca: HcaId) -> Result<PdHandle, VerbsError> {
        let index = self.hca_index(hca)?;
        take(&mut self.in_use[index].pds, self.limits[index].pds)?;
        let pd = ProtectionDomain { owner, hca, users: 0 };
        self.pds.insert(pd).map(PdHandle).ok_or(VerbsError::NoMemory)
    }

    /// Deallocates a protection domain.
    ///
    /// # Errors
    /// `Busy` while any object names it, and the errors of [`Self::pd`].
    pub fn dealloc_pd(&mut self, owner: ProcessId, pd: PdHandle) -> Result<(), VerbsError> {
        if self.pd(owner, pd)?.users > 0 {
            return Err(VerbsError::Busy);
        }
        if let Some(pd) = self.pds.remove(pd.0) {
            self.in_use[pd.hca.0 as usize].pds -= 1;
        }
        Ok(())
    }

    /// Adds `delta` to the number of objects that name `pd`.
    pub fn use_pd(&mut self, pd: PdHandle, delta: i32) {
        if let Some(pd) = self.pds.get_mut(pd.0) {
            pd.users = pd.users.saturating_add_signed(delta);
        }
    }

    /// Adds `delta` to the number of queue pair directions that complete into `cq`.
    pub fn use_cq(&mut self, cq: CqHandle, delta: i32) {
        if let Some(cq) = self.cqs.get_mut(cq.0) {
            cq.users = cq.users.saturating_add_signed(delta);
        }
    }

    /// Registers a memory region. Returns its handle and its keys.
    ///
    /// # Errors
    /// `Invalid` for an empty or wrapping span, for rights that contradict each other, or for a
    /// protection domain of another HCA. `NoMemory` if the HCA has as many regions as it permits.
    /// The errors of [`Self::pd`].
    pub fn register_mr(&mut self, hca: HcaId, init: MrInit) -> Result<(MrHandle, LKey, RKey), VerbsError> {
        let index = self.hca_index(hca)?;
        self.check_mr(hca, &init)?;
        take(&mut self.in_use[index].mrs, self.limits[index].mrs)?;
        let key = self.mrs.insert(MemoryRegion { hca, init, windows: 0 }).ok_or(VerbsError::NoMemory)?;
        self.use_pd(init.pd, 1);
        Ok((MrHandle(key), LKey(key), RKey(key)))
    }

    fn check_mr(&self, hca: HcaId, init: &MrInit) -> Result<(), VerbsError> {
        if self.pd(init.owner, init.pd)?.hca != hca {
            return Err(VerbsError::Invalid);
        }
        // IBTA 10.6.3.1: the local side must have the right to change memory that peers may change.
        let remote_change = init.access.remote_write || init.access.remote_atomic;
        let wraps = init.address.checked_add(init.len_bytes).is_none() || init.iova.checked_add(init.len_bytes).is_none();
        if init.len_bytes == 0 || wraps || remote_change && !init.access.local_write {
            return Err(VerbsError::Invalid);
        }
        Ok(())
    }

    /// Changes a region under its keys. A refused change leaves the region as it was (IBTA
    /// 11.2.8.5).
    ///
    /// # Errors
    /// Those of [`Self::register_mr`]; `Forbidden` if the region belongs to another process, `Busy`
    /// while a window is bound to it.
    pub fn reregister_mr(&mut self, owner: ProcessId, mr: MrHandle, change: &MrChange) -> Result<(LKey, RKey), VerbsError> {
        let (hca, former, windows) = self.mrs.get(mr.0).map(|mr| (mr.hca, mr.init, mr.windows)).ok_or(VerbsError::Invalid)?;
        if former.owner != owner {
            return Err(VerbsError::Forbidden);
        }
        if windows > 0 {
            return Err(VerbsError::Busy);
        }
        let mut init = MrInit { pd: change.pd.unwrap_or(former.pd), access: change.access.unwrap_or(former.access), ..former };
        if let Some(range) = change.range {
            (init.address, init.len_bytes, init.iova) = (range.address, range.len_bytes, range.iova);
        }
        self.check_mr(hca, &init)?;
        self.use_pd(former.pd, -1);
        self.use_pd(init.pd, 1);
        self.mrs.get_mut(mr.0).expect("just found").init = init;
        Ok((LKey(mr.0), RKey(mr.0)))
    }

    /// Deregisters a memory region. Its keys are invalid from now on.
    ///
    /// # Errors
    /// `Invalid` if the region does not exist, `Forbidden` if it belongs to another process, `Busy`
    /// while a window is bound to it.
    pub fn deregister_mr(&mut self, owner: ProcessId, mr: MrHandle) -> Result<(), VerbsError> {
        let region = self.mrs.get(mr.0).ok_or(VerbsError::Invalid)?;
        if region.init.owner != owner {
            return Err(VerbsError::Forbidden);
        }
        if region.windows > 0 {
            return Err(VerbsError::Busy);
        }
        if let Some(mr) = self.mrs.remove(mr.0) {
            self.in_use[mr.hca.0 as usize].mrs -= 1;
            self.use_pd(mr.init.pd, -1);
        }
        Ok(())
    }

    /// Creates a completion queue with room for `entries` completions, at least 1.
    ///
    /// # Errors
    /// `Invalid` for no entries or more entries than the HCA permits, `NoMemory` if the HCA has as
    /// many queues as it permits.
    pub fn create_cq(&mut self, owner: ProcessId, hca: HcaId, entries: u32) -> Result<CqHandle, VerbsError> {
        let index = self.hca_index(hca)?;
        if entries == 0 || entries > self.limits[index].cqes {
            return Err(VerbsError::Invalid);
        }
        take(&mut self.in_use[index].cqs, self.limits[index].cqs)?;
        let cq = CompletionQueue { owner, hca, users: 0, failed: false, armed_any: None, armed_solicited: None };
        self.cqs.insert(cq).map(CqHandle).ok_or(VerbsError::NoMemory)
    }

    /// Checks whether a completion queue may have `entries` entries.
    ///
    /// # Errors
    /// `Invalid` for more entries than the HCA's queues hold.
    pub fn resize_cq(&self, owner: ProcessId, cq: CqHandle, entries: u32) -> Result<(), VerbsError> {
        let index = self.hca_index(self.cq(owner, cq)?.hca)?;
        if entries == 0 || entries > self.limits[index].cqes { Err(VerbsError::Invalid) } else { Ok(()) }
    }

    /// Destroys a completion queue.
    ///
    /// # Errors
    /// `Busy` while a queue pair completes into it, and the errors of [`Self::cq`].
    pub fn destroy_cq(&mut self, owner: ProcessId, cq: CqHandle) -> Result<(), VerbsError> {
        if self.cq(owner, cq)?.users > 0 {
            return Err(VerbsError::Busy);
        }
        if let Some(cq) = self.cqs.remove(cq.0) {
            self.in_use[cq.hca.0 as usize].cqs -= 1;
        }
        Ok(())
    }

    /// Creates an address handle.
    ///
    /// # Errors
    /// `Invalid` for a service level above 15, `NoMemory` if the HCA has as many handles as it
    /// permits. The errors of [`Self::pd`].
    pub fn create_ah(&mut self, owner: ProcessId, pd: PdHandle, vector: AddressVector) -> Result<AhHandle, VerbsError> {
        let index = self.pd(owner, pd)?.hca.0 as usize;
        if vector.service_level.0 > 15 {
            return Err(VerbsError::Invalid);
        }
        take(&mut self.in_use[index].ahs, self.limits[index].ahs)?;
        let ah = self.ahs.insert(AddressHandle { owner, pd, vector }).ok_or(VerbsError::NoMemory)?;
        self.use_pd(pd, 1);
        Ok(AhHandle(ah))
    }

    /// Destroys an address handle.
    ///
    /// # Errors
    /// `Invalid` if it does not exist, `Forbidden` if it belongs to another process.
    pub fn destroy_ah(&mut self, owner: ProcessId, ah: AhHandle) -> Result<(), VerbsError> {
        if self.ahs.get(ah.0).ok_or(VerbsError::Invalid)?.owner != owner {
            return Err(VerbsError::Forbidden);
        }
        if let Some(ah) = self.ahs.remove(ah.0) {
            if let Some(pd) = self.pds.get(ah.pd.0) {
                self.in_use[pd.hca.0 as usize].ahs -= 1;
            }
            self.use_pd(ah.pd, -1);
        }
        Ok(())
    }

    /// Removes all objects of `owner`. Its queue pairs must be gone already.
    ///
    /// # Panics
    /// If a queue pair still uses an object.
    pub fn remove_owner(&mut self, owner: ProcessId) {
        let ahs: Vec<u32> = self.ahs.iter().filter(|(_, ah)| ah.owner == owner).map(|(handle, _)| handle).collect();
        let mrs: Vec<u32> = self.mrs.iter().filter(|(_, mr)| mr.init.owner == owner).map(|(handle, _)| handle).collect();
        let cqs: Vec<u32> = self.cqs.iter().filter(|(_, cq)| cq.owner == owner).map(|(handle, _)| handle).collect();
        let pds: Vec<u32> = self.pds.iter().filter(|(_, pd)| pd.owner == owner).map(|(handle, _)| handle).collect();
        let srqs: Vec<u32> = self.srqs.iter().filter(|(_, srq)| srq.owner == owner).map(|(handle, _)| handle).collect();
        let mws: Vec<u32> = self.mws.iter().filter(|(_, mw)| mw.owner == owner).map(|(handle, _)| handle).collect();
        let results = (ahs.into_iter().map(|ah| self.destroy_ah(owner, AhHandle(ah))).collect::<Vec<_>>().into_iter())
            .chain(mws.into_iter().map(|mw| self.dealloc_mw(owner, MwHandle(mw))).collect::<Vec<_>>())
            .chain(mrs.into_iter().map(|mr| self.deregister_mr(owner, MrHandle(mr))).collect::<Vec<_>>())
            .chain(srqs.into_iter().map(|srq| self.destroy_srq(owner, SrqHandle(srq))).collect::<Vec<_>>())
            .chain(cqs.into_iter().map(|cq| self.destroy_cq(owner, CqHandle(cq))).collect::<Vec<_>>())
            .chain(pds.into_iter().map(|pd| self.dealloc_pd(owner, PdHandle(pd))).collect::<Vec<_>>());
        for result in results {
            assert_eq!(result, Ok(()), "a process's own objects go in the order of their uses");
        }
        self.close_xrcds_of(owner);
    }
}

#[cfg(test)]
mod tests {
    use super::super::api::{MrRange, ScatterGatherEntry};
    use super::*;
    use crate::verbs::{Reach, RemoteAccess};
    use softband_types::{Access, Qpn};

    const HCA: HcaId = HcaId(0);
    const OWNER: ProcessId = ProcessId(7);

    fn verbs() -> Verbs {
        Verbs::new(vec![Limits { pds: 4, cqs: 4, cqes: 100, mrs: 4, ahs: 4, optional: OptionalVerbs::default() }])
    }

    fn region(pd: PdHandle) -> MrInit {
        let access = Access { local_write: true, remote_write: true, ..Access::default() };
        MrInit { owner: OWNER, pd, address: 0x1000, len_bytes: 0x100, iova: 0x1000, access }
    }

    #[test]
    fn a_region_changes_under_its_keys_and_stays_as_it_was_when_the_change_is_refused() {
        let mut verbs = verbs();
        let (first, second) = (verbs.alloc_pd(OWNER, HCA).unwrap(), verbs.alloc_pd(OWNER, HCA).unwrap());
        let (mr, lkey, rkey) = verbs.register_mr(HCA, region(first)).unwrap();
        let entry = ScatterGatherEntry { address: 0x1000, len_bytes: 8, lkey };
        assert!(verbs.check_local(HCA, first, entry, true).is_some());
        let wrong = MrChange { access: Some(Access { remote_write: true, ..Access::default() }), ..MrChange::default() };
        assert_eq!(verbs.reregister_mr(OWNER, mr, &wrong), Err(VerbsError::Invalid));
        assert_eq!(verbs.reregister_mr(ProcessId(8), mr, &MrChange::default()), Err(VerbsError::Forbidden));
        assert!(verbs.check_local(HCA, first, entry, true).is_some(), "nothing has changed");
        let moved = MrRange { address: 0x2000, len_bytes: 0x10, iova: 0x2000 };
        let change = MrChange { pd: Some(second), range: Some(moved), access: Some(Access::default()) };
        assert_eq!(verbs.reregister_mr(OWNER, mr, &change), Ok((lkey, rkey)));
        assert!(verbs.check_local(HCA, first, entry, false).is_none() && verbs.check_local(HCA, second, entry, false).is_none());
        let entry = ScatterGatherEntry { address: 0x2000, ..entry };
        assert!(verbs.check_local(HCA, second, entry, false).is_some());
        assert!(verbs.check_local(HCA, second, entry, true).is_none(), "no right to write any more");
        assert!(verbs.check_remote(Reach { hca: HCA, pd: second, qpn: Qpn(1) }, rkey.0, 0x2000, 8, RemoteAccess::Write).is_none());
        assert_eq!(verbs.dealloc_pd(OWNER, second), Err(VerbsError::Busy));
        assert_eq!(verbs.dealloc_pd(OWNER, first), Ok(()), "the region has left it");
    }
}
