//! Threads: their beginning and their end.

use crate::process::record::Process;
use crate::protocol::{Caller, Outcome};
use crate::rpc::host_calls::HostCalls;
use softband_ipc::calls::{ProcessNumber, ThreadReply};

impl HostCalls<'_> {
    pub(crate) fn thread_new(&mut self, caller: Caller, (): &()) -> Result<ThreadReply, i32> {
        Ok(ThreadReply { slot: self.scheduler.add_thread(self.processes, caller.process, caller.slot)?, reserved: 0 })
    }

    pub(crate) fn thread_exit(&mut self, caller: Caller, (): &()) -> Outcome<()> {
        self.processes[caller.process].thread_mut(caller.slot).end();
        Outcome::Later
    }

    /// Returns the host's process id of a process by its virtual id; 0 if no process has that id.
    pub(crate) fn find_process(&mut self, _caller: Caller, asked: &ProcessNumber) -> Result<ProcessNumber, i32> {
        let is_it = |process: &Process| process.virtual_pid() == asked.number && process.is_attached();
        let number = self.processes.find(is_it).map_or(0, |process| self.processes[process].pid() as u32);
        Ok(ProcessNumber { number, reserved: 0 })
    }

    pub(crate) fn interrupt(&mut self, _caller: Caller, of: &ProcessNumber) -> Result<(), i32> {
        let is_it = |process: &Process| process.pid() as u32 == of.number && process.is_attached();
        let process = self.processes.find(is_it).ok_or(libc::ESRCH)?;
        self.scheduler.interrupt_first(self.processes, self.host, process);
        Ok(())
    }
}
