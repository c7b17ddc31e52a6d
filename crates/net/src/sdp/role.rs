//! Roles of sockets of SDP: a socket is idle, listens, or has a connection.

use super::Connection;
use crate::socket_id::SocketId;
use std::collections::VecDeque;

/// State of a socket.
#[derive(Debug)]
pub(crate) enum Role {
    Idle,
    Listener(Listener),
    Connection(Box<Connection>),
}

/// Connections that wait for `accept`.
#[derive(Debug)]
pub(crate) struct Listener {
    backlog: u32,
    ready: VecDeque<SocketId>,
    overflows: u64,
}

impl Listener {
    pub(crate) fn new(backlog: u32) -> Self {
        Self { backlog, ready: VecDeque::new(), overflows: 0 }
    }
    pub(crate) fn set_backlog(&mut self, backlog: u32) {
        self.backlog = backlog;
    }
    /// Returns whether one more connection may wait, as TCP's queue of ready connections decides.
    pub(crate) fn has_room(&mut self) -> bool {
        let has_room = self.ready.len() <= self.backlog as usize;
        self.overflows += u64::from(!has_room);
        has_room
    }
    pub(crate) fn push(&mut self, socket: SocketId) {
        self.ready.push_back(socket);
    }
    pub(crate) fn pop(&mut self) -> Option<SocketId> {
        self.ready.pop_front()
    }
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }
    pub(crate) fn overflows(&self) -> u64 {
        self.overflows
    }
    pub(crate) fn into_ready(self) -> VecDeque<SocketId> {
        self.ready
    }
    /// Forgets a connection that ended before `accept`.
    pub(crate) fn forget(&mut self, socket: SocketId) {
        self.ready.retain(|ready| *ready != socket);
    }
}
