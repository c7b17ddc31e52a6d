//! Memory windows of type 2, which the queue pair that binds them owns.

use super::Driver;
use crate::memory::{REGION_BYTES, Window, address_of};
use crate::plan::{End, Message, Operation};
use softband_model::verbs::WindowType;
use softband_model::verbs::api::{SendOperation, WindowBind};
use softband_types::{Access, MwHandle, RKey};

const RIGHTS: Access = Access { local_write: false, remote_write: true, remote_read: true, remote_atomic: false, mw_bind: false };

impl Driver<'_> {
    /// Replaces the operation if it needs a window that does not exist, and allocates the window of
    /// a bind.
    pub(super) fn with_window(&mut self, end: End, message: Message) -> Message {
        let is_open = |end: End| self.oracle.ends[&end].window.is_some_and(|window| self.memory.windows[window].is_open);
        let operation = match message.operation {
            Operation::WriteWindow if !is_open(end.peer()) => Operation::Write { region: 0 },
            Operation::SendInvalidate if !is_open(end.peer()) => Operation::Send,
            Operation::Invalidate if !is_open(end) => Operation::Send,
            Operation::Bind { region } if !self.allocate_window(end, region + 1) => Operation::Send,
            operation => operation,
        };
        // The rest of the message fits any operation.
        Message { operation, ..message }
    }

    /// Allocates a window for a bind. Returns whether the HCA has one and the region is registered.
    fn allocate_window(&mut self, end: End, region: usize) -> bool {
        let process = self.oracle.ends[&end].process;
        let (id, pd) = (self.objects[process].id, self.objects[process].pd);
        if !self.memory.is_registered(process, region) {
            return false;
        }
        let Ok((mw, rkey)) = self.world.alloc_mw(id, pd, WindowType::Two) else { return false };
        // The program chooses the last eight bits of the key.
        let key = RKey(rkey.0 | (1 + self.next_tag as u32 % 0xFF));
        self.memory.windows.push(Window { key, region, is_open: true, is_closed_early: false });
        self.handles.push(mw);
        true
    }

    /// Returns the window that a message binds, invalidates or writes through.
    pub(super) fn window_of(&self, end: End, message: &Message) -> Option<usize> {
        match message.operation {
            Operation::Bind { .. } => self.memory.windows.len().checked_sub(1),
            Operation::Invalidate => self.oracle.ends[&end].window,
            Operation::WriteWindow | Operation::SendInvalidate => self.oracle.ends[&end.peer()].window,
            _ => None,
        }
    }

    /// Returns the key of the window that an end bound last.
    pub(super) fn window_key(&self, end: End) -> RKey {
        self.oracle.ends[&end].window.map_or(RKey(0), |window| self.memory.windows[window].key)
    }

    /// Returns the bind of the window that was allocated last.
    pub(super) fn bind(&self, process: usize) -> SendOperation {
        let (window, mw) = (self.memory.windows.last().copied(), self.handles.last().copied());
        let window = window.unwrap_or(Window { key: RKey(0), region: 0, is_open: false, is_closed_early: false });
        SendOperation::BindWindow(WindowBind {
            mw: mw.unwrap_or(MwHandle(0)),
            rkey: window.key,
            mr: Some(self.objects[process].regions[window.region].0),
            iova: address_of(window.region),
            len_bytes: REGION_BYTES,
            access: RIGHTS,
            zero_based: false,
        })
    }
}
