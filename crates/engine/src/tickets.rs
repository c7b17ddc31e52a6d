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

/// Every ticket of this engine.
#[derive(Debug, Default)]
pub(crate) struct Tickets(BTreeMap<u64, Issued>);

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
            if ticket != 0 && !self.0.contains_key(&ticket) {
                self.0.insert(ticket, Issued { grant, is_used: false });
                return Ok(ticket);
            }
        }
    }

    /// Returns the grant of a ticket and whether it was used before. From now on it is.
    pub(crate) fn present(&mut self, ticket: u64) -> Option<(Grant, bool)> {
        let issued = self.0.get_mut(&ticket)?;
        let was_used = std::mem::replace(&mut issued.is_used, !matches!(issued.grant, Grant::Offspring(_)));
        Some((issued.grant, was_used))
    }

    /// Whether this ticket admits a new image of a process.
    pub(crate) fn is_for_image(&self, ticket: u64) -> bool {
        matches!(self.0.get(&ticket), Some(Issued { grant: Grant::Image(_), is_used: false }))
    }

    /// Whether a new image of this process is announced.
    pub(crate) fn announces_image_of(&self, process: usize) -> bool {
        self.0.values().any(|issued| issued.grant == Grant::Image(process) && !issued.is_used)
    }

    /// The new image of this process does not come.
    pub(crate) fn withdraw_images_of(&mut self, process: usize) {
        self.0.retain(|_, issued| issued.grant != Grant::Image(process) || issued.is_used);
    }

    /// A ticket will not be used. Returns the process that was expected by it.
    pub(crate) fn withdraw(&mut self, ticket: u64) -> Option<usize> {
        match self.0.get(&ticket)? {
            Issued { is_used: false, grant: Grant::Process(process) } => {
                let process = *process;
                self.0.remove(&ticket);
                Some(process)
            }
            Issued { is_used: false, grant: Grant::Image(_) } => {
                self.0.remove(&ticket);
                None
            }
            _ => None,
        }
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
}
