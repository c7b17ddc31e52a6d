//! Processes of programs: start, attachment, memory, output, end.

pub(crate) mod absent;
pub(crate) mod attach;
pub(crate) mod image;
pub(crate) mod launch;
pub(crate) mod lifecycle;
pub(crate) mod memory;
pub(crate) mod outputs;
pub(crate) mod processes;
pub(crate) mod sweep;
pub(crate) mod system_process;
