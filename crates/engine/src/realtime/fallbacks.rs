//! Requests that programs gave to the engine instead of carrying them out
//! ([`softband_shm_transport::fallback`]), for the status and the results of wall pace.

use crate::process::processes::Processes;
use crate::process::record::Process;
use crate::realtime::room::Realtime;
use serde_json::{Map, Value, json};
use softband_shm_transport::fallback::FallbackCounts;
use softband_types::ProcessId;

/// Returns the numbers of a process so far.
pub(crate) fn of(process: &Process) -> FallbackCounts {
    FallbackCounts::of(&process.shared().header().fallbacks)
}

impl Realtime {
    /// Adds the numbers of a process that ends, or that starts another image.
    pub(crate) fn note_fallbacks_of_ended(&mut self, processes: &Processes, ProcessId(process): ProcessId) {
        self.direct.fallbacks_of_ended.add(&of(&processes[process as usize]));
    }

    /// Returns the numbers of all processes of the run.
    pub(crate) fn fallbacks_of_all(&self, processes: &Processes) -> FallbackCounts {
        let mut all = self.direct.fallbacks_of_ended.clone();
        processes.living().filter(|process| process.is_attached()).for_each(|process| all.add(&of(process)));
        all
    }
}

/// Returns the numbers by reason, without zeros.
pub(crate) fn to_json(counts: &FallbackCounts) -> Value {
    Value::Object(counts.nonzero().map(|(reason, count)| (reason.name().to_owned(), json!(count))).collect::<Map<_, _>>())
}
