//! Wakes an engine that sleeps when a relayed socket has news. The engine sleeps on a word of memory,
//! so a thread waits for the sockets in its place.

use crate::control::socket::Mailbox;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The engine's side of the thread.
#[derive(Debug)]
pub(super) struct Watch {
    shared: Arc<(Mutex<bool>, Condvar)>,
}

impl Watch {
    /// Starts the thread, which ends with the process.
    ///
    /// # Errors
    /// If the system has no thread or no descriptor for it.
    pub(super) fn start(poller: &OwnedFd, mailbox: Arc<Mailbox>) -> std::io::Result<Self> {
        let (poller, shared) = (poller.try_clone()?, Arc::new((Mutex::new(false), Condvar::new())));
        let of_thread = shared.clone();
        std::thread::Builder::new().name("relay".into()).spawn(move || {
            loop {
                await_order(&of_thread);
                let mut polled = [PollFd::new(&poller, PollFlags::IN)];
                let _ = rustix::event::poll(&mut polled, None);
                *of_thread.0.lock().unwrap_or_else(PoisonError::into_inner) = false;
                mailbox.call();
            }
        })?;
        Ok(Self { shared })
    }

    /// Lets the thread wake the engine at the next news. The engine is about to sleep.
    pub(super) fn order(&self) {
        let (ordered, condition) = &*self.shared;
        let was_ordered = std::mem::replace(&mut *ordered.lock().unwrap_or_else(PoisonError::into_inner), true);
        if !was_ordered {
            condition.notify_one();
        }
    }
}

fn await_order((ordered, condition): &(Mutex<bool>, Condvar)) {
    let ordered = ordered.lock().unwrap_or_else(PoisonError::into_inner);
    drop(condition.wait_while(ordered, |ordered| !*ordered).unwrap_or_else(PoisonError::into_inner));
}
