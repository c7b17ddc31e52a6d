//! Descriptors of the kernel that other threads and processes of the host write: pipes, eventfds,
//! Unix sockets, signalfds. The kernel alone knows their state, so the engine learns of each write.

use crate::fd::descriptors::kind_of;
use crate::runtime::world::{active, keeping_errno};
use softband_client as client;
use softband_ipc::calls::op;

/// Returns whether other threads can wait for the effect of a write to the descriptor. An eventfd
/// has no type.
fn leads_to_others(fd: i32) -> bool {
    matches!(kind_of(fd), libc::S_IFIFO | libc::S_IFSOCK | 0)
}

/// Lets the threads look again that await a descriptor of the kernel, after a call with this result.
/// A write makes another end readable, and a signal a signalfd.
pub fn tell_of<R: PartialOrd + From<i8>>(result: R) {
    if active() && result >= R::from(0) {
        keeping_errno(|| {
            let _ = client::call::<op::KernelWritten>(&());
        });
    }
}

/// Runs `write`, which may make another descriptor ready, at its place in the order of simulated
/// time.
pub fn writing<R: Copy + PartialOrd + From<i8>>(fd: i32, write: impl FnOnce() -> R) -> R {
    if !active() || !leads_to_others(fd) {
        return write();
    }
    client::sync();
    let written = write();
    tell_of(written);
    written
}
