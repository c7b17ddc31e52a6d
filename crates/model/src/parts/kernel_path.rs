//! Costs of a kernel's path between a program's socket and a NIC.

use softband_sim::SimDuration;

/// Costs of TCP/IP on a core of a host. A call and its copied bytes cost the thread that calls.
/// Packets and interrupts cost the core that serves the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelPath {
    /// CPU time of a call on a socket, without its packets and its copied bytes.
    pub call: SimDuration,
    /// CPU time to send a packet or a super-segment: TCP or UDP, IP, the queue and the driver.
    pub send_packet: SimDuration,
    /// CPU time to receive a packet: the driver, IP, TCP or UDP, up to the socket.
    pub receive_packet: SimDuration,
    /// CPU time to receive a packet that the kernel joins to the one before it (GRO).
    pub join_packet: SimDuration,
    /// CPU time of an interrupt of the card, before its first packet.
    pub interrupt: SimDuration,
    /// Rate at which a core copies bytes between a program and the kernel, in bytes per second.
    pub copy_bytes_per_second: u64,
    /// Packets after which a card interrupts before `moderation_time` is over, at least 1.
    pub moderation_packets: u32,
    /// Time for which a card collects packets before it interrupts. Zero: it interrupts at once.
    pub moderation_time: SimDuration,
}

impl KernelPath {
    /// Returns a path without costs. A call takes 1 ps, so that no program polls forever at an
    /// instant.
    pub const fn free() -> Self {
        let none = SimDuration::ZERO;
        Self {
            call: SimDuration::from_picos(1),
            send_packet: none,
            receive_packet: none,
            join_packet: none,
            interrupt: none,
            copy_bytes_per_second: 1_000_000_000_000,
            moderation_packets: 1,
            moderation_time: none,
        }
    }

    /// Returns the time in which a core copies this many bytes between a program and the kernel,
    /// rounded down to a picosecond.
    pub fn copy(&self, bytes: u64) -> SimDuration {
        let picos = 1_000_000_000_000 * u128::from(bytes) / u128::from(self.copy_bytes_per_second.max(1));
        SimDuration::from_picos(u64::try_from(picos).unwrap_or(u64::MAX))
    }
}
