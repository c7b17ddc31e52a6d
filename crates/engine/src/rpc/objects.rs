//! Objects that programs wait for: who holds them, and the channels of events.

use crate::engine::Engine;
use crate::host::objects::Object;
use crate::host::sockets::Wakeups;
use crate::rpc::calls::Caller;
use softband_ipc::calls::{self, AsyncEvent, ChannelEvent};
use softband_sim::SimTime;
use std::collections::VecDeque;

impl Engine {
    /// Checks that the process holds the object. Nobody may guess objects of other programs.
    pub(crate) fn held(&self, process: usize, object: u32) -> Result<u32, i32> {
        self.processes[process].objects.contains_key(&object).then_some(object).ok_or(libc::EBADF)
    }

    pub(crate) fn hold(&mut self, process: usize, object: u32) {
        *self.processes[process].objects.entry(object).or_insert(0) += 1;
    }

    pub(crate) fn readiness(&mut self, object: u32) -> u32 {
        match self.objects.get_mut(object) {
            Some(Object::Socket) => self.sockets.readiness(object, self.now),
            Some(other) => other.readiness(self.now),
            None => calls::readiness::ERROR,
        }
    }

    pub(crate) fn is_ready(&mut self, object: u32, interest: u32) -> bool {
        self.readiness(object) & (interest | calls::readiness::ERROR | calls::readiness::HANG_UP) != 0
    }

    pub(crate) fn object_close(&mut self, caller: Caller, closed: &calls::Object) -> Result<(), i32> {
        let object = self.held(caller.process, closed.object)?;
        let objects = &mut self.processes[caller.process].objects;
        let count = objects.get_mut(&object).ok_or(libc::EBADF)?;
        *count -= 1;
        if *count == 0 {
            objects.remove(&object);
        }
        self.release_object(object);
        Ok(())
    }

    pub(crate) fn object_retain(&mut self, caller: Caller, retained: &calls::Object) -> Result<(), i32> {
        let object = self.held(caller.process, retained.object)?;
        self.objects.retain(object);
        self.hold(caller.process, object);
        Ok(())
    }

    /// Gives back one reference to an object.
    pub(crate) fn release_object(&mut self, object: u32) {
        if let Some(Object::Socket) = self.objects.release(object) {
            let path = self.path_of(object);
            let mut wakeups = Wakeups::new();
            self.sockets.close(object, self.now, path, &mut wakeups);
            self.wake_at(wakeups);
        }
    }

    pub(crate) fn create_channel(&mut self, caller: Caller, of: &calls::Hca) -> Result<calls::Object, i32> {
        self.own_hca(caller.process, of.hca)?;
        Ok(self.add_channel(caller, Object::CompletionChannel(Default::default())))
    }

    pub(crate) fn create_async_channel(&mut self, caller: Caller, of: &calls::Hca) -> Result<calls::Object, i32> {
        let hca = self.own_hca(caller.process, of.hca)?;
        Ok(self.add_channel(caller, Object::AsyncChannel { process: caller.process as u32, hca: hca.0, events: Default::default() }))
    }

    fn add_channel(&mut self, caller: Caller, channel: Object) -> calls::Object {
        let object = self.objects.add(channel);
        self.hold(caller.process, object);
        calls::Object { object, reserved: 0 }
    }

    pub(crate) fn channel_read(&mut self, caller: Caller, channel: &calls::Object) -> Result<ChannelEvent, i32> {
        let object = self.held(caller.process, channel.object)?;
        let Some(Object::CompletionChannel(events)) = self.objects.get_mut(object) else { return Err(libc::EINVAL) };
        let (_, cookie, cq) = due(events, self.now).ok_or(libc::EAGAIN)?;
        if let Some(record) = self.cqs.get_mut(&cq) {
            record.unread = record.unread.saturating_sub(1);
        }
        Ok(ChannelEvent { cookie, cq, reserved: 0 })
    }

    pub(crate) fn async_read(&mut self, caller: Caller, channel: &calls::Object) -> Result<AsyncEvent, i32> {
        let object = self.held(caller.process, channel.object)?;
        let Some(Object::AsyncChannel { events, .. }) = self.objects.get_mut(object) else { return Err(libc::EINVAL) };
        let (_, event, element) = due(events, self.now).ok_or(libc::EAGAIN)?;
        Ok(AsyncEvent { event, element })
    }
}

/// Takes the first event whose time has come.
fn due<Cookie, Element>(events: &mut VecDeque<(SimTime, Cookie, Element)>, now: SimTime) -> Option<(SimTime, Cookie, Element)> {
    if events.front()?.0 <= now { events.pop_front() } else { None }
}
