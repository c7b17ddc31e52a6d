//! Traffic counts.

/// Traffic in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub bytes: u64,
    pub packets: u64,
}

impl Traffic {
    #[inline]
    pub(crate) fn count(&mut self, bytes: u32) {
        self.bytes += u64::from(bytes);
        self.packets += 1;
    }
}
