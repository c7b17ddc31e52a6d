//! Network interfaces of hosts.

use crate::host::interfaces;
use crate::protocol::Caller;
use crate::rpc::host_calls::HostCalls;
use softband_ipc::calls::{InterfacePlace, InterfaceRecord, RouteRecord};

impl HostCalls<'_> {
    pub(crate) fn read_interface(&mut self, caller: Caller, wanted: &InterfacePlace) -> Result<InterfaceRecord, i32> {
        let host = self.processes[caller.process].host();
        let all = interfaces::of_host(self.kernels.as_ref(), self.world, host);
        all.get(wanted.place as usize).map(InterfaceRecord::from).ok_or(libc::ENODEV)
    }

    pub(crate) fn read_route(&mut self, caller: Caller, wanted: &InterfacePlace) -> Result<RouteRecord, i32> {
        let host = self.processes[caller.process].host();
        let all = interfaces::routes_of_host(self.kernels.as_ref(), host);
        all.get(wanted.place as usize).map(RouteRecord::from).ok_or(libc::ENOENT)
    }
}
