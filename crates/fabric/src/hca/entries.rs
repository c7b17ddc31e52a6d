//! Queue entries on the bus: doorbells, WQEs and completions beside payload.

use super::Hca;
use softband_model::transport::MessageKind;
use softband_sim::{SimDuration, SimTime};

/// Bytes of a doorbell (rdma-core, providers mthca, mlx4 and mlx5: a write of 8 bytes).
const DOORBELL_BYTES: u32 = 8;

impl Hca {
    /// Carries the doorbell of a send request with `inline_bytes` of inline data.
    pub(super) fn ring(&mut self, is_datagram: bool, inline_bytes: u32, now: SimTime) {
        let wqe_bytes = self.wqe_bytes(is_datagram, inline_bytes);
        if wqe_bytes > 0 {
            let bytes = if self.part.entries.doorbell_carries_wqe { wqe_bytes } else { DOORBELL_BYTES };
            self.bus.entry_to_card(now, bytes);
        }
    }

    /// Carries the WQE of a message that starts, unless it has come with the doorbell.
    pub(super) fn fetch_send_wqe(&mut self, kind: MessageKind, inline_bytes: u32, now: SimTime) {
        let wqe_bytes = self.wqe_bytes(kind == MessageKind::Datagram, inline_bytes);
        if wqe_bytes > 0 && !self.part.entries.doorbell_carries_wqe {
            self.bus.entry_to_host(now, 0);
            self.bus.entry_to_card(now, wqe_bytes);
        }
    }

    /// Carries the receive WQE of a new message, and lets DMA writes pause for it.
    pub(super) fn fetch_receive_wqe(&mut self, now: SimTime) {
        let bytes = self.part.entries.receive_wqe_bytes;
        if bytes > 0 {
            self.bus.entry_to_host(now, 0);
            self.bus.entry_to_card(now, bytes);
        }
        if self.part.receive_wqe_pause > SimDuration::ZERO {
            self.bus.pause_writes(now, self.part.receive_wqe_pause);
        }
    }

    /// Carries a completion.
    pub(super) fn write_completion(&mut self, now: SimTime) {
        let bytes = self.part.entries.completion_bytes;
        if bytes > 0 {
            self.bus.entry_to_host(now, bytes);
        }
    }

    /// Returns the time in which inline data of a queue pair reaches the HCA.
    pub(super) fn inline_time(&self, bytes: u32) -> SimDuration {
        SimDuration::from_picos(self.inline_rate.map_or(0, |rate| u64::from(bytes) * 1_000_000_000_000 / rate.max(1)))
    }

    /// Returns the size of a WQE, or 0 if entries cost nothing.
    fn wqe_bytes(&self, is_datagram: bool, inline_bytes: u32) -> u32 {
        let entries = &self.part.entries;
        let bytes = if is_datagram { entries.datagram_wqe_bytes } else { entries.send_wqe_bytes };
        if bytes > 0 { bytes + inline_bytes } else { 0 }
    }
}
