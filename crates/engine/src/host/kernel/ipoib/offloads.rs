//! Work of TCP/IP that the HCA or the driver does for an interface.

use super::IpoibLink;
use softband_model::parts::{IpoibOffloads, KernelPart};
use softband_spec::IpoibMode;

/// Least payload of a datagram of a super-segment beside its headers, in bytes.
const HEADERS_BYTES: u32 = 128;

/// Work that the core does not do.
#[derive(Clone, Copy, Debug)]
pub(in crate::host::kernel) struct Offloads {
    /// The HCA computes and checks checksums.
    checksums: bool,
    /// The HCA cuts super-segments.
    pub(in crate::host::kernel) segmentation: bool,
    /// The driver joins received segments.
    pub(super) aggregation: bool,
    super_segment_bytes: u32,
    /// Packets in the kernel's backlog, to which an interrupt moves them. `None`: they stay in the ring
    /// until a core takes them (NAPI).
    pub(super) backlog: Option<u32>,
}

impl Offloads {
    /// Returns the work that the driver leaves to the HCA. Connected mode has none
    /// (`ipoib_set_mode`).
    pub(in crate::host::kernel) fn of(hca: &IpoibOffloads, kernel: &KernelPart, mode: IpoibMode) -> Self {
        let is_datagram = mode == IpoibMode::Datagram;
        let is_used = kernel.ipoib_offloads && is_datagram;
        // Linux offers segmentation only with checksums (`ipoib_set_dev_features`).
        let (checksums, segmentation) = (is_used && hca.checksums, is_used && hca.checksums && hca.segmentation);
        Self {
            checksums,
            segmentation,
            aggregation: kernel.ipoib_aggregation && is_datagram,
            super_segment_bytes: kernel.super_segment_bytes,
            backlog: kernel.ipoib_backlog_packets,
        }
    }

    /// Returns the most datagrams of a frame of the stack.
    pub(super) fn packets_max(&self, datagram_bytes: u32) -> u32 {
        let payload = datagram_bytes.saturating_sub(HEADERS_BYTES).max(1);
        if self.segmentation { self.super_segment_bytes.div_ceil(payload) } else { 1 }
    }
}

impl IpoibLink {
    /// Returns the most packets of a super-segment: all must find room in the send ring.
    pub(in crate::host::kernel) fn super_segment_packets(&self) -> u32 {
        self.sender.slots()
    }

    /// Returns whether the driver joins received segments.
    pub(in crate::host::kernel) fn joins(&self) -> bool {
        self.offloads.aggregation
    }

    /// Returns whether the HCA computes checksums.
    pub(in crate::host::kernel) fn sums(&self) -> bool {
        self.offloads.checksums
    }
}
