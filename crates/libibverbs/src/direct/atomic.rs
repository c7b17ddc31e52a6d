//! Atomic operations and atomic writes. The posting thread executes them on the word itself, by the
//! processor's own instructions. This needs the word and the places of result or value mapped here.
//! The engine does the same for requests that go through it.

use super::{Direct, Sending, local_spans};
use crate::post::Data;
use crate::qp::QpInner;
use softband_abi::verbs::*;
use softband_client::direct::{TablesGuard, guard_tables};
use softband_ipc::post::{PostRecord, opcode};
use softband_shm_transport::connection::Connection;
use softband_shm_transport::fallback::FallbackReason;
use softband_shm_transport::memory_spans::{MemorySpan, MemorySpans, write};
use std::sync::atomic::{AtomicU64, Ordering};

/// Size of a word in bytes.
const BYTES: u64 = 8;

/// Executes an operation. Returns the number of bytes that came back, or the reason why the engine
/// must execute it.
#[inline(never)]
pub(super) fn change(
    at: (&QpInner, u32),
    (sending, guard): (&mut Sending, Option<TablesGuard>),
    record: &PostRecord,
    data: &Data<'_>,
) -> Direct<u64> {
    let guard = guard.or_else(guard_tables).ok_or(FallbackReason::NotPublished)?;
    let (Connection { own, peer, keeper, .. }, _, mkeys) = sending.connect(&guard, at)?;
    let writes = record.opcode == opcode::ATOMIC_WRITE;
    let right = if writes { IBV_ACCESS_REMOTE_WRITE } else { IBV_ACCESS_REMOTE_ATOMIC };
    if own.max_reads.load(Ordering::Relaxed) == 0 || peer.access.load(Ordering::Relaxed) & right == 0 {
        return Err(FallbackReason::AccessRefused);
    }
    let mut local = MemorySpans::default();
    local_spans(&guard, &mut mkeys.local, own, data, !writes, &mut local)?;
    // No step may fail after the word has changed.
    let has_places = local.len_bytes() == BYTES && local.are_here();
    let word = guard.translate(&mut mkeys.remote, keeper, record.rkey, (record.remote_address, BYTES), right).ok_or(FallbackReason::KeyRefused)?;
    if !has_places || word.here.is_null() || !record.remote_address.is_multiple_of(BYTES) || !word.address.is_multiple_of(BYTES) {
        return Err(FallbackReason::MemoryNotMapped);
    }
    // SAFETY: the eight bytes are mapped for as long as the guard lives, and aligned, because
    // mappings keep the page offset. Programs may write them in their own way, and the engine does
    // as here.
    let word = unsafe { AtomicU64::from_ptr(word.here.cast()) };
    let pid = own.pid.load(Ordering::Relaxed);
    if writes {
        let mut value = 0u64;
        let place = MemorySpan { address: 0, len_bytes: BYTES, here: (&raw mut value).cast() };
        let is_read = write(pid, &local, &place.into());
        return is_read.then(|| word.store(value, Ordering::SeqCst)).map_or(Err(FallbackReason::CopyFailed), |()| Ok(0)); // nothing comes back
    }
    let original = match record.opcode {
        opcode::ATOMIC_FETCH_AND_ADD => word.fetch_add(record.compare_or_add, Ordering::SeqCst),
        _ => match word.compare_exchange(record.compare_or_add, record.swap, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(original) | Err(original) => original,
        },
    };
    let result = MemorySpan { address: 0, len_bytes: BYTES, here: (&raw const original).cast::<u8>().cast_mut() };
    write(pid, &result.into(), &local).then_some(BYTES).ok_or(FallbackReason::CopyFailed)
}
