//! Memory of our own. The program's `malloc` may be the one that calls us (jemalloc asks for the time and for processors while it makes
//! itself ready, and the first call attaches), and it may be interrupted by our signal handlers.

use dlmalloc::Dlmalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Pages from the system, shared out behind a lock that no interposed function is asked for.
pub struct Private {
    taken: AtomicBool,
    /// The thread that holds the lock while it forks: other handlers of a fork run meanwhile, and allocate.
    forking: AtomicUsize,
    heap: UnsafeCell<Dlmalloc>,
}

// SAFETY: the heap is used behind the lock only.
unsafe impl Sync for Private {}

impl Private {
    pub const fn new() -> Self {
        Self { taken: AtomicBool::new(false), forking: AtomicUsize::new(0), heap: UnsafeCell::new(Dlmalloc::new()) }
    }

    /// Before a fork: no other thread may be in the middle of something, for it will not be in the child.
    pub fn begin_fork(&self) {
        self.lock();
        self.forking.store(own_thread(), Ordering::Relaxed);
    }

    /// After it, in the parent and in the child.
    pub fn end_fork(&self) {
        self.forking.store(0, Ordering::Relaxed);
        self.unlock();
    }

    fn lock(&self) {
        while self.taken.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            // SAFETY: asks for nothing but the next thread.
            unsafe { kernel!(libc::SYS_sched_yield) };
        }
    }

    fn unlock(&self) {
        self.taken.store(false, Ordering::Release);
    }

    fn with<R>(&self, body: impl FnOnce(&mut Dlmalloc) -> R) -> R {
        let forker = self.forking.load(Ordering::Relaxed);
        let is_held = forker != 0 && forker == own_thread();
        if !is_held {
            self.lock();
        }
        // SAFETY: the lock is held.
        let result = body(unsafe { &mut *self.heap.get() });
        if !is_held {
            self.unlock();
        }
        result
    }
}

/// The same in the child of a fork as in its parent.
fn own_thread() -> usize {
    // SAFETY: `pthread_self` has no precondition.
    unsafe { libc::pthread_self() as usize }
}

impl Default for Private {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: dlmalloc keeps the contract, as it gets the sizes and alignments that the caller gives.
unsafe impl GlobalAlloc for Private {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc`; dlmalloc asks for no more.
        self.with(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
    }

    unsafe fn dealloc(&self, data: *mut u8, layout: Layout) {
        // SAFETY: the caller gives back memory of this heap, with the layout that it asked for.
        self.with(|heap| unsafe { heap.free(data, layout.size(), layout.align()) });
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc`; dlmalloc asks for no more.
        self.with(|heap| unsafe { heap.calloc(layout.size(), layout.align()) })
    }

    unsafe fn realloc(&self, data: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the memory is of this heap and has this layout, by the contract of `GlobalAlloc`.
        self.with(|heap| unsafe { heap.realloc(data, layout.size(), layout.align(), new_size) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_forks_may_allocate_meanwhile() {
        let heap = Private::new();
        heap.begin_fork();
        let layout = Layout::from_size_align(100, 8).unwrap();
        // SAFETY: the layout is not empty, and memory is given back as it was taken.
        unsafe { heap.dealloc(heap.alloc(layout), layout) };
        heap.end_fork();
        // SAFETY: the layout is not empty, and `dealloc` gets the layout that `alloc` got.
        unsafe { heap.dealloc(heap.alloc(layout), layout) };
    }

    #[test]
    fn threads_get_memory_that_is_theirs_alone() {
        static HEAP: Private = Private::new();
        let work = |seed: u8| {
            for round in 1..200 {
                let layout = Layout::from_size_align(round * 37, 64).unwrap();
                // SAFETY: the layout is not empty, and memory is given back as it was taken.
                unsafe {
                    let data = HEAP.alloc_zeroed(layout);
                    assert!((data as usize).is_multiple_of(64) && (0..layout.size()).all(|at| *data.add(at) == 0));
                    data.write_bytes(seed, layout.size());
                    let data = HEAP.realloc(data, layout, layout.size() * 2);
                    assert!((0..layout.size()).all(|at| *data.add(at) == seed));
                    HEAP.dealloc(data, Layout::from_size_align(layout.size() * 2, 64).unwrap());
                }
            }
        };
        std::thread::scope(|scope| (1..5).for_each(|seed| drop(scope.spawn(move || work(seed)))));
    }
}
