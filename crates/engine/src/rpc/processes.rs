//! Threads and processes: their beginning and their end.

use crate::control::tickets::Grant;
use crate::engine::Engine;
use crate::process::image::ThreadState;
use crate::rpc::calls::{Caller, Outcome};
use softband_ipc::calls::{Exit, ForkReply, ProcessNumber, ThreadReply, Ticket};

impl Engine {
    pub(crate) fn thread_new(&mut self, caller: Caller, (): &()) -> Result<ThreadReply, i32> {
        Ok(ThreadReply { slot: self.new_thread(caller.process, caller.slot)?, reserved: 0 })
    }

    pub(crate) fn thread_exit(&mut self, caller: Caller, (): &()) -> Outcome<()> {
        let thread = &mut self.processes[caller.process].threads[caller.slot as usize];
        thread.state = ThreadState::Ended;
        thread.generation = thread.generation.wrapping_add(1);
        Outcome::Later
    }

    pub(crate) fn fork_child(&mut self, caller: Caller, (): &()) -> Result<ForkReply, i32> {
        let (ticket, child) = self.fork(caller.process)?;
        Ok(ForkReply { ticket, process: child.0, virtual_pid: Self::virtual_pid(child) })
    }

    pub(crate) fn fork_cancel(&mut self, _caller: Caller, ticket: &Ticket) -> Result<(), i32> {
        self.cancel_fork(ticket.ticket);
        Ok(())
    }

    pub(crate) fn exec(&mut self, caller: Caller, (): &()) -> Result<ForkReply, i32> {
        let ticket = self.tickets.issue(Grant::Image(caller.process)).map_err(|_| libc::EAGAIN)?;
        Ok(ForkReply { ticket, process: caller.owner.0, virtual_pid: Self::virtual_pid(caller.owner) })
    }

    pub(crate) fn process_exit(&mut self, caller: Caller, _exit: &Exit) -> Outcome<()> {
        self.process_exits(caller.process);
        Outcome::Later
    }

    pub(crate) fn find_process(&mut self, _caller: Caller, asked: &ProcessNumber) -> Result<ProcessNumber, i32> {
        Ok(ProcessNumber { number: self.system_pid(asked.number), reserved: 0 })
    }
}
