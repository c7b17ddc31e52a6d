//! An audit of queue pairs: every requester agrees with itself.

use super::Hcas;

impl Hcas {
    /// Checks all requesters between two events.
    ///
    /// # Errors
    /// A description of the first requester whose queue, places or PSNs disagree.
    pub(crate) fn audit(&self) -> Result<(), String> {
        self.qps.iter().flatten().try_for_each(|slot| {
            let described = |error| format!("queue pair {:#x} of HCA {}: {error}", slot.qp.attributes.qpn.0, slot.qp.hca.0);
            slot.qp.requester.audit().map_err(described)
        })
    }
}
