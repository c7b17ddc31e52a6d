//! The channels of events.

use crate::host::objects::Object;
use crate::protocol::Caller;
use crate::rpc::room::Verbs;
use softband_ipc::calls::{self, AsyncEvent, ChannelEvent};
use softband_sim::SimTime;
use std::collections::VecDeque;

impl Verbs<'_> {
    pub(crate) fn create_channel(&mut self, caller: Caller, of: &calls::Hca) -> Result<calls::Object, i32> {
        self.own_hca(caller, of.hca)?;
        Ok(self.add_channel(caller, Object::CompletionChannel(Default::default())))
    }

    pub(crate) fn create_async_channel(&mut self, caller: Caller, of: &calls::Hca) -> Result<calls::Object, i32> {
        let hca = self.own_hca(caller, of.hca)?;
        Ok(self.add_channel(caller, Object::AsyncChannel { process: caller.process as u32, hca: hca.0, events: Default::default() }))
    }

    fn add_channel(&mut self, caller: Caller, channel: Object) -> calls::Object {
        let object = self.host.add(channel);
        self.processes[caller.process].hold(object);
        calls::Object { object, reserved: 0 }
    }

    pub(crate) fn channel_read(&mut self, caller: Caller, channel: &calls::Object) -> Result<ChannelEvent, i32> {
        let object = self.processes[caller.process].held(channel.object)?;
        let Some(Object::CompletionChannel(events)) = self.host.object_mut(object) else { return Err(libc::EINVAL) };
        let (_, cookie, cq) = due(events, self.scheduler.now()).ok_or(libc::EAGAIN)?;
        self.cqs.note_read(cq);
        Ok(ChannelEvent { cookie, cq, reserved: 0 })
    }

    pub(crate) fn async_read(&mut self, caller: Caller, channel: &calls::Object) -> Result<AsyncEvent, i32> {
        let object = self.processes[caller.process].held(channel.object)?;
        let Some(Object::AsyncChannel { events, .. }) = self.host.object_mut(object) else { return Err(libc::EINVAL) };
        let (_, event, element) = due(events, self.scheduler.now()).ok_or(libc::EAGAIN)?;
        Ok(AsyncEvent { event, element })
    }
}

/// Takes the first event whose time has come.
fn due<Cookie, Element>(events: &mut VecDeque<(SimTime, Cookie, Element)>, now: SimTime) -> Option<(SimTime, Cookie, Element)> {
    if events.front()?.0 <= now { events.pop_front() } else { None }
}
