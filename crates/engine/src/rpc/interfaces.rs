//! Network interfaces of hosts.

use crate::host::interfaces;
use crate::protocol::Caller;
use crate::rpc::host_calls::HostCalls;
use softband_ipc::calls::{InterfacePlace, InterfaceRecord, RouteRecord, SettingName, WithTail};

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

    pub(crate) fn change_setting(&mut self, caller: Caller, request: &WithTail<SettingName, u8>) -> Result<(), i32> {
        let (name, value) = request.tail.split_at_checked(request.head.name_len as usize).ok_or(libc::EINVAL)?;
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| libc::EINVAL);
        let host = self.processes[caller.process].host();
        let kernels = self.kernels.as_mut().ok_or(libc::ENOENT)?;
        kernels.change_setting(host, text(name)?, text(value)?)
    }
}
