//! Private memory of this library. The program's `malloc` may itself call this library, and the
//! library's signal handlers may interrupt it. For example, jemalloc asks for the time and the
//! processors during its initialization, and the first call attaches.

use dlmalloc::Dlmalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Allocator of system pages behind a lock that uses no interposed function.
pub struct Private {
    taken: AtomicBool,
    /// The thread that holds the lock during its fork. Other fork handlers run meanwhile and
    /// allocate.
    forking: AtomicUsize,
    heap: UnsafeCell<Dlmalloc>,
}

// SAFETY: the heap is used only behind the lock.
unsafe impl Sync for Private {}

impl Private {
    pub const fn new() -> Self {
        Self { taken: AtomicBool::new(false), forking: AtomicUsize::new(0), heap: UnsafeCell::new(Dlmalloc::new()) }
    }

    /// Takes the lock before a fork. No other thread may be in the middle of an allocation, because
    /// it will not exist in the child.
    pub fn begin_fork(&self) {
        self.lock();
        self.forking.store(own_thread(), Ordering::Relaxed);
    }

    /// Releases the lock after a fork, in the parent and in the child.
    pub fn end_fork(&self) {
        self.forking.store(0, Ordering::Relaxed);
        self.unlock();
    }

    fn lock(&self) {
        while self.taken.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            // SAFETY: the call has no arguments and changes no memory.
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

/// Returns the id of the calling thread. It is the same in the child of a fork as in its parent.
fn own_thread() -> usize {
    // SAFETY: `pthread_self` has no precondition.
    unsafe { libc::pthread_self() as usize }
}

impl Default for Private {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: dlmalloc keeps the contract, because it receives the caller's sizes and alignments.
unsafe impl GlobalAlloc for Private {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc`; dlmalloc requires no more.
        self.with(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
    }

    unsafe fn dealloc(&self, data: *mut u8, layout: Layout) {
        // SAFETY: the caller frees memory of this heap with the layout of its allocation.
        self.with(|heap| unsafe { heap.free(data, layout.size(), layout.align()) });
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc`; dlmalloc requires no more.
        self.with(|heap| unsafe { heap.calloc(layout.size(), layout.align()) })
    }

    unsafe fn realloc(&self, data: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the memory belongs to this heap and has this layout, by the contract of
        // `GlobalAlloc`.
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
        // SAFETY: the layout is not empty, and `dealloc` gets the same layout.
        unsafe { heap.dealloc(heap.alloc(layout), layout) };
        heap.end_fork();
        // SAFETY: the layout is not empty, and `dealloc` gets the layout of `alloc`.
        unsafe { heap.dealloc(heap.alloc(layout), layout) };
    }

    #[test]
    fn threads_get_memory_that_is_theirs_alone() {
        static HEAP: Private = Private::new();
        let work = |seed: u8| {
            for round in 1..200 {
                let layout = Layout::from_size_align(round * 37, 64).unwrap();
                // SAFETY: the layout is not empty, and `dealloc` gets the layout of the memory.
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
