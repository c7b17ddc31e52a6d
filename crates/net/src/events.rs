//! News of a socket, and its state as `poll` shows it.

use std::ops::{BitAnd, BitOr, BitOrAssign};

/// Set of events, as `poll` and `epoll` name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Events(u16);

impl Events {
    /// No event.
    pub const NONE: Self = Self(0);
    /// Data, a connection or the end of the stream can be read (POLLIN).
    pub const READABLE: Self = Self(1);
    /// Data can be written (POLLOUT).
    pub const WRITABLE: Self = Self(2);
    /// Urgent data arrived (POLLPRI).
    pub const URGENT: Self = Self(4);
    /// The socket has an error (POLLERR).
    pub const ERROR: Self = Self(8);
    /// Both directions ended (POLLHUP).
    pub const HANG_UP: Self = Self(16);
    /// The peer sends no more (POLLRDHUP).
    pub const READ_CLOSED: Self = Self(32);
    /// A connection was made.
    pub const CONNECTED: Self = Self(64);
    /// A closed socket is gone. Its identifier never comes again.
    pub const GONE: Self = Self(128);
    /// A lingering `close` may return: the peer has all data, the connection ended, or the time of
    /// `SO_LINGER` is over.
    pub const LINGERED: Self = Self(256);

    /// Returns whether any of `others` is in the set.
    pub const fn intersects(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }
    /// Returns whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Returns this set if `applies`, and the empty set otherwise.
    #[must_use]
    pub const fn when(self, applies: bool) -> Self {
        if applies { self } else { Self::NONE }
    }
}

impl BitOr for Events {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
impl BitAnd for Events {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}
impl BitOrAssign for Events {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
