//! Memory windows (IBTA 10.6.7): parts of a region that peers may reach by a key that is quickly
//! given and taken back.
//!
//! Any process that has the protection domain may bind a window of type 1, again at any time. A
//! window of type 2 belongs to the queue pair that bound it (type 2B). It must be invalidated
//! before it is bound again.

use super::api::{VerbsError, WindowBind};
use super::memory::Reach;
use super::objects::{Verbs, take};
use softband_types::{Access, HcaId, MrHandle, MwHandle, PdHandle, ProcessId, Qpn, RKey};

/// Bit that marks the keys of windows.
pub(super) const WINDOW_KEY: u32 = 1 << 31;

/// Type of a memory window (IBTA 10.6.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowType {
    /// Type 1: any QP of the protection domain may use the window.
    One,
    /// Type 2B: only the QP that bound the window may use it.
    Two,
}

/// Memory window: a part of a region that peers reach by an R_Key of its own.
#[derive(Debug)]
pub struct MemoryWindow {
    /// Process that allocated the window.
    pub owner: ProcessId,
    /// HCA of the window.
    pub hca: HcaId,
    /// Protection domain of the window.
    pub pd: PdHandle,
    /// Type 1 or 2.
    pub window_type: WindowType,
    /// R_Key of the present binding.
    pub rkey: RKey,
    /// Present binding, or `None` if the window is not bound.
    pub binding: Option<WindowBinding>,
}

/// Binding of a memory window to a part of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowBinding {
    /// Memory region.
    pub mr: MrHandle,
    /// First byte, as the region's `iova` counts.
    pub iova: u64,
    /// Length in bytes, at least 1.
    pub len_bytes: u64,
    /// Rights that the window grants.
    pub access: Access,
    /// Whether peers count from the window's first byte.
    pub zero_based: bool,
    /// QP that bound the window.
    pub qpn: Qpn,
}

/// Bind or invalidation that is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowFault;

impl Verbs {
    /// Allocates a memory window. Returns its handle and its first R_Key.
    ///
    /// # Errors
    /// `Unsupported` on an HCA without windows, `NoMemory` if the HCA has as many as it permits.
    /// The errors of [`Self::pd`].
    pub fn alloc_mw(&mut self, owner: ProcessId, pd: PdHandle, window_type: WindowType) -> Result<(MwHandle, RKey), VerbsError> {
        let hca = self.pd(owner, pd)?.hca;
        let index = self.hca_index(hca)?;
        let limit = self.limits[index].optional.max_mw;
        if limit == 0 {
            return Err(VerbsError::Unsupported);
        }
        take(&mut self.in_use[index].mws, limit)?;
        let window = MemoryWindow { owner, hca, pd, window_type, rkey: RKey(0), binding: None };
        let handle = self.mws.insert(window).ok_or(VerbsError::NoMemory)?;
        let rkey = RKey(WINDOW_KEY | handle & !0xFF);
        self.mws.get_mut(handle).expect("just made").rkey = rkey;
        self.use_pd(pd, 1);
        Ok((MwHandle(handle), rkey))
    }

    /// Deallocates a memory window and ends its binding.
    ///
    /// # Errors
    /// `Invalid` if the window does not exist, `Forbidden` if it belongs to another process.
    pub fn dealloc_mw(&mut self, owner: ProcessId, mw: MwHandle) -> Result<(), VerbsError> {
        if self.mws.get(mw.0).ok_or(VerbsError::Invalid)?.owner != owner {
            return Err(VerbsError::Forbidden);
        }
        self.unbind(mw);
        if let Some(window) = self.mws.remove(mw.0) {
            self.in_use[window.hca.0 as usize].mws -= 1;
            self.use_pd(window.pd, -1);
        }
        Ok(())
    }

    /// Returns the window that has this key now, with its handle.
    pub(super) fn window_of(&self, key: u32) -> Option<(u32, &MemoryWindow)> {
        let (handle, window) = self.mws.by_index((key & !WINDOW_KEY) >> 8)?;
        (key & WINDOW_KEY != 0 && window.rkey.0 == key).then_some((handle, window))
    }

    /// Binds a window, as work of the queue pair that `by` names.
    ///
    /// # Errors
    /// If window, region and queue pair do not belong together, or the region does not allow the
    /// window's rights.
    pub(crate) fn bind_window(&mut self, by: Reach, bind: &WindowBind) -> Result<(), WindowFault> {
        let window = self.mws.get(bind.mw.0).ok_or(WindowFault)?;
        let same_key = window.rkey.0 >> 8 == bind.rkey.0 >> 8;
        let free = window.window_type == WindowType::One || window.binding.is_none();
        if window.hca != by.hca || window.pd != by.pd || !same_key || !free {
            return Err(WindowFault);
        }
        let binding = match (window.window_type, bind.len_bytes) {
            (WindowType::One, 0) => None,
            (WindowType::Two, 0) => return Err(WindowFault),
            _ => Some(self.check_binding(by, bind, window.window_type)?),
        };
        self.unbind(bind.mw);
        if let Some(mr) = binding.and_then(|binding| self.mrs.get_mut(binding.mr.0)) {
            mr.windows += 1;
        }
        let window = self.mws.get_mut(bind.mw.0).expect("just found");
        window.binding = binding;
        window.rkey = bind.rkey;
        Ok(())
    }

    /// Checks a binding against its region (IBTA C10-74 to C10-77).
    fn check_binding(&self, by: Reach, bind: &WindowBind, window_type: WindowType) -> Result<WindowBinding, WindowFault> {
        let mr = bind.mr.and_then(|mr| self.mrs.get(mr.0)).ok_or(WindowFault)?;
        let changes = bind.access.remote_write || bind.access.remote_atomic;
        let allowed = mr.hca == by.hca && mr.init.pd == by.pd && mr.init.access.mw_bind && (!changes || mr.init.access.local_write);
        let inside = mr.translate(bind.iova, bind.len_bytes).is_some();
        // Only windows of type 2 may count from zero.
        if !allowed || !inside || bind.zero_based && window_type == WindowType::One {
            return Err(WindowFault);
        }
        let WindowBind { iova, len_bytes, access, zero_based, .. } = *bind;
        Ok(WindowBinding { mr: bind.mr.ok_or(WindowFault)?, iova, len_bytes, access, zero_based, qpn: by.qpn })
    }

    /// Invalidates the key of a window of type 2, as work of its own queue pair or by the peer's
    /// message (IBTA 10.6.7.2.8).
    ///
    /// # Errors
    /// If the key does not name a window that this queue pair has bound.
    pub(crate) fn invalidate(&mut self, by: Reach, rkey: RKey) -> Result<(), WindowFault> {
        let (handle, window) = self.window_of(rkey.0).ok_or(WindowFault)?;
        let own = window.binding.is_some_and(|binding| binding.qpn == by.qpn);
        if window.hca != by.hca || window.pd != by.pd || window.window_type != WindowType::Two || !own {
            return Err(WindowFault);
        }
        self.unbind(MwHandle(handle));
        Ok(())
    }

    fn unbind(&mut self, mw: MwHandle) {
        let former = self.mws.get_mut(mw.0).and_then(|window| window.binding.take());
        if let Some(mr) = former.and_then(|binding| self.mrs.get_mut(binding.mr.0)) {
            mr.windows -= 1;
        }
    }
}
