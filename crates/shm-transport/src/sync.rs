//! The atomics of the protocol: the processor's, or those of loom in models (`cfg(loom)`).

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use modelled::{AtomicU16, AtomicU32, AtomicU64, Ordering, Track, fence};

/// Atomics of loom with the meaning of x86-64, where the protocol differs from loom: loom treats
/// accesses with `SeqCst` as weaker ones, and the processor orders all reads after a store with
/// `SeqCst` and around a locked instruction with `SeqCst`. A read with `SeqCst` is a plain read.
///
/// Loom remembers only the last access to an atomic. If a thread reads and then writes, loom misses
/// the other order of that write and an earlier read of another thread. So each access first writes
/// `turn`. This write orders no memory, and loom tries all orders of it.
#[cfg(loom)]
mod modelled {
    pub use loom::sync::atomic::{Ordering, fence};

    macro_rules! atomics {
        ($($name:ident $int:ty,)*) => { $(
            #[derive(Debug, Default)]
            pub struct $name {
                value: loom::sync::atomic::$name,
                turn: loom::sync::atomic::AtomicU32,
            }

            #[allow(dead_code)]
            impl $name {
                pub fn new(value: $int) -> Self {
                    Self { value: loom::sync::atomic::$name::new(value), turn: Default::default() }
                }

                fn value(&self) -> &loom::sync::atomic::$name {
                    self.turn.store(0, Ordering::Relaxed);
                    &self.value
                }

                pub fn load(&self, order: Ordering) -> $int {
                    self.value().load(if order == Ordering::SeqCst { Ordering::Acquire } else { order })
                }

                pub fn store(&self, value: $int, order: Ordering) {
                    if order == Ordering::SeqCst {
                        self.value().store(value, Ordering::Release);
                        fence(Ordering::SeqCst);
                    } else {
                        self.value().store(value, order);
                    }
                }

                fn locked<T>(order: Ordering, change: impl FnOnce(Ordering) -> T) -> T {
                    if order != Ordering::SeqCst {
                        return change(order);
                    }
                    fence(Ordering::SeqCst);
                    let result = change(Ordering::AcqRel);
                    fence(Ordering::SeqCst);
                    result
                }

                pub fn swap(&self, value: $int, order: Ordering) -> $int {
                    Self::locked(order, |order| self.value().swap(value, order))
                }

                pub fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                    Self::locked(order, |order| self.value().fetch_add(value, order))
                }

                pub fn fetch_or(&self, value: $int, order: Ordering) -> $int {
                    Self::locked(order, |order| self.value().fetch_or(value, order))
                }

                pub fn compare_exchange(&self, from: $int, to: $int, order: Ordering, failure: Ordering) -> Result<$int, $int> {
                    Self::locked(order, |order| self.value().compare_exchange(from, to, order, failure))
                }

                /// Never fails without a reason, as on x86-64.
                pub fn compare_exchange_weak(&self, from: $int, to: $int, order: Ordering, failure: Ordering) -> Result<$int, $int> {
                    self.compare_exchange(from, to, order, failure)
                }

                pub fn fetch_update(&self, order: Ordering, failure: Ordering, change: impl FnMut($int) -> Option<$int>) -> Result<$int, $int> {
                    Self::locked(order, |order| self.value().fetch_update(order, failure, change))
                }
            }
        )* };
    }

    atomics! {
        AtomicU16 u16,
        AtomicU32 u32,
        AtomicU64 u64,
    }

    /// Memory without atomics: loom fails if a write of it may happen at the same time as another
    /// access.
    #[derive(Debug, Default)]
    pub struct Track(loom::cell::UnsafeCell<()>);

    impl Track {
        pub fn read(&self) {
            self.0.with(|_| ());
        }

        pub fn write(&self) {
            self.0.with_mut(|_| ());
        }
    }
}
