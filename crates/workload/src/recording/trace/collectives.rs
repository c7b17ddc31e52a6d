//! Collectives as rounds of messages, with the algorithms and limits of MPICH (Thakur, Rabenseifner
//! and Gropp 2005, "Optimization of Collective Communication Operations in MPICH").
//!
//! | call | algorithm |
//! |---|---|
//! | Barrier | dissemination |
//! | Bcast | binomial tree below 12 KiB or 8 ranks, else scatter and allgather |
//! | Reduce | binomial tree up to 2 KiB, else reduce-scatter by halves and gather |
//! | Allreduce | recursive doubling up to 2 KiB, else reduce-scatter and allgather by halves |
//! | Allgather | recursive doubling or Bruck below 512 KiB together, else a ring |
//! | Allgatherv | ring |
//! | Alltoall | Bruck up to 256 B from 8 ranks on, batches of 32 messages up to 32 KiB, else pairs |
//! | Alltoallv, Alltoallw | batches of 32 messages |
//! | Gather, Scatter | binomial tree |
//! | Gatherv, Scatterv | root with each rank |
//! | Reduce_scatter, Reduce_scatter_block | halves below 512 KiB at powers of two, else pairs |
//! | Scan, Exscan | recursive doubling |

mod rooted;
mod symmetric;

use crate::recording::Call;

const BCAST_SHORT_BYTES: u64 = 12_288;
const BCAST_FEW_RANKS: u32 = 8;
const REDUCE_SHORT_BYTES: u64 = 2_048;
const ALLGATHER_LONG_BYTES: u64 = 524_288;
const ALLTOALL_SHORT_BYTES: u64 = 256;
const ALLTOALL_FEW_RANKS: u32 = 8;
const ALLTOALL_LONG_BYTES: u64 = 32_768;
/// Ranks with which a rank exchanges at once (`MPIR_CVAR_ALLTOALL_THROTTLE`).
const BATCH_RANKS: u32 = 32;
/// Bytes by which ranks agree on a new communicator.
const AGREEMENT_BYTES: u64 = 8;

/// Messages of a rank that begin together: peers by place in the communicator, and bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Receivers and bytes.
    pub sends: Vec<(u32, u64)>,
    /// Senders and bytes.
    pub receives: Vec<(u32, u64)>,
}

impl Round {
    fn send(to: u32, bytes: u64) -> Self {
        Self { sends: vec![(to, bytes)], receives: Vec::new() }
    }

    fn receive(from: u32, bytes: u64) -> Self {
        Self { sends: Vec::new(), receives: vec![(from, bytes)] }
    }

    fn exchange(to: u32, from: u32, bytes: u64) -> Self {
        Self { sends: vec![(to, bytes)], receives: vec![(from, bytes)] }
    }
}

/// Collective with its sizes at one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Collective {
    /// No data.
    Barrier,
    /// Bytes of the message.
    Bcast(u64),
    /// Bytes of the vector.
    Reduce(u64),
    /// Bytes of the vector.
    Allreduce(u64),
    /// Bytes of a block.
    Allgather(u64),
    /// Bytes of each rank's block.
    Allgatherv(Vec<u64>),
    /// Bytes of a block.
    Alltoall(u64),
    /// Bytes for and from each rank.
    Alltoallv(Vec<u64>, Vec<u64>),
    /// Bytes of a block.
    Gather(u64),
    /// Bytes of a block.
    Scatter(u64),
    /// Own bytes, or bytes from each rank at the root.
    Gatherv(u64, Vec<u64>),
    /// Own bytes, or bytes for each rank at the root.
    Scatterv(u64, Vec<u64>),
    /// Bytes of each rank's block.
    ReduceScatter(Vec<u64>),
    /// Bytes of a block, the same for each rank.
    ReduceScatterBlock(u64),
    /// Bytes of the vector.
    Scan(u64),
}

impl Collective {
    /// Returns the collective of a call, or `None` for other calls.
    pub fn of(call: &Call) -> Option<Self> {
        let bytes = call.bytes.unwrap_or(0);
        let sizes = || call.sizes.clone().unwrap_or_default();
        let receive_sizes = || call.receive_sizes.clone().unwrap_or_default();
        Some(match call.name.as_str() {
            "MPI_Barrier" => Self::Barrier,
            "MPI_Bcast" => Self::Bcast(bytes),
            "MPI_Reduce" => Self::Reduce(bytes),
            "MPI_Allreduce" => Self::Allreduce(bytes),
            "MPI_Allgather" => Self::Allgather(bytes),
            "MPI_Allgatherv" => Self::Allgatherv(receive_sizes()),
            "MPI_Alltoall" => Self::Alltoall(bytes),
            "MPI_Alltoallv" | "MPI_Alltoallw" => Self::Alltoallv(sizes(), receive_sizes()),
            "MPI_Gather" => Self::Gather(bytes),
            "MPI_Scatter" => Self::Scatter(bytes),
            "MPI_Gatherv" => Self::Gatherv(bytes, receive_sizes()),
            "MPI_Scatterv" => Self::Scatterv(bytes, sizes()),
            "MPI_Reduce_scatter" => Self::ReduceScatter(sizes()),
            "MPI_Reduce_scatter_block" => Self::ReduceScatterBlock(bytes),
            "MPI_Scan" | "MPI_Exscan" => Self::Scan(bytes),
            "MPI_Comm_dup"
            | "MPI_Comm_dup_with_info"
            | "MPI_Comm_split"
            | "MPI_Comm_split_type"
            | "MPI_Comm_create"
            | "MPI_Cart_create"
            | "MPI_Cart_sub"
            | "MPI_Graph_create"
            | "MPI_Dist_graph_create_adjacent" => Self::Allreduce(AGREEMENT_BYTES),
            _ => return None,
        })
    }

    /// Returns the rounds of the rank at place `own` of `ranks`.
    pub fn rounds(&self, own: u32, root: u32, ranks: u32) -> Vec<Round> {
        let size = |sizes: &[u64], rank: u32| sizes.get(rank as usize).copied().unwrap_or(0);
        match self {
            _ if ranks < 2 => Vec::new(),
            Self::Barrier => symmetric::dissemination(own, ranks),
            Self::Bcast(bytes) if *bytes < BCAST_SHORT_BYTES || ranks < BCAST_FEW_RANKS => rooted::tree_down(own, root, ranks, |_| *bytes),
            Self::Bcast(bytes) => rooted::scatter_and_allgather(own, root, ranks, *bytes),
            Self::Reduce(bytes) if *bytes <= REDUCE_SHORT_BYTES => rooted::tree_up(own, root, ranks, |_| *bytes),
            Self::Reduce(bytes) => rooted::halves_and_gather(own, root, ranks, *bytes),
            Self::Allreduce(bytes) if *bytes <= REDUCE_SHORT_BYTES => symmetric::folded(own, ranks, *bytes, symmetric::doubling),
            Self::Allreduce(bytes) => symmetric::folded(own, ranks, *bytes, symmetric::halves_and_back),
            Self::Allgather(bytes) if bytes.saturating_mul(u64::from(ranks)) < ALLGATHER_LONG_BYTES => symmetric::allgather_short(own, ranks, *bytes),
            Self::Allgather(bytes) => symmetric::ring(own, ranks, |_| *bytes),
            Self::Allgatherv(sizes) => symmetric::ring(own, ranks, |rank| size(sizes, rank)),
            Self::Alltoall(bytes) if *bytes <= ALLTOALL_SHORT_BYTES && ranks >= ALLTOALL_FEW_RANKS => symmetric::bruck_alltoall(own, ranks, *bytes),
            Self::Alltoall(bytes) if *bytes <= ALLTOALL_LONG_BYTES => symmetric::batches(own, ranks, |_| *bytes, |_| *bytes),
            Self::Alltoall(bytes) => symmetric::pairs(own, ranks, |_| *bytes, |_| *bytes),
            Self::Alltoallv(sizes, receive_sizes) => symmetric::batches(own, ranks, |rank| size(sizes, rank), |rank| size(receive_sizes, rank)),
            Self::Gather(bytes) => rooted::tree_up(own, root, ranks, |blocks| bytes.saturating_mul(blocks)),
            Self::Scatter(bytes) => rooted::tree_down(own, root, ranks, |blocks| bytes.saturating_mul(blocks)),
            Self::Gatherv(bytes, sizes) => rooted::linear_in(own, root, ranks, *bytes, |rank| size(sizes, rank)),
            Self::Scatterv(bytes, sizes) => rooted::linear_out(own, root, ranks, *bytes, |rank| size(sizes, rank)),
            Self::ReduceScatter(sizes) => symmetric::reduce_scatter(own, ranks, |rank| size(sizes, rank)),
            Self::ReduceScatterBlock(bytes) => symmetric::reduce_scatter(own, ranks, |_| *bytes),
            Self::Scan(bytes) => symmetric::scan(own, ranks, *bytes),
        }
    }
}
