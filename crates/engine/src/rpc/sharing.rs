//! Shared mappings of programs, and writes to them.

use crate::process::record::Process;
use crate::process::sharing::Mapping;
use crate::protocol::Caller;
use crate::rpc::host_calls::HostCalls;
use softband_ipc::calls::mapping::DISK_FILE;
use softband_ipc::calls::{ProcessNumber, SharedMapping, SharedRange};
use softband_ipc::layout::RANGES_MAX;
use softband_sim::SimTime;

impl HostCalls<'_> {
    pub(crate) fn map_shared(&mut self, caller: Caller, mapping: &SharedMapping) -> Result<(), i32> {
        if mapping.range as usize >= RANGES_MAX || mapping.start > mapping.end {
            return Err(libc::EINVAL);
        }
        // Programs on different hosts share files by the machine alone, not by their modelled memory.
        let host = self.processes[caller.process].host();
        let memory = (host, mapping.kind, mapping.space, mapping.number);
        self.processes.map_shared(
            caller.process,
            mapping.range,
            Mapping {
                memory,
                start: mapping.start,
                end: mapping.end,
                // A file on a disk that all programs only read is most likely data.
                may_change: mapping.writable != 0 || mapping.kind != DISK_FILE,
            },
        );
        Ok(())
    }

    pub(crate) fn unmap_shared(&mut self, caller: Caller, range: &SharedRange) -> Result<(), i32> {
        self.processes.unmap_shared(caller.process, range.range);
        Ok(())
    }

    /// Handles a write to private memory of another process (`process_vm_writev`).
    pub(crate) fn wrote_memory(&mut self, _caller: Caller, written: &ProcessNumber) -> Result<(), i32> {
        let is_it = |process: &Process| process.virtual_pid() == written.number && process.is_attached();
        if let Some(reader) = self.processes.find(is_it) {
            let visible = self.scheduler.now() + self.world.spec().hosts[self.processes[reader].host()].part.cache_line_transfer;
            self.scheduler.touch_shared(self.processes, reader, visible);
        }
        Ok(())
    }

    /// Wakes the pollers of the processes whose memory a process has written in its turn. Returns
    /// whether it has written any.
    pub(crate) fn pass_on_writes(&mut self, writer: usize) -> bool {
        let record = &self.processes[writer];
        if !record.has_written() {
            return false;
        }
        let now = self.scheduler.now();
        let visible: SimTime = record.take_written_at(now) + self.world.spec().hosts[record.host()].part.cache_line_transfer;
        for reader in self.processes.take_readers(writer) {
            // A child that the writer forked in this turn may attach before its end or after it.
            if self.processes[reader].is_alive() {
                self.scheduler.touch_shared(self.processes, reader, visible);
            }
        }
        true
    }
}
