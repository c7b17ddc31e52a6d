//! Processes that change their place on purpose: `softband exec` becomes a program on another host,
//! and `softband run` starts programs of another fabric. Both commands may run in a fabric.

use crate::clib::args::Text;
use crate::process::children;
use crate::process::environment::Place;
use crate::runtime::attach::attached;
use crate::runtime::world::{active, walled};
use libc::c_int;
use softband_client::{self as client, Errno};
use softband_ipc::calls::{Name, op};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const LONGEST_NAME: usize = 255;
/// First descriptor behind the standard ones.
const FIRST_OTHER: u32 = 3;
const CLOSE_RANGE_CLOEXEC: u32 = 4;

/// Ticket and place of the next image.
static NEXT: Mutex<Option<(u64, Place)>> = Mutex::new(None);
/// Set if new programs get the environment that this program passes on.
static LEAVES: AtomicBool = AtomicBool::new(false);

fn next() -> MutexGuard<'static, Option<(u64, Place)>> {
    NEXT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the ticket and the place of the next image, if it belongs on another host.
pub fn take() -> Option<(u64, Place)> {
    next().take()
}

/// Returns whether new programs of this process leave its fabric, in wall pace.
pub fn leaves() -> bool {
    LEAVES.load(Ordering::Relaxed)
}

/// Places the next image of this process on the host of this name. That image has only the standard
/// descriptors, as a program that ssh starts. Returns 0, an errno, or -1 outside a fabric.
#[unsafe(no_mangle)]
pub extern "C" fn softband_shim_move(host: Text) -> c_int {
    let Some(name) = host.bytes().filter(|_| active() || walled()) else { return -1 };
    if name.len() > LONGEST_NAME {
        return libc::ENOENT;
    }
    let mut request = Name { len: name.len() as u32, bytes: [0; 256] };
    request.bytes[..name.len()].copy_from_slice(name);
    match client::call::<op::ExecOn>(&request) {
        Ok(placed) => {
            let files = placed.files.get(..placed.len as usize).unwrap_or_default();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            *next() = Some((placed.ticket, Place { host: text(name), files: text(files) }));
            // SAFETY: the call changes flags of descriptors, and no memory.
            unsafe { kernel!(libc::SYS_close_range, FIRST_OTHER, u32::MAX, CLOSE_RANGE_CLOEXEC) };
            if let Some(fd) = children::own_lifeline() {
                children::set_cloexec(fd, true);
            }
            0
        }
        Err(Errno(errno)) => errno,
    }
}

/// Lets new programs of this process have the environment that it passes on, in wall pace. Returns 0,
/// or -1 outside a fabric.
#[unsafe(no_mangle)]
pub extern "C" fn softband_shim_leave() -> c_int {
    LEAVES.store(true, Ordering::Relaxed);
    if attached() { 0 } else { -1 }
}
