//! Waits for objects of the engine and descriptors of the kernel at once.

use crate::time::pace::{Patience, empty_poll, idle_if_at_once, pay_for_call};
use softband_client::{self as client, Errno};
use softband_ipc::calls::readiness::{ERROR, HANG_UP, PEER_ENDED, READABLE, URGENT, WRITABLE};
use softband_ipc::calls::{WaitEntry, WaitRequest, op, reason};

/// Converts readiness bits to events of `poll`.
pub fn to_poll(ready: u32) -> i16 {
    let mut events = 0;
    for (bit, event) in [
        (READABLE, libc::POLLIN | libc::POLLRDNORM),
        (WRITABLE, libc::POLLOUT | libc::POLLWRNORM),
        (URGENT, libc::POLLPRI),
        (PEER_ENDED, libc::POLLRDHUP),
        (HANG_UP, libc::POLLHUP),
        (ERROR, libc::POLLERR),
    ] {
        if ready & bit != 0 {
            events |= event;
        }
    }
    events
}

/// Converts events of `poll` to readiness bits. Errors and hang-ups are always of interest.
pub fn from_poll(events: i16) -> u32 {
    let mut interest = HANG_UP | ERROR;
    if events & (libc::POLLIN | libc::POLLRDNORM) != 0 {
        interest |= READABLE;
    }
    if events & (libc::POLLOUT | libc::POLLWRNORM) != 0 {
        interest |= WRITABLE;
    }
    if events & libc::POLLPRI != 0 {
        interest |= URGENT;
    }
    if events & libc::POLLRDHUP != 0 {
        interest |= PEER_ENDED;
    }
    interest
}

pub fn entry(object: u32, interest: u32) -> WaitEntry {
    WaitEntry { object, interest, ready: 0, seen: 0 }
}

/// The kernel's side of a wait.
pub trait Native {
    /// Returns the number of ready descriptors of the kernel.
    fn poll(&mut self) -> Result<usize, Errno>;
    /// Waits for a descriptor without a limit. Meanwhile the thread waits for no object of the
    /// engine.
    fn block(&mut self);
}

/// Waits until something is ready or the deadline comes. Returns the number of ready entries.
/// `native` is `None` if the kernel has no descriptors.
pub fn wait(entries: &mut [WaitEntry], mut native: Option<&mut dyn Native>, deadline: u64) -> Result<usize, Errno> {
    let no_wait = deadline <= client::now_ps();
    pay_for_call();
    let patience = Patience::new();
    if no_wait && native.is_some() {
        client::ask_kernel();
    }
    loop {
        let native_ready = native.as_mut().map_or(Ok(0), |native| native.poll())?;
        let now = client::now_ps();
        let over = native_ready > 0 || deadline <= now;
        let until = match native {
            _ if over => now,
            Some(_) => patience.next_poll(now).min(deadline),
            None => deadline,
        };
        let raised = crate::signal::actions::raised();
        let ready = idle_if_at_once(|| {
            if native.is_some() && !over { client::awaiting_kernel(|| ask(entries, until, over)) } else { ask(entries, until, over) }
        })?;
        if ready + native_ready == 0 && crate::signal::actions::raised() != raised {
            return Err(Errno(libc::EINTR));
        }
        if ready + native_ready > 0 {
            return Ok(ready + native_ready);
        }
        if over {
            if no_wait {
                empty_poll();
            }
            return Ok(0);
        }
        if let Some(native) = &mut native
            && entries.is_empty()
            && deadline == u64::MAX
            && patience.is_over()
        {
            crate::runtime::world::away(|| native.block());
        }
    }
}

/// Waits for the entries until `until`, in one turn. Returns the number of ready entries.
fn ask(entries: &mut [WaitEntry], until: u64, over: bool) -> Result<usize, Errno> {
    if entries.is_empty() {
        // A poll of the kernel alone also lets other threads run up to this time.
        if over {
            client::sync();
        } else {
            crate::time::pace::sleep_until(until)?;
        }
        return Ok(0);
    }
    let request = WaitRequest { deadline_ps: until, count: entries.len() as u32, reason: reason::NONE };
    let asked = entries.to_vec();
    let (reply, _) = client::call_with_tail::<op::Wait>(&request, &asked, entries)?;
    if reply.interrupted != 0 {
        return Err(Errno(libc::EINTR));
    }
    Ok(entries.iter().filter(|entry| entry.ready != 0).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_become_interests_and_back() {
        assert_eq!(from_poll(libc::POLLIN), READABLE | HANG_UP | ERROR);
        assert_eq!(from_poll(libc::POLLWRNORM), WRITABLE | HANG_UP | ERROR);
        assert_eq!(to_poll(READABLE | HANG_UP) & (libc::POLLIN | libc::POLLHUP | libc::POLLOUT), libc::POLLIN | libc::POLLHUP);
    }
}
