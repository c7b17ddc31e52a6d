//! Verbs without queue pairs: protection domains, memory, completion queues, address handles.

use super::World;
use softband_model::verbs::api::{AddressVector, MrChange, MrInit, SrqInit, SrqSnapshot, VerbsError};
use softband_model::verbs::{WindowType, XrcdOpen};
use softband_sim::SimTime;
use softband_types::{AhHandle, CqHandle, HcaId, LKey, MrHandle, MwHandle, PdHandle, ProcessId, RKey, SrqHandle, XrcdHandle};

impl World {
    /// Allocates a protection domain for a process.
    ///
    /// # Errors
    /// `NoMemory` if the HCA has no free protection domain.
    pub fn alloc_pd(&mut self, owner: ProcessId, hca: HcaId) -> Result<PdHandle, VerbsError> {
        self.hcas.verbs_mut().alloc_pd(owner, hca)
    }

    /// Deallocates a protection domain.
    ///
    /// # Errors
    /// `Busy` while an object uses the domain, `Invalid` if it does not exist, `Forbidden` if
    /// another process owns it.
    pub fn dealloc_pd(&mut self, owner: ProcessId, pd: PdHandle) -> Result<(), VerbsError> {
        self.hcas.verbs_mut().dealloc_pd(owner, pd)
    }

    /// Registers a memory region. Returns its handle and its keys.
    ///
    /// # Errors
    /// `Invalid` for contradictory access rights, or for an address range that is empty or wraps.
    /// `NoMemory` if the HCA has no free region.
    pub fn register_mr(&mut self, hca: HcaId, init: MrInit) -> Result<(MrHandle, LKey, RKey), VerbsError> {
        self.hcas.verbs_mut().register_mr(hca, init)
    }

    /// Returns a memory region's parameters and its HCA.
    pub fn region(&self, mr: MrHandle) -> Option<(HcaId, MrInit)> {
        self.hcas.verbs().mrs.get(mr.0).map(|region| (region.hca, region.init))
    }

    /// Changes a memory region under its keys.
    ///
    /// # Errors
    /// The errors of [`Self::register_mr`]. On failure the region stays unchanged.
    pub fn reregister_mr(&mut self, owner: ProcessId, mr: MrHandle, change: &MrChange) -> Result<(LKey, RKey), VerbsError> {
        self.end_trains();
        self.hcas.verbs_mut().reregister_mr(owner, mr, change)
    }

    /// Deregisters a memory region. Its keys are invalid from now on.
    ///
    /// # Errors
    /// `Invalid` if it does not exist, `Forbidden` if another process owns it, `Busy` while a
    /// window is bound to it.
    pub fn deregister_mr(&mut self, owner: ProcessId, mr: MrHandle) -> Result<(), VerbsError> {
        self.end_trains();
        self.hcas.verbs_mut().deregister_mr(owner, mr)
    }

    /// Allocates a memory window. Returns its handle and its first R_Key.
    ///
    /// # Errors
    /// `Unsupported` on an HCA without memory windows, `NoMemory` if the HCA has no free window.
    pub fn alloc_mw(&mut self, owner: ProcessId, pd: PdHandle, window_type: WindowType) -> Result<(MwHandle, RKey), VerbsError> {
        self.hcas.verbs_mut().alloc_mw(owner, pd, window_type)
    }

    /// Deallocates a memory window and ends its binding.
    ///
    /// # Errors
    /// `Invalid` if it does not exist, `Forbidden` if another process owns it.
    pub fn dealloc_mw(&mut self, owner: ProcessId, mw: MwHandle) -> Result<(), VerbsError> {
        self.end_trains();
        self.hcas.verbs_mut().dealloc_mw(owner, mw)
    }

    /// Creates a completion queue with room for `entries` completions, at least 1.
    ///
    /// # Errors
    /// `Invalid` for more entries than the HCA's queues hold, `NoMemory` if the HCA has no free
    /// queue.
    pub fn create_cq(&mut self, owner: ProcessId, hca: HcaId, entries: u32) -> Result<CqHandle, VerbsError> {
        self.hcas.verbs_mut().create_cq(owner, hca, entries)
    }

    /// Checks whether a completion queue may have `entries` entries. The program holds the entries.
    ///
    /// # Errors
    /// `Invalid` for more entries than the HCA's queues hold.
    pub fn resize_cq(&self, owner: ProcessId, cq: CqHandle, entries: u32) -> Result<(), VerbsError> {
        self.hcas.verbs().resize_cq(owner, cq, entries)
    }

    /// Destroys a completion queue.
    ///
    /// # Errors
    /// `Busy` while a QP completes into it.
    pub fn destroy_cq(&mut self, owner: ProcessId, cq: CqHandle) -> Result<(), VerbsError> {
        self.hcas.verbs_mut().destroy_cq(owner, cq)
    }

    /// Requests one event for the next completion at `now` or later. With `solicited_only` only a
    /// solicited or failed completion counts.
    pub fn arm_cq(&mut self, now: SimTime, owner: ProcessId, cq: CqHandle, solicited_only: bool) {
        if self.hcas.verbs().cq(owner, cq).is_ok()
            && let Some(queue) = self.hcas.verbs_mut().cqs.get_mut(cq.0)
        {
            queue.arm(now, solicited_only);
        }
    }

    /// Handles a full program ring of `cq`: completions are lost, so its queue pairs go to error
    /// (IBTA 10.4.2.1).
    pub fn overflow_cq(&mut self, now: SimTime, cq: CqHandle) {
        self.end_trains();
        self.hcas.overflow_cq(&mut self.timeline, now, cq);
    }

    /// Opens a domain of extended reliable connections, or creates it.
    ///
    /// # Errors
    /// `Unsupported` on an HCA without XRC, `Invalid` if the domain exists but must not, `Absent`
    /// if it must exist but does not.
    pub fn open_xrcd(&mut self, owner: ProcessId, hca: HcaId, open: XrcdOpen) -> Result<XrcdHandle, VerbsError> {
        self.hcas.verbs_mut().open_xrcd(owner, hca, open)
    }

    /// Closes a domain once. The last opener destroys it.
    ///
    /// # Errors
    /// `Busy` if this is the last close and an object still uses the domain.
    pub fn close_xrcd(&mut self, owner: ProcessId, xrcd: XrcdHandle) -> Result<(), VerbsError> {
        self.hcas.verbs_mut().close_xrcd(owner, xrcd)
    }

    /// Creates a shared receive queue.
    ///
    /// # Errors
    /// `Unsupported` on an HCA without SRQs, `Invalid` for more requests or entries than the HCA
    /// supports, `NoMemory` if the HCA has no free SRQ.
    pub fn create_srq(&mut self, owner: ProcessId, hca: HcaId, init: SrqInit) -> Result<SrqHandle, VerbsError> {
        self.hcas.verbs_mut().create_srq(owner, hca, init)
    }

    /// Changes the size of a shared receive queue, or arms its limit.
    ///
    /// # Errors
    /// `Invalid` for a size or limit out of range.
    pub fn modify_srq(&mut self, owner: ProcessId, srq: SrqHandle, max_wr: Option<u32>, limit: Option<u32>) -> Result<(), VerbsError> {
        self.hcas.verbs_mut().modify_srq(owner, srq, max_wr, limit)
    }

    /// Returns the attributes and the limit of a shared receive queue.
    ///
    /// # Errors
    /// `Invalid` if it does not exist, `Forbidden` if another process owns it.
    pub fn query_srq(&self, owner: ProcessId, srq: SrqHandle) -> Result<SrqSnapshot, VerbsError> {
        self.hcas.verbs().query_srq(owner, srq)
    }

    /// Destroys a shared receive queue and its waiting requests.
    ///
    /// # Errors
    /// `Busy` while a QP uses it.
    pub fn destroy_srq(&mut self, owner: ProcessId, srq: SrqHandle) -> Result<(), VerbsError> {
        self.hcas.verbs_mut().destroy_srq(owner, srq)
    }

    /// Creates an address handle.
    ///
    /// # Errors
    /// `NoMemory` if the HCA has no free address handle, `Invalid` for a service level above 15,
    /// and the errors of [`Self::resolve`].
    pub fn create_ah(&mut self, owner: ProcessId, pd: PdHandle, vector: AddressVector) -> Result<AhHandle, VerbsError> {
        let hca = self.hcas.verbs().pd(owner, pd)?.hca;
        // Range-checked here, because the routing engine's level may replace it.
        if vector.service_level.0 > 15 {
            return Err(VerbsError::Invalid);
        }
        let vector = self.hcas.resolve(&self.subnet, hca, &vector)?;
        self.hcas.verbs_mut().create_ah(owner, pd, vector)
    }

    /// Destroys an address handle.
    ///
    /// # Errors
    /// `Invalid` if it does not exist, `Forbidden` if another process owns it.
    pub fn destroy_ah(&mut self, owner: ProcessId, ah: AhHandle) -> Result<(), VerbsError> {
        self.hcas.verbs_mut().destroy_ah(owner, ah)
    }

    /// Removes all objects of a dead program. Its peers notice through their retries.
    pub fn remove_process(&mut self, _now: SimTime, owner: ProcessId) {
        self.end_trains();
        let left = self.hcas.remove_process(owner, self.timeline.now());
        self.grow_trees(left);
    }
}
