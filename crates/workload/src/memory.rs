//! Host memory without content: it accepts every write and stores nothing.

use softband_model::verbs::api::{HostMemory, MemoryFault, PayloadSlice};
use softband_types::ProcessId;

/// Memory whose reads leave the buffer unchanged and whose writes have no effect. Payload then
/// costs no work per byte.
pub(crate) struct NoMemory;

impl HostMemory for NoMemory {
    fn read(&mut self, _process: ProcessId, _address: u64, _into: &mut [u8]) -> Result<(), MemoryFault> {
        Ok(())
    }
    fn write(&mut self, _process: ProcessId, _address: u64, _payload: &PayloadSlice) -> Result<(), MemoryFault> {
        Ok(())
    }
}
