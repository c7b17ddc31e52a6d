//! Atomic operations, and atomic writes: the posting thread carries them out on the word itself, by the processor's own instructions,
//! where the word and the places of the result, or of the value, are mapped here. The engine does the same for requests that go through it.

use super::{Sending, local_spans};
use crate::post::Data;
use crate::qp::QpInner;
use softband_abi::verbs::*;
use softband_client::connection::Connection;
use softband_client::direct::{TablesGuard, guard_tables};
use softband_client::memory_spans::{MemorySpan, MemorySpans, write};
use softband_ipc::post::{PostRecord, opcode};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a word.
const BYTES: u64 = 8;

/// Carries an operation out; how many bytes came back. `None`: it is the engine's.
#[inline(never)]
pub(super) fn change(
    at: (&QpInner, u32),
    (sending, guard): (&mut Sending, Option<TablesGuard>),
    record: &PostRecord,
    data: &Data<'_>,
) -> Option<u64> {
    let guard = guard.or_else(guard_tables)?;
    let (Connection { own, peer, keeper, .. }, _, mkeys) = sending.connect(&guard, at)?;
    let writes = record.opcode == opcode::ATOMIC_WRITE;
    let right = if writes { IBV_ACCESS_REMOTE_WRITE } else { IBV_ACCESS_REMOTE_ATOMIC };
    if own.max_reads.load(Ordering::Relaxed) == 0 || peer.access.load(Ordering::Relaxed) & right == 0 {
        return None;
    }
    let mut local = MemorySpans::default();
    local_spans(&guard, &mut mkeys.local, own, data, !writes, &mut local)?;
    // Nothing may go wrong any more once the word has changed.
    let has_places = local.len_bytes() == BYTES && local.are_here();
    let word = guard.translate(&mut mkeys.remote, keeper, record.rkey, (record.remote_address, BYTES), right)?;
    if !has_places || word.here.is_null() || !record.remote_address.is_multiple_of(BYTES) || !word.address.is_multiple_of(BYTES) {
        return None;
    }
    // SAFETY: eight bytes that are mapped for as long as the guard lives, and aligned, since pages are mapped as pages. Programs
    // may write them in their own way, and the engine does as here.
    let word = unsafe { AtomicU64::from_ptr(word.here.cast()) };
    let pid = own.pid.load(Ordering::Relaxed);
    if writes {
        let mut value = 0u64;
        let place = MemorySpan { address: 0, len_bytes: BYTES, here: (&raw mut value).cast() };
        return write(pid, &local, &place.into()).then(|| {
            word.store(value, Ordering::SeqCst);
            0 // nothing comes back
        });
    }
    let original = match record.opcode {
        opcode::ATOMIC_FETCH_AND_ADD => word.fetch_add(record.compare_or_add, Ordering::SeqCst),
        _ => match word.compare_exchange(record.compare_or_add, record.swap, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(original) | Err(original) => original,
        },
    };
    let result = MemorySpan { address: 0, len_bytes: BYTES, here: (&raw const original).cast::<u8>().cast_mut() };
    write(pid, &result.into(), &local).then_some(BYTES)
}
