//! The World: a simulated InfiniBand or RoCE fabric with queue pairs, packets, credits and counters.
//!
//! [`World::new`] builds it from a [`FabricSpec`](softband_spec::FabricSpec). The verbs are methods
//! of the [`World`]: they create objects, connect queue pairs and post requests. Each takes the time
//! as an argument. [`World::step`] executes the next event and reports completions and other
//! changes as [`notice::Notice`]. Payload comes from your implementation of
//! [`HostMemory`](softband_model::verbs::api::HostMemory).
//!
//! The World reads no clock, thread or file. The same calls give the same bytes on each machine.
//!
//! # Example: an RDMA write
//!
//! ```
//! use softband_fabric::World;
//! use softband_fabric::notice::Notice;
//! use softband_model::parts::{CablePart, HcaPart, HostPart};
//! use softband_model::verbs::api::*;
//! use softband_spec::FabricBuilder;
//! use softband_types::*;
//!
//! /// The memory of two processes, from address 0 on.
//! struct Memory([Vec<u8>; 2]);
//!
//! impl HostMemory for Memory {
//!     fn read(&mut self, process: ProcessId, address: u64, into: &mut [u8]) -> Result<(), MemoryFault> {
//!         let from = self.0[process.0 as usize].get(address as usize..).ok_or(MemoryFault)?;
//!         into.copy_from_slice(from.get(..into.len()).ok_or(MemoryFault)?);
//!         Ok(())
//!     }
//!     fn write(&mut self, process: ProcessId, address: u64, payload: &PayloadSlice) -> Result<(), MemoryFault> {
//!         let to = self.0[process.0 as usize].get_mut(address as usize..).ok_or(MemoryFault)?;
//!         to.get_mut(..payload.bytes().len()).ok_or(MemoryFault)?.copy_from_slice(payload.bytes());
//!         Ok(())
//!     }
//! }
//!
//! // Two hosts on 3 m of cable.
//! let mut fabric = FabricBuilder::new("two hosts");
//! let nodes = ["a", "b"].map(|name| {
//!     let host = fabric.host(name, HostPart::ideal());
//!     fabric.hca(host, HcaPart::ideal())
//! });
//! fabric.cable(nodes[0], nodes[1], CablePart::ideal(3_000));
//! let mut world = World::new(&fabric.build()?, 1);
//!
//! // A process on each host registers 4 KiB and creates a queue pair.
//! let access = Access { local_write: true, remote_write: true, ..Access::default() };
//! let port = PortNumber(1);
//! let mut sides = Vec::new();
//! for number in 0..2 {
//!     let (owner, hca) = (ProcessId(number), world.hca_id(number as usize, 0));
//!     let pd = world.alloc_pd(owner, hca)?;
//!     let (_, lkey, rkey) = world.register_mr(hca, MrInit { owner, pd, address: 0, len_bytes: 4_096, iova: 0, access })?;
//!     let cq = world.create_cq(owner, hca, 16)?;
//!     let qpn = world.create_qp(owner, hca, QpInit::new(QpType::Rc, pd, cq))?.qpn;
//!     let lid = world.port(hca, port).expect("the HCA has a port").lid;
//!     sides.push((owner, hca, qpn, lid, lkey, rkey));
//! }
//! let (a, b) = (sides[0], sides[1]);
//!
//! // Both sides connect their queue pairs.
//! for (own, peer) in [(a, b), (b, a)] {
//!     let path_mtu = world.path_mtu((own.1, port), (peer.1, port)).expect("a cable joins them");
//!     let steps = [
//!         QpModification::to_init(port, access),
//!         QpModification::to_rtr(port, (peer.3, peer.2), path_mtu, Psn::new(0)),
//!         QpModification::to_rts(Psn::new(0)),
//!     ];
//!     for step in steps {
//!         world.modify_qp(world.now(), own.0, own.1, own.2, &step)?;
//!     }
//! }
//!
//! // Process 0 writes 4 KiB to the memory of process 1.
//! let mut memory = Memory([vec![7; 4_096], vec![0; 4_096]]);
//! let write = SendOperation::RdmaWrite { remote_address: 0, rkey: b.5, immediate: None };
//! let entries = vec![ScatterGatherEntry { address: 0, len_bytes: 4_096, lkey: a.4 }];
//! world.post_send(world.now(), a.0, a.1, a.2, SendRequest::new(42, write, entries));
//!
//! // Events happen until the completion arrives.
//! let mut notices = Vec::new();
//! let completion = 'run: loop {
//!     assert!(world.next_event_time().is_some());
//!     world.step(&mut memory, &mut notices);
//!     for notice in notices.drain(..) {
//!         if let Notice::Completed { completion, .. } = notice {
//!             break 'run completion;
//!         }
//!     }
//! };
//! assert_eq!((completion.wr_id, completion.status), (42, WcStatus::Success));
//! assert_eq!(memory.0[1], vec![7; 4_096]);
//!
//! // The cable alone delays the packet and its acknowledgement by 15 ns each.
//! assert!(world.now().as_nanos() > 30);
//! let counters = world.counters();
//! assert_eq!((counters[0].port_xmit_pkts, counters[1].port_xmit_pkts), (1, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Structure
//!
//! Each folder is a room: a struct with private fields and narrow methods. The World in `world`
//! owns the rooms and hands each the others that it needs. `ARCHITECTURE.md` lists which room may
//! use which.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod faults;
mod hca;
mod link;
mod management;
pub mod notice;
mod pdes;
mod subnet;
mod world;

mod event;
mod numbering;
mod slab;
mod traffic;

pub use hca::{HcaCounters, QPN_FIRST, QueuePairRepeats, QueuePairView};
pub use link::{CarriedElsewhere, EthernetCounters, PacketSink, Parcel, PortCounters, Starved};
pub use pdes::lookahead;
pub use pdes::partition::Partitioning;
pub use softband_model::transport::{HardwareCounters, Repeats};
pub use world::{FrameError, NodeOfPort, PortStatistics, World};

/// Runs the examples of the README file.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
