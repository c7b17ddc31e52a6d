//! All code that a program preloads, as one static library, from which `cargo xtask link` makes
//! shared objects.
//!
//! The crates below define C symbols; their names here link them in. This crate provides their
//! memory allocator.

extern crate softband_libibverbs as _;
extern crate softband_shim as _;

use softband_shim::runtime::allocator::Private;

#[global_allocator]
static ALLOCATOR: Private = Private::new();

#[used]
#[unsafe(link_section = ".init_array.00102")]
static CONSTRUCTOR: extern "C" fn() = construct;

extern "C" fn construct() {
    // SAFETY: both handlers exist as long as the process.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
}

unsafe extern "C" fn before() {
    ALLOCATOR.begin_fork();
}

unsafe extern "C" fn after() {
    ALLOCATOR.end_fork();
}
