//! The room of connections from outside: the events that arrive, tickets, and admission.

use crate::control::admission::Admission;
use crate::control::socket::{ControlEvent, Mailbox};
use crate::control::tickets::{Grant, Tickets};
use crate::procfs::View;
use rustix::fd::OwnedFd;
use softband_ipc::attach::Hello;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// A hello that the engine has not answered yet.
pub(crate) struct Greeting {
    pub(crate) connection: u64,
    pub(crate) socket: OwnedFd,
    pub(crate) hello: Hello,
    pub(crate) pid: i32,
    pub(crate) view: Option<View>,
}

/// The engine's side of its control socket.
pub(crate) struct Control {
    /// Name by which programs and commands find this engine.
    name: String,
    mailbox: Arc<Mailbox>,
    receiver: Receiver<ControlEvent>,
    /// Events that the engine has received and not handled yet.
    events: VecDeque<ControlEvent>,
    tickets: Tickets,
    admission: Arc<Admission>,
    /// Set if other processes start programs and the command line requests passes.
    gives_passes: bool,
}

impl Control {
    pub(crate) fn new(name: String, (mailbox, receiver): (Arc<Mailbox>, Receiver<ControlEvent>), admission: Arc<Admission>) -> Self {
        Self { name, mailbox, receiver, events: VecDeque::new(), tickets: Tickets::default(), admission, gives_passes: false }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    pub(crate) fn admission(&self) -> &Admission {
        &self.admission
    }

    /// Lets other processes start programs from now on.
    pub(crate) fn give_passes(&mut self) {
        self.gives_passes = true;
    }

    pub(crate) fn gives_passes(&self) -> bool {
        self.gives_passes
    }

    /// Issues a ticket. Fails if the system has no random numbers.
    pub(crate) fn issue(&mut self, grant: Grant) -> std::io::Result<u64> {
        self.tickets.issue(grant)
    }

    /// Returns the grant of a ticket, and whether the ticket was used before.
    pub(crate) fn present(&mut self, ticket: u64) -> Option<(Grant, bool)> {
        self.tickets.present(ticket)
    }

    /// Returns whether this unused ticket admits a new image of a process.
    pub(crate) fn is_for_image(&self, ticket: u64) -> bool {
        self.tickets.is_for_image(ticket)
    }

    /// Returns whether the engine expects a new image of this process.
    pub(crate) fn announces_image_of(&self, process: usize) -> bool {
        self.tickets.announces_image_of(process)
    }

    /// Withdraws the tickets for new images of this process, which will not attach.
    pub(crate) fn withdraw_images_of(&mut self, process: usize) {
        self.tickets.withdraw_images_of(process);
    }

    /// Withdraws an unused ticket. Returns the process that the engine expected by it.
    pub(crate) fn withdraw(&mut self, ticket: u64) -> Option<usize> {
        self.tickets.withdraw(ticket)
    }

    /// Drops used tickets that admit nobody any more, if a sweep is due.
    pub(crate) fn drop_tickets(&mut self, admits_somebody: impl Fn(Grant) -> bool) {
        if self.tickets.is_sweep_due() {
            self.tickets.sweep(admits_somebody);
        }
    }

    /// Sets the word that each event changes, until the next call.
    pub(crate) fn ring(&self, bell: Option<&AtomicU32>) {
        self.mailbox.ring(bell);
    }

    /// Sets the word to wake when an event comes; null for none.
    pub(crate) fn wait_on(&self, word: *const AtomicU32) {
        self.mailbox.wait_on(word);
    }

    /// Returns whether an event has come since the engine last received all.
    pub(crate) fn is_filled(&self) -> bool {
        self.mailbox.is_filled()
    }

    /// Returns whether any event awaits its reception or its handling.
    pub(crate) fn has_events(&self) -> bool {
        self.mailbox.is_filled() || !self.events.is_empty()
    }

    /// Takes all events that have come.
    pub(crate) fn receive(&mut self) {
        self.mailbox.clear();
        while let Ok(event) = self.receiver.try_recv() {
            self.events.push_back(event);
        }
    }

    /// Waits for an event, at most `limit` of wall-clock time, and takes all that have come.
    pub(crate) fn await_event(&mut self, limit: Duration) {
        if self.events.is_empty()
            && let Ok(event) = self.receiver.recv_timeout(limit)
        {
            self.events.push_back(event);
        }
        self.receive();
    }

    /// As [`Control::await_event`], also while events await their handling.
    pub(crate) fn await_another_event(&mut self, limit: Duration) {
        if let Ok(event) = self.receiver.recv_timeout(limit) {
            self.events.push_back(event);
        }
        self.receive();
    }

    /// Removes and returns the first event that `is_it` selects.
    fn take_first(&mut self, is_it: impl Fn(&ControlEvent) -> bool) -> Option<ControlEvent> {
        let index = self.events.iter().position(is_it)?;
        self.events.remove(index)
    }

    /// Returns the next event that is no hello, in the order of arrival.
    pub(crate) fn next_but_hellos(&mut self) -> Option<ControlEvent> {
        self.take_first(|event| !matches!(event, ControlEvent::Hello { .. }))
    }

    /// Returns the hellos that have come.
    pub(crate) fn take_hellos(&mut self) -> Vec<Greeting> {
        let mut hellos = Vec::new();
        let is_hello = |event: &ControlEvent| matches!(event, ControlEvent::Hello { .. });
        while let Some(ControlEvent::Hello { connection, socket, hello, pid, view }) = self.take_first(is_hello) {
            hellos.push(Greeting { connection, socket, hello, pid, view });
        }
        hellos
    }

    /// Returns the next end of a program: its number and its status.
    pub(crate) fn take_exit(&mut self) -> Option<(usize, i32)> {
        match self.take_first(|event| matches!(event, ControlEvent::Exited { .. }))? {
            ControlEvent::Exited { program, status } => Some((program, status)),
            _ => None,
        }
    }

    /// Returns the next connection that has closed.
    pub(crate) fn take_closed(&mut self) -> Option<u64> {
        self.take_first(|event| event.closed().is_some())?.closed()
    }

    /// Takes the end of this connection. Returns whether the connection has closed.
    pub(crate) fn take_closed_of(&mut self, connection: Option<u64>) -> bool {
        self.take_first(|event| event.closed().is_some_and(|closed| Some(closed) == connection)).is_some()
    }

    /// Returns the connections that have closed, although the engine has not handled their ends.
    pub(crate) fn closed(&self) -> Vec<u64> {
        self.events.iter().filter_map(ControlEvent::closed).collect()
    }

    /// Takes the return of this thread by this connection. Returns whether it has come.
    pub(crate) fn take_back_of(&mut self, of: u64, thread: u32) -> bool {
        self.take_first(|event| matches!(event, ControlEvent::Back { connection, slot } if (*connection, *slot) == (of, thread))).is_some()
    }

    /// Drops all events.
    pub(crate) fn clear(&mut self) {
        self.events.clear();
    }
}
