//! Names the MPI call that a thread executes, for the list of waits of a run that ends.
//!
//! The thread walks its own stack in a signal handler. The dynamic symbol table names the functions
//! of shared libraries, and every MPI library exports its calls.

use libc::{c_int, c_void};
use softband_client as client;
use softband_ipc::layout::{CALL_NAME_BYTES, CALL_NAMES_MAX};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

/// Most frames of a walk. It ends corrupt stacks.
const FRAMES_MAX: usize = 512;
/// `_URC_NO_REASON` and `_URC_NORMAL_STOP` of the Itanium C++ ABI.
const GO_ON: c_int = 0;
const STOP: c_int = 4;

unsafe extern "C" {
    fn _Unwind_Backtrace(visit: extern "C" fn(*mut c_void, *mut c_void) -> c_int, argument: *mut c_void) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

/// Result of a walk.
struct Walk {
    frames: usize,
    name: [u8; CALL_NAME_BYTES],
    len: usize,
}

/// Returns whether the engine has asked for MPI calls.
pub fn are_wanted() -> bool {
    client::is_attached() && client::header().call_names_wanted.load(Ordering::Acquire) != 0
}

/// Writes the outermost MPI call of the calling thread into the memory shared with the engine. An
/// answer of length 0 states that the thread is in none.
pub fn answer() {
    let header = client::header();
    let index = header.call_names_claimed.fetch_add(1, Ordering::AcqRel) as usize;
    let Some(entry) = header.call_names.get(index).filter(|_| index < CALL_NAMES_MAX) else { return };
    let mut walk = Walk { frames: 0, name: [0; CALL_NAME_BYTES], len: 0 };
    // SAFETY: `visit` has the required type, and `walk` lives during the call.
    unsafe { _Unwind_Backtrace(visit, (&raw mut walk).cast()) };
    for (to, from) in entry.name.iter().zip(walk.name) {
        to.store(from, Ordering::Relaxed);
    }
    entry.len.store(walk.len as u32, Ordering::Relaxed);
    entry.tid.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Ordering::Release);
}

/// Remembers the frame's function if it is an MPI call. The last one seen is the outermost.
extern "C" fn visit(frame: *mut c_void, argument: *mut c_void) -> c_int {
    // SAFETY: `answer` passed its `Walk`, and nothing else uses it during the walk.
    let walk = unsafe { &mut *argument.cast::<Walk>() };
    walk.frames += 1;
    if walk.frames > FRAMES_MAX {
        return STOP;
    }
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the unwinder passes a frame that is valid during this call.
    let address = unsafe { _Unwind_GetIP(frame) };
    // SAFETY: the loader fills the structure in, and reads nothing at the address. Zeros are a valid
    // `Dl_info`.
    let found = unsafe {
        libc::dladdr(address.wrapping_sub(1) as *const c_void, found.as_mut_ptr());
        found.assume_init()
    };
    if !found.dli_sname.is_null() {
        // SAFETY: names in a symbol table end with a zero byte, and the library stays loaded,
        // because this thread executes it.
        let name = unsafe { CStr::from_ptr(found.dli_sname) }.to_bytes();
        if let Some(call) = mpi_call(name) {
            walk.len = call.len().min(CALL_NAME_BYTES);
            walk.name[..walk.len].copy_from_slice(&call[..walk.len]);
        }
    }
    GO_ON
}

/// Returns the MPI call of a symbol: a function of MPI in C or Fortran, or of its profiling interface.
/// A library gives `PMPI_Send` and `MPI_Send` the same address, so the names are equal here.
fn mpi_call(symbol: &[u8]) -> Option<&[u8]> {
    let plain = symbol.strip_prefix(b"P").unwrap_or(symbol);
    let is_c = plain.starts_with(b"MPI_") || plain.starts_with(b"MPIX_");
    let is_fortran = symbol.starts_with(b"mpi_") && symbol.ends_with(b"_");
    if is_c { Some(plain) } else { is_fortran.then_some(symbol) }
}

#[cfg(test)]
mod tests {
    use super::mpi_call;

    #[test]
    fn calls_of_mpi_are_recognized_by_their_standard_names() {
        for (symbol, call) in [("MPI_Recv", "MPI_Recv"), ("PMPI_Barrier", "MPI_Barrier"), ("mpi_allreduce_", "mpi_allreduce_")] {
            assert_eq!(mpi_call(symbol.as_bytes()), Some(call.as_bytes()));
        }
        for symbol in ["MPIR_Barrier_impl", "MPID_Recv", "ompi_request_wait", "PMIx_Get", "mpi_data"] {
            assert_eq!(mpi_call(symbol.as_bytes()), None, "{symbol}");
        }
    }
}
