//! Tickets: 64 random bits by which a process image proves to the engine which process it is to be.
//!
//! A ticket admits one image. The engine refuses a used ticket, unless the kernel says that
//! its bearer descends from the first holder: a statically linked shell cannot attach, but the programs that it starts can.
//! What an attached process starts past the library, and its children by `fork` in wall pace, come by the secret that the engine gave
//! it at attach.

use std::collections::BTreeMap;

/// What a ticket is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// To be the image of this process, which is expected.
    Process(usize),
    /// To be the new image of this process, which is replaced.
    Image(usize),
    /// To be a new process on this host; for the process `pid` of the command line, which becomes the program.
    Host { host: usize, pid: i32 },
    /// To be a new process that this process has made; any number of times.
    Offspring(usize),
}

#[derive(Clone, Copy, Debug)]
struct Issued {
    grant: Grant,
    is_used: bool,
}

/// How many there are before the first look for those that can go.
const SWEEP_FIRST: usize = 1024;

/// Every ticket of this engine by which somebody may still come.
#[derive(Debug)]
pub(crate) struct Tickets {
    issued: BTreeMap<u64, Issued>,
    /// Tickets for new images that have not come.
    images: BTreeMap<usize, Vec<u64>>,
    /// With so many there is a look for those that can go.
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
    /// When the system has no random numbers.
    pub(crate) fn issue(&mut self, grant: Grant) -> std::io::Result<u64> {
        loop {
            let mut bytes = [0; 8];
            rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
            let ticket = u64::from_ne_bytes(bytes);
            // Nobody is given 0, which a program without a ticket presents.
            if ticket != 0 && !self.issued.contains_key(&ticket) {
                self.issued.insert(ticket, Issued { grant, is_used: false });
                if let Grant::Image(process) = grant {
                    self.images.entry(process).or_default().push(ticket);
                }
                return Ok(ticket);
            }
        }
    }

    /// Returns the grant of a ticket and whether it was used before. From now on it is.
    pub(crate) fn present(&mut self, ticket: u64) -> Option<(Grant, bool)> {
        let issued = self.issued.get_mut(&ticket)?;
        let was_used = std::mem::replace(&mut issued.is_used, !matches!(issued.grant, Grant::Offspring(_)));
        let grant = issued.grant;
        self.is_awaited_no_more(ticket, grant);
        Some((grant, was_used))
    }

    /// Whether this ticket admits a new image of a process.
    pub(crate) fn is_for_image(&self, ticket: u64) -> bool {
        matches!(self.issued.get(&ticket), Some(Issued { grant: Grant::Image(_), is_used: false }))
    }

    /// Whether a new image of this process is announced.
    pub(crate) fn announces_image_of(&self, process: usize) -> bool {
        self.images.contains_key(&process)
    }

    /// The new image of this process does not come.
    pub(crate) fn withdraw_images_of(&mut self, process: usize) {
        for ticket in self.images.remove(&process).unwrap_or_default() {
            self.issued.remove(&ticket);
        }
    }

    /// A ticket will not be used. Returns the process that was expected by it.
    pub(crate) fn withdraw(&mut self, ticket: u64) -> Option<usize> {
        let Issued { is_used: false, grant } = *self.issued.get(&ticket)? else { return None };
        match grant {
            Grant::Process(process) => {
                self.issued.remove(&ticket);
                Some(process)
            }
            Grant::Image(_) => {
                self.issued.remove(&ticket);
                self.is_awaited_no_more(ticket, grant);
                None
            }
            _ => None,
        }
    }

    fn is_awaited_no_more(&mut self, ticket: u64, grant: Grant) {
        if let Grant::Image(process) = grant
            && let Some(awaited) = self.images.get_mut(&process)
        {
            awaited.retain(|of| *of != ticket);
            if awaited.is_empty() {
                self.images.remove(&process);
            }
        }
    }

    /// Whether there are so many that a look for those that can go is worth its time.
    pub(crate) fn is_sweep_due(&self) -> bool {
        self.issued.len() >= self.sweep_at
    }

    /// Drops used tickets that admit nobody any more, as their grant `admits_somebody` or not. Secrets for offspring stay: a child may outlive
    /// its parent and attach long after.
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
        let fresh = tickets.issue(Grant::Host { host: 0, pid: 1 }).unwrap();
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
