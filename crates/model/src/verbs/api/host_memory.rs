//! Memory of programs, as the model reaches it.

use super::PayloadSlice;
use softband_types::ProcessId;
use std::sync::Arc;

/// Memory of programs, as the model reaches it. The engine, workloads and tests implement it.
pub trait HostMemory {
    /// Fills `into` from `address` of `process`.
    ///
    /// # Errors
    /// If the memory does not exist (any more).
    fn read(&mut self, process: ProcessId, address: u64, into: &mut [u8]) -> Result<(), MemoryFault>;
    /// Returns `len` bytes at `address` of `process` by reference, if that memory never changes. Memory
    /// of programs does.
    fn share(&mut self, _process: ProcessId, _address: u64, _len: u32) -> Option<PayloadSlice> {
        None
    }
    /// Writes `payload` to `address` of `process`. The write may happen later, but before the
    /// process or `read` looks.
    ///
    /// # Errors
    /// If the memory does not exist (any more).
    fn write(&mut self, process: ProcessId, address: u64, payload: &PayloadSlice) -> Result<(), MemoryFault>;
    /// Replaces the word at `address` by `change(word)` and returns the former word. Other updates
    /// of the word happen before or afterwards.
    ///
    /// # Errors
    /// If the memory does not exist (any more).
    fn update(&mut self, process: ProcessId, address: u64, change: &dyn Fn(u64) -> u64) -> Result<u64, MemoryFault> {
        read_and_write(self, process, address, change)
    }
}

/// Implements [`HostMemory::update`] for memory that only the model changes.
///
/// # Errors
/// If the memory does not exist (any more).
pub fn read_and_write<M: HostMemory + ?Sized>(
    memory: &mut M,
    process: ProcessId,
    address: u64,
    change: &dyn Fn(u64) -> u64,
) -> Result<u64, MemoryFault> {
    let mut bytes = [0; 8];
    memory.read(process, address, &mut bytes)?;
    let original = u64::from_ne_bytes(bytes);
    let buffer = Some(Arc::from(change(original).to_ne_bytes().as_slice()));
    memory.write(process, address, &PayloadSlice { buffer, offset: 0, len: 8 })?;
    Ok(original)
}

/// Fault: the program's memory is not mapped, or the program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such memory in the program")]
pub struct MemoryFault;
