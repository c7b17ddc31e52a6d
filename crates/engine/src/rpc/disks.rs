//! Requests to disks.

use crate::protocol::{Caller, END, Outcome};
use crate::rpc::host_calls::HostCalls;
use softband_ipc::calls::DiskTransfer;

impl HostCalls<'_> {
    pub(crate) fn disk_transfer(&mut self, caller: Caller, request: &DiskTransfer) -> Outcome<()> {
        let host = self.processes[caller.process].host();
        let Some(part) = self.world.spec().hosts[host].part.files.disk else { return Outcome::Fail(libc::ENODEV) };
        let now = self.scheduler.now();
        let Some(end) = self.host.disk_mut(host).end_of((now, END), part, request) else { return Outcome::Fail(libc::EINVAL) };
        Outcome::Paid(Ok(()), end.saturating_since(now))
    }
}
