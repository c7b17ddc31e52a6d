//! Processes of programs: start, attachment, memory, output, end.

pub(crate) mod ahead;
mod alarms;
pub(crate) mod announced;
pub(crate) mod awaited;
pub(crate) mod event_sender;
pub(crate) mod image;
pub(crate) mod launch;
pub(crate) mod looks;
pub(crate) mod memory;
pub(crate) mod outputs;
pub(crate) mod processes;
pub(crate) mod programs;
pub(crate) mod record;
pub(crate) mod shared_words;
pub(crate) mod sharing;
pub(crate) mod sweep;
pub(crate) mod system_process;
pub(crate) mod thread;
pub(crate) mod work;
