//! The references of programs to objects that they wait for.

use crate::protocol::Caller;
use crate::rpc::host_calls::HostCalls;
use crate::rpc::sockets::path_of;
use crate::scheduler::agenda::Event;
use softband_ipc::calls;

impl HostCalls<'_> {
    pub(crate) fn object_close(&mut self, caller: Caller, closed: &calls::Object) -> Result<(), i32> {
        let object = self.processes[caller.process].held(closed.object)?;
        self.processes[caller.process].let_go(object)?;
        self.release_object(object);
        Ok(())
    }

    pub(crate) fn object_retain(&mut self, caller: Caller, retained: &calls::Object) -> Result<(), i32> {
        let object = self.processes[caller.process].held(retained.object)?;
        self.host.retain(object);
        self.processes[caller.process].hold(object);
        Ok(())
    }

    /// Gives back one reference to an object.
    fn release_object(&mut self, object: u32) {
        let wakeups = self.host.release(object, self.scheduler.now(), |host| path_of(self.world, host, object));
        self.close_on_stacks();
        self.world.announce_managers(self.host.mads().ports_with_sm());
        self.wake_at(wakeups);
        if self.host.cm().has_outgoing() {
            self.scheduler.push(self.scheduler.now(), u32::MAX, Event::CmExpires);
        }
    }

    /// Gives back all references of a process that has ended.
    pub(crate) fn release_everything(&mut self, process: usize) {
        self.host.forget_parts(process);
        if let Some((relay, _)) = self.host.relay_mut() {
            relay.check_soon(self.scheduler.now());
        }
        for (object, count) in self.processes[process].set_objects(Default::default()) {
            (0..count).for_each(|_| self.release_object(object));
        }
    }
}
