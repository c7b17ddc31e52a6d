//! Memory of hosts that nobody looks at: it takes everything and holds nothing.

use softband_model::verbs::api::{HostMemory, MemoryFault, PayloadSlice};
use softband_types::ProcessId;

/// Reads leave the buffer as it is, and writes are forgotten: payload costs no work by the byte.
pub(crate) struct NoMemory;

impl HostMemory for NoMemory {
    fn read(&mut self, _process: ProcessId, _address: u64, _into: &mut [u8]) -> Result<(), MemoryFault> {
        Ok(())
    }
    fn write(&mut self, _process: ProcessId, _address: u64, _payload: &PayloadSlice) -> Result<(), MemoryFault> {
        Ok(())
    }
}
