//! Counters of ports that programs read from files.

use crate::host::counter_files;
use crate::protocol::Caller;
use crate::rpc::room::Verbs;
use softband_ipc::calls::{Count, CounterName, WithTail};
use softband_types::PortNumber;

impl Verbs<'_> {
    pub(crate) fn read_counter(&mut self, caller: Caller, request: &WithTail<CounterName, u8>) -> Result<Count, i32> {
        let (device, name) = request.tail.split_at_checked(request.head.device_len as usize).ok_or(libc::EINVAL)?;
        let host = self.processes[caller.process].host();
        let found = self.world.spec().hosts[host].verbs_devices().find(|(_, hca)| hca.device.as_bytes() == device);
        let (index, _) = found.ok_or(libc::ENOENT)?;
        let port = u8::try_from(request.head.port).map_err(|_| libc::ENOENT)?;
        let hca = self.world.hca_id(host, index);
        self.plane().count_direct_traffic();
        if let Some(count) = self.world.hardware_counters(hca, PortNumber(port)).and_then(|counters| counter_files::hardware_value(name, &counters)) {
            return Ok(Count { count });
        }
        let statistics = self.world.port_statistics(hca, PortNumber(port)).ok_or(libc::ENOENT)?;
        let count = counter_files::value(name, &statistics).ok_or(libc::ENOENT)?;
        Ok(Count { count })
    }
}
