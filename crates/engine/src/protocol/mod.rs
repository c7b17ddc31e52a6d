//! Times, requests and replies of programs, as the protocol carries them. Programs send them: this
//! code checks lengths and ranges.

pub(crate) mod convert;

use bytemuck::Pod;
use softband_fabric::World;
use softband_ipc::calls::Message;
use softband_sim::{SimDuration, SimTime};
use softband_types::{HcaId, ProcessId};

/// End of simulated time for programs, after 106 days. Deadlines after it never come.
pub(crate) const END: SimTime = SimTime::from_picos(1 << 63);

/// The thread that makes a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) process: usize,
    pub(crate) slot: u32,
    /// Owner of the objects of the process.
    pub(crate) owner: ProcessId,
}

/// Result of a call.
pub(crate) enum Outcome<Reply> {
    Reply(Reply),
    Fail(i32),
    /// The call has its result, and costs its thread this time.
    Paid(Result<Reply, i32>, SimDuration),
    /// The engine parked the thread and replies later, or the thread is gone.
    Later,
}

impl<Reply> From<Result<Reply, i32>> for Outcome<Reply> {
    fn from(result: Result<Reply, i32>) -> Self {
        result.map_or_else(Self::Fail, Self::Reply)
    }
}

/// Converts a time from a program in picoseconds. Returns `None` for a time that never comes.
pub(crate) fn program_time(picos: u64) -> Option<SimTime> {
    Some(SimTime::from_picos(picos)).filter(|time| *time <= END)
}

/// Reads plain data of type `T` from the front of `bytes`. Fails with `EPROTO` if they are too few.
pub(crate) fn request<T: Pod>(bytes: &[u8]) -> Result<T, i32> {
    T::from_bytes(bytes).ok_or(libc::EPROTO)
}

/// Returns the HCA `hca` if it is on the program's own host. Otherwise returns ENODEV.
pub(crate) fn own_hca(world: &World, host: usize, hca: u32) -> Result<HcaId, i32> {
    let devices = world.spec().hosts[host].verbs_devices();
    devices.map(|(index, _)| world.hca_id(host, index)).find(|own| own.0 == hca).ok_or(libc::ENODEV)
}
