//! Completion queues: their verbs, and their new entries.

use crate::completion::record::CqRecord;
use crate::host::ports::abi_lid;
use crate::protocol::Caller;
use crate::protocol::convert;
use crate::rpc::room::Verbs;
use softband_ipc::calls::{self, Count, CreateCqReply, Handle};
use softband_ipc::ring::{Cqe, flags};
use softband_model::verbs::api::Completion;
use softband_sim::SimTime;
use softband_types::{CqHandle, ProcessId, WcStatus};

impl Verbs<'_> {
    pub(crate) fn create_cq(&mut self, caller: Caller, cq: &calls::CreateCq) -> Result<CreateCqReply, i32> {
        let Caller { process, owner, .. } = caller;
        let hca = self.own_hca(caller, cq.hca)?;
        if cq.channel != 0 {
            self.processes[process].held(cq.channel)?;
        }
        let handle = self.world.create_cq(owner, hca, cq.entries).map_err(convert::errno_of)?;
        let takes_remote_cqes = self.scheduler.is_wall() && cq.own_only == 0;
        let Some(record) = CqRecord::new(process, self.processes[process].shared_mut(), cq, takes_remote_cqes) else {
            let _ = self.world.destroy_cq(owner, handle);
            return Err(libc::ENOMEM);
        };
        let reply = ring_of(handle.0, &record);
        self.cqs.insert(handle.0, record);
        Ok(reply)
    }

    /// Gives the queue another ring.
    pub(crate) fn resize_cq(&mut self, caller: Caller, resize: &calls::ResizeCq) -> Result<CreateCqReply, i32> {
        self.world.resize_cq(caller.owner, CqHandle(resize.cq), resize.entries).map_err(convert::errno_of)?;
        let record = self.cqs.get_mut(resize.cq).ok_or(libc::EINVAL)?;
        record.resize(self.processes[caller.process].shared_mut(), resize.entries)?;
        Ok(ring_of(resize.cq, record))
    }

    pub(crate) fn destroy_cq(&mut self, caller: Caller, cq: &Handle) -> Result<Count, i32> {
        let cq = cq.handle;
        self.world.destroy_cq(caller.owner, CqHandle(cq)).map_err(convert::errno_of)?;
        let record = self.cqs.remove(cq).ok_or(libc::EINVAL)?;
        record.free(self.processes[caller.process].shared_mut());
        self.host.drop_cq_events(record.channel(), cq);
        Ok(Count { count: record.events() })
    }

    pub(crate) fn completed(&mut self, process: ProcessId, cq: CqHandle, completion: &Completion) {
        let Some(hca) = self.cqs.get(cq.0).map(CqRecord::hca) else { return };
        let mut cqe = cqe_of(completion, self.scheduler.now());
        cqe.source_lid = abi_lid(self.world.link_layer(hca), completion.source_lid).0;
        cqe.path_bits = self.world.path_bits(completion.destination_lid);
        if self.scheduler.is_wall() {
            // The program may poll at once and tell others. Its own data and its peers' data must
            // be in place by then.
            self.memory.flush_all();
            if completion.status != WcStatus::Success {
                self.plane().publish_queue_pair(hca, completion.qpn); // the QP is in the error state now
            }
        }
        let Some(record) = self.cqs.get(cq.0) else { return };
        if record.produce(self.processes[record.process()].shared(), cqe) {
            self.scheduler.touch(self.processes, process);
            self.plane().raise_if_armed(process, cq, completion.solicited || completion.status != WcStatus::Success);
        } else {
            // The World answers with a notice of the CQ's error.
            self.world.overflow_cq(self.scheduler.now(), cq);
        }
    }
}

/// Tells a program where the ring of its queue is.
fn ring_of(handle: u32, record: &CqRecord) -> CreateCqReply {
    CreateCqReply { handle, capacity: record.capacity(), ring_offset: record.offset() as u64, remote_cqe_ring: record.remote_cqe_ring() }
}

fn cqe_of(completion: &Completion, now: SimTime) -> Cqe {
    let receive = completion.opcode as u32 >= 128;
    Cqe {
        wr_id: completion.wr_id,
        time_ps: now.as_picos(),
        status: completion.status as u32,
        opcode: completion.opcode as u32,
        byte_len: completion.byte_len,
        immediate: completion.immediate.or(completion.invalidated.map(|rkey| rkey.0)).unwrap_or(0),
        qpn: completion.qpn.0,
        source_qpn: completion.source_qpn.0,
        flags: (u32::from(completion.has_grh) * flags::GRH)
            | (u32::from(completion.immediate.is_some()) * flags::WITH_IMMEDIATE)
            | (u32::from(completion.invalidated.is_some()) * flags::WITH_INVALIDATE)
            | (u32::from(receive) * flags::RECEIVE),
        send_retired: completion.send_retired,
        pkey_index: completion.pkey_index,
        source_lid: completion.source_lid.0,
        service_level: completion.service_level.0,
        path_bits: 0,
        reserved: [0; 2],
        vendor_error: 0,
        srq: completion.srq.map_or(0, |srq| srq.0),
    }
}
