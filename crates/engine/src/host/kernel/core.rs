//! Costs of the kernel's work, and the cores that pay for it.

use softband_model::parts::KernelPath;
use softband_net::{Charge, InterfaceId};
use softband_sim::{SimDuration, SimTime};

/// Bytes of a page.
const PAGE_BYTES: u64 = 4_096;
/// Most bytes of packets that a card or its driver joins to one: that of an IP packet.
pub(super) const JOINED_BYTES_MAX: u32 = 65_535;

/// The core that serves an interface. Work begins when earlier work has ended, so a busy core
/// handles more packets at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Core {
    free_at: SimTime,
}

impl Core {
    /// Returns the earliest time at which work can begin.
    pub(super) fn begin(&self, now: SimTime) -> SimTime {
        self.free_at.max(now)
    }

    /// Does work that takes `cost` at `now` or later. Returns its end.
    pub(super) fn work(&mut self, now: SimTime, cost: SimDuration) -> SimTime {
        self.free_at = self.begin(now) + cost;
        self.free_at
    }
}

/// Packets that came with another as one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Joined {
    /// Packets that the core joined, not the card.
    pub(super) packets: u32,
    /// Bytes of all.
    pub(super) bytes: u64,
}

/// Returns the price of the kernel's work. The latency of the management network contains that of
/// its packets (`is_ideal`).
pub(super) fn price(path: &KernelPath, pin_page: SimDuration, charge: Charge, is_ideal: impl Fn(InterfaceId) -> bool) -> SimDuration {
    match charge {
        Charge::Call => path.call,
        Charge::Copied { bytes } => path.copy(u64::from(bytes)),
        // Parts of a call share pages, so bytes count.
        Charge::Pinned { bytes } => share_of_page(pin_page, bytes),
        Charge::Sent { interface, .. } | Charge::Received { interface, .. } if is_ideal(interface) => SimDuration::ZERO,
        // The card cuts super-segments. Without such a card the stack sends single packets.
        Charge::Sent { .. } => path.send_packet,
        Charge::Received { packets, .. } => path.receive_packet * u64::from(packets),
    }
}

/// Returns the time of a page times the pages that the bytes fill.
fn share_of_page(page: SimDuration, bytes: u32) -> SimDuration {
    let picos = u128::from(page.as_picos()) * u128::from(bytes) / u128::from(PAGE_BYTES);
    SimDuration::from_picos(u64::try_from(picos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_page_costs_its_time_to_the_picosecond() {
        let page = SimDuration::from_picos(4_095);
        assert_eq!([4_096, 8_192, 1].map(|bytes| share_of_page(page, bytes).as_picos()), [4_095, 8_190, 0]);
    }
}
