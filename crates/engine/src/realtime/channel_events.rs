//! Events of channels on their way to programs, in wall pace: one byte for each event, through a
//! socket of each process. A short MAD goes itself.

use crate::protocol::Caller;
use crate::realtime::room::DataPlane;
use rustix::net::SocketAddrUnix;
use softband_ipc::calls::EventSocket;
use softband_sim::{SimDuration, SimTime};

/// Longest time for which the end of a connection waits for a program to take its completions.
const END_WAITS: SimDuration = SimDuration::from_micros(500_000);

impl DataPlane<'_> {
    /// Sends a byte to the program's descriptor for one event of a channel, or the next MAD. Returns
    /// false if the engine must send it later.
    pub(crate) fn tell_of_event(&mut self, object: u32) -> bool {
        if self.host.object(object).is_none() {
            return true;
        }
        let is_early = self.overtakes_completions(object);
        let told = !is_early
            && self.host.event_socket(object).is_some_and(|(process, address)| {
                let sender = self.processes[process].event_sender();
                sender.is_some_and(|sender| sender.send(address, self.host.mads().short_record(object).unwrap_or(&[1])))
            });
        if told {
            self.host.mads_mut().note_told(object);
        } else {
            // The program has many unread bytes or completions, or has not created its descriptor yet.
            *self.realtime.undelivered.entry(object).or_default() += 1;
        }
        told
    }

    /// Returns whether an event ends a connection before the program has taken the completions before it.
    /// The messages of the CM take longer than a poll. On a busy machine another thread of the program
    /// would get the event first, and destroy the queue pair with its completions (libfabric's RxM).
    fn overtakes_completions(&self, object: u32) -> bool {
        let Some((process, _)) = self.host.event_socket(object) else { return false };
        let is_recent = |ended: SimTime| self.scheduler.now() < ended + END_WAITS;
        self.host.cm().ended_at(object).is_some_and(is_recent) && self.cqs.hold_any_of(process, self.processes[process].shared())
    }

    /// Sends the events again that programs have not got.
    pub(crate) fn retry_undelivered(&mut self) {
        for (object, times) in std::mem::take(&mut self.realtime.undelivered) {
            for told in 0..times {
                if !self.tell_of_event(object) {
                    // The other events would fail too. A program that does not listen costs one
                    // attempt per round.
                    *self.realtime.undelivered.entry(object).or_default() += times - told - 1;
                    break;
                }
            }
        }
    }

    /// Returns whether a program must read before the engine can send it more. No call or post
    /// announces that it has read.
    pub(crate) fn awaits_readers(&self) -> bool {
        self.realtime.undelivered.keys().any(|object| self.host.event_socket(*object).is_some())
    }

    /// Notes the socket by which a program gets the events of a channel that it holds.
    pub(crate) fn note_event_socket(&mut self, caller: Caller, socket: &EventSocket) -> Result<EventSocket, i32> {
        let failed = |error: rustix::io::Errno| error.raw_os_error();
        let name = socket.name.get(..socket.name_len as usize).ok_or(libc::EINVAL)?;
        let record = &mut self.processes[caller.process];
        if !self.scheduler.is_wall() {
            return Err(libc::EBADF);
        }
        record.held(socket.object)?;
        if !name.is_empty() {
            let address = SocketAddrUnix::new_abstract_name(name).map_err(failed)?;
            self.host.set_event_socket(socket.object, (caller.process, address));
        }
        let sender = record.make_event_sender().map_err(failed)?.name();
        let mut answer = EventSocket { object: 0, name_len: sender.len() as u32, name: [0; 8] };
        answer.name.get_mut(..sender.len()).ok_or(libc::ENAMETOOLONG)?.copy_from_slice(sender);
        Ok(answer)
    }
}
