//! Posts of a thread since its last turn: consecutive records in `ThreadSlot::posted`.

use bytemuck::{Pod, Zeroable};

/// Kinds of record.
pub mod kind {
    pub const SEND: u32 = 1;
    pub const RECEIVE: u32 = 2;
    /// `req_notify_cq` of a CQ without an arming word (`softband_shm_transport::arming`). `object` is the
    /// CQ; `flags` is 1 for solicited only.
    pub const ARM_CQ: u32 = 3;
    /// `object` is the shared receive queue.
    pub const SRQ_RECEIVE: u32 = 4;
    /// In wall pace: CQ `object` has no room for a completion that the program carries out itself.
    pub const CQ_OVERRUN: u32 = 5;
    /// In wall pace: queue pair `object` is about to reach a peer in RTR. The engine informs that
    /// peer. For datagrams, `path` and `remote_qpn` name it.
    pub const ESTABLISHED: u32 = 6;
    /// In wall pace: CQ `object` of this process has a due event for the engine to raise.
    pub const NOTIFY_OWN: u32 = 7;
    /// The same for the CQ in which the peer of queue pair `object` receives.
    pub const NOTIFY_PEER: u32 = 8;
    /// In wall pace: a MAD leaves by the open file `object`. The inline data is its record.
    pub const MAD: u32 = 9;
}

/// Most bytes of a record with one MAD: the header of `umadN` and the MAD. In wall pace the socket of
/// an open file carries such records. A byte announces a longer one.
pub const SHORT_MAD_BYTES: usize = 64 + 256;

/// Bits of [`PostRecord::flags`] of a send.
pub mod send_flags {
    pub const FENCE: u32 = 1;
    pub const SIGNALED: u32 = 2;
    pub const SOLICITED: u32 = 4;
    pub const INLINE: u32 = 8;
}

/// Opcodes of a send, as `enum ibv_wr_opcode` numbers them.
pub mod opcode {
    pub const RDMA_WRITE: u32 = 0;
    pub const RDMA_WRITE_WITH_IMM: u32 = 1;
    pub const SEND: u32 = 2;
    pub const SEND_WITH_IMM: u32 = 3;
    pub const RDMA_READ: u32 = 4;
    pub const ATOMIC_CMP_AND_SWP: u32 = 5;
    pub const ATOMIC_FETCH_AND_ADD: u32 = 6;
    /// Invalidates `rkey`.
    pub const LOCAL_INV: u32 = 7;
    /// `rkey` is the window's next key. A [`super::BindInfo`] replaces the inline data.
    pub const BIND_MW: u32 = 8;
    /// Invalidates the peer's key `rkey`.
    pub const SEND_WITH_INV: u32 = 9;
    pub const ATOMIC_WRITE: u32 = 15;
}

/// Fixed part of a record. `sge_count` entries follow, then `inline_len` bytes, padded to eight.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct PostRecord {
    pub kind: u32,
    pub flags: u32,
    /// Time of the post, by the thread's clock.
    pub time_ps: u64,
    pub hca: u32,
    /// QP number, or the CQ of an arm.
    pub object: u32,
    pub wr_id: u64,
    pub opcode: u32,
    pub sge_count: u32,
    pub inline_len: u32,
    /// Immediate data in host order.
    pub immediate: u32,
    pub remote_address: u64,
    pub rkey: u32,
    pub ah: u32,
    pub compare_or_add: u64,
    pub swap: u64,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
    /// For XRC: number of the shared receive queue.
    pub xrc_srq: u32,
    /// For a datagram that the poster carries out: the route of `ah` ([`path`]). 0 if the engine
    /// carries the datagram out.
    pub path: u32,
}

/// First LID of multicast groups.
pub const MULTICAST_LIDS: u16 = 0xC000;

/// Returns the path to a queue pair or a group, for [`PostRecord::path`].
pub const fn path(lid: u16, service_level: u8) -> u32 {
    (service_level as u32) << 16 | lid as u32
}

/// Set in a [`path`] that also has a global route, which [`PostRecord::set_route`] has put into the
/// record.
pub const HAS_ROUTE: u32 = 1 << 24;

/// Set in a [`path`] on Ethernet, whose LID programs must not see.
pub const ON_ETHERNET: u32 = 1 << 25;

/// Fields of a datagram's global route header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalRoute {
    pub dgid: [u8; 16],
    /// Version, traffic class and flow label (IBTA 8.3), from the top.
    pub first_word: u32,
    pub hop_limit: u8,
    /// On Ethernet: IPv4 address of the source, if it has one, as a big-endian number.
    pub source_ipv4: u32,
}

impl PostRecord {
    /// Puts a global route into the fields for remote memory, which datagrams do not use.
    pub fn set_route(&mut self, route: &GlobalRoute) {
        self.remote_address = u64::from(route.hop_limit) << 32 | u64::from(route.first_word);
        let dgid = u128::from_be_bytes(route.dgid);
        (self.compare_or_add, self.swap) = ((dgid >> 64) as u64, dgid as u64);
        self.rkey = route.source_ipv4;
    }

    /// Returns the route that [`Self::set_route`] has put into the record.
    pub fn route(&self) -> GlobalRoute {
        let dgid = u128::from(self.compare_or_add) << 64 | u128::from(self.swap);
        let (first_word, hop_limit) = (self.remote_address as u32, (self.remote_address >> 32) as u8);
        GlobalRoute { dgid: dgid.to_be_bytes(), first_word, hop_limit, source_ipv4: self.rkey }
    }
}

/// Returns the LID and the service level of a [`path`].
pub const fn split_path(path: u32) -> (u16, u8) {
    (path as u16, (path >> 16) as u8)
}

/// Target of a bind of a memory window.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct BindInfo {
    pub mw: u32,
    /// Handle of the region; 0 for none.
    pub mr: u32,
    pub address: u64,
    pub len_bytes: u64,
    /// `IBV_ACCESS_` bits.
    pub access: u32,
    pub reserved: u32,
}

/// A scatter-gather entry.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct PostSge {
    pub address: u64,
    pub len_bytes: u32,
    pub lkey: u32,
}

/// Returns the bytes of a record with its entries and inline data.
pub const fn record_bytes(sge_count: usize, inline_len: usize) -> usize {
    size_of::<PostRecord>() + sge_count * size_of::<PostSge>() + inline_len.next_multiple_of(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_carries_the_whole_route() {
        let dgid = std::array::from_fn(|byte| 0xF0 + byte as u8);
        let route = GlobalRoute { dgid, first_word: 0xFEDC_BA98, hop_limit: 0xFF, source_ipv4: 0x0A4D_0001 };
        let mut record = PostRecord::zeroed();
        record.set_route(&route);
        assert_eq!(record.route(), route);
        assert_eq!(split_path(path(0xBFFF, 15) | HAS_ROUTE | ON_ETHERNET), (0xBFFF, 15));
    }
}
