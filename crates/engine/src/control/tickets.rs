//! Tickets: 64 random bits by which a process image proves its identity to the engine.
//!
//! A ticket admits one image. The engine refuses a used ticket, unless its bearer descends from the
//! first holder according to the kernel. A statically linked shell cannot attach, but the programs
//! that it starts can. Some processes attach by the secret that the engine gave their parent at its
//! attach. These are processes that the parent started past the library, and in wall pace its
//! children by `fork`.

use std::collections::BTreeMap;

/// Right that a ticket grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// To be the image of this expected process.
    Process(usize),
    /// To be the new image of this process, which an exec replaces.
    Image(usize),
    /// To be the new image of this process, on another host.
    Moved { process: usize, host: usize },
    /// To be a new process of `program` on this host. `pid` is the process of the command line, which
    /// becomes the program.
    Host { host: usize, program: usize, pid: i32 },
    /// To be a new child of this process, any number of times.
    Offspring(usize),
}

impl Grant {
    /// Returns the process whose next image comes by this ticket.
    fn image_of(self) -> Option<usize> {
        match self {
            Self::Image(process) | Self::Moved { process, .. } => Some(process),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Issued {
    grant: Grant,
    is_used: bool,
}

/// Number of tickets before the first sweep.
const SWEEP_FIRST: usize = 1024;

/// All tickets of this engine that may still admit a process.
#[derive(Debug)]
pub(crate) struct Tickets {
    issued: BTreeMap<u64, Issued>,
    /// Tickets for new images that have not attached yet.
    images: BTreeMap<usize, Vec<u64>>,
    /// Number of tickets at which the next sweep is due.
    sweep_at: usize,
}

impl Default for Tickets {
    fn default() -> Self {
        Self { issued: BTreeMap::new(), images: BTreeMap::new(), sweep_at: SWEEP_FIRST }
    }
}

impl Tickets {
    /// Issues a ticket.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(crate) fn issue(&mut self, grant: Grant) -> std::io::Result<u64> {
        loop {
            let mut bytes = [0; 8];
            rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
            let ticket = u64::from_ne_bytes(bytes);
            // The value 0 is never a ticket: a program without a ticket presents it.
            if ticket != 0 && !self.issued.contains_key(&ticket) {
                self.issued.insert(ticket, Issued { grant, is_used: false });
                if let Some(process) = grant.image_of() {
                    self.images.entry(process).or_default().push(ticket);
                }
                return Ok(ticket);
            }
        }
    }

    /// Returns the grant of a ticket, and whether the ticket was used before. Marks the ticket as
    /// used, unless it grants `Offspring`.
    pub(crate) fn present(&mut self, ticket: u64) -> Option<(Grant, bool)> {
        let issued = self.issued.get_mut(&ticket)?;
        let was_used = std::mem::replace(&mut issued.is_used, !matches!(issued.grant, Grant::Offspring(_)));
        let grant = issued.grant;
        self.is_awaited_no_more(ticket, grant);
        Some((grant, was_used))
    }

    /// Returns whether this unused ticket admits a new image of a process.
    pub(crate) fn is_for_image(&self, ticket: u64) -> bool {
        self.issued.get(&ticket).is_some_and(|issued| !issued.is_used && issued.grant.image_of().is_some())
    }

    /// Returns whether the engine expects a new image of this process.
    pub(crate) fn announces_image_of(&self, process: usize) -> bool {
        self.images.contains_key(&process)
    }

    /// Withdraws the tickets for new images of this process, which will not attach.
    pub(crate) fn withdraw_images_of(&mut self, process: usize) {
        for ticket in self.images.remove(&process).unwrap_or_default() {
            self.issued.remove(&ticket);
        }
    }

    /// Withdraws an unused ticket. Returns the process that the engine expected by it.
    pub(crate) fn withdraw(&mut self, ticket: u64) -> Option<usize> {
        let Issued { is_used: false, grant } = *self.issued.get(&ticket)? else { return None };
        match grant {
            Grant::Process(process) => {
                self.issued.remove(&ticket);
                Some(process)
            }
            Grant::Image(_) | Grant::Moved { .. } => {
                self.issued.remove(&ticket);
                self.is_awaited_no_more(ticket, grant);
                None
            }
            _ => None,
        }
    }

    fn is_awaited_no_more(&mut self, ticket: u64, grant: Grant) {
        if let Some(process) = grant.image_of()
            && let Some(awaited) = self.images.get_mut(&process)
        {
            awaited.retain(|of| *of != ticket);
            if awaited.is_empty() {
                self.images.remove(&process);
            }
        }
    }

    /// Returns whether the number of tickets makes a sweep worthwhile.
    pub(crate) fn is_sweep_due(&self) -> bool {
        self.issued.len() >= self.sweep_at
    }

    /// Drops used tickets whose grant admits no process any more, according to `admits_somebody`.
    /// Secrets for offspring stay: a child may outlive its parent and attach long after.
    pub(crate) fn sweep(&mut self, admits_somebody: impl Fn(Grant) -> bool) {
        self.issued.retain(|_, issued| !issued.is_used || admits_somebody(issued.grant));
        self.sweep_at = SWEEP_FIRST.max(self.issued.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_new_each_time_and_used_once() {
        let mut tickets = Tickets::default();
        let (one, other) = (tickets.issue(Grant::Process(0)).unwrap(), tickets.issue(Grant::Process(0)).unwrap());
        assert_ne!(one, other);
        assert_eq!(tickets.present(one), Some((Grant::Process(0), false)));
        assert_eq!(tickets.present(one), Some((Grant::Process(0), true)));
        assert_eq!(tickets.present(0), None);
    }

    #[test]
    fn a_secret_for_offspring_is_used_any_number_of_times() {
        let mut tickets = Tickets::default();
        let secret = tickets.issue(Grant::Offspring(3)).unwrap();
        assert_eq!(tickets.present(secret), Some((Grant::Offspring(3), false)));
        assert_eq!(tickets.present(secret), Some((Grant::Offspring(3), false)));
    }

    #[test]
    fn only_tickets_that_were_not_used_are_withdrawn() {
        let mut tickets = Tickets::default();
        let child = tickets.issue(Grant::Process(1)).unwrap();
        let image = tickets.issue(Grant::Image(0)).unwrap();
        assert!(tickets.announces_image_of(0));
        assert_eq!(tickets.withdraw(child), Some(1));
        assert_eq!(tickets.present(child), None);
        tickets.present(image);
        assert!(!tickets.announces_image_of(0));
        assert_eq!(tickets.withdraw(image), None);
        tickets.withdraw_images_of(0);
        assert_eq!(tickets.present(image), Some((Grant::Image(0), true)));
    }

    #[test]
    fn an_image_is_announced_until_it_comes_or_is_withdrawn() {
        let mut tickets = Tickets::default();
        let images: Vec<u64> = (0..3).map(|_| tickets.issue(Grant::Image(4)).unwrap()).collect();
        tickets.present(images[0]);
        assert!(tickets.announces_image_of(4) && !tickets.announces_image_of(0));
        tickets.withdraw(images[1]);
        assert!(tickets.announces_image_of(4));
        tickets.withdraw_images_of(4);
        assert!(!tickets.announces_image_of(4));
        assert_eq!(tickets.present(images[2]), None);
        assert_eq!(tickets.present(images[0]), Some((Grant::Image(4), true)));
        let moved = tickets.issue(Grant::Moved { process: 4, host: 1 }).unwrap();
        assert!(tickets.announces_image_of(4) && tickets.is_for_image(moved));
        tickets.withdraw(moved);
        assert!(!tickets.announces_image_of(4));
    }

    #[test]
    fn used_tickets_go_when_nobody_can_come_by_them() {
        let mut tickets = Tickets::default();
        let mut secrets = Vec::new();
        let mut used = Vec::new();
        for process in 0..SWEEP_FIRST {
            used.push(tickets.issue(Grant::Process(process)).unwrap());
            tickets.present(used[process]);
            secrets.push(tickets.issue(Grant::Offspring(process)).unwrap());
        }
        let fresh = tickets.issue(Grant::Host { host: 0, program: 0, pid: 1 }).unwrap();
        assert!(tickets.is_sweep_due());
        tickets.sweep(|grant| grant == Grant::Process(7));
        assert!(!tickets.is_sweep_due());
        assert_eq!(tickets.issued.len(), secrets.len() + 2);
        assert_eq!(tickets.present(used[7]), Some((Grant::Process(7), true)));
        assert_eq!(tickets.present(used[8]), None);
        assert_eq!(tickets.present(secrets[8]), Some((Grant::Offspring(8), false)));
        assert!(tickets.present(fresh).is_some());
    }
}
