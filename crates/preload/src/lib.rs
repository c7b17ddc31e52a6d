//! Everything a program gets preloaded, as one static library: `cargo xtask link` makes shared objects of it.
//!
//! The crates below define C symbols, and naming them brings them in. This crate has the memory that they work in.

extern crate softband_guest as _;
extern crate softband_libibverbs as _;

use softband_guest::allocator::Private;

#[global_allocator]
static ALLOCATOR: Private = Private::new();

#[used]
#[unsafe(link_section = ".init_array.00102")]
static CONSTRUCTOR: extern "C" fn() = construct;

extern "C" fn construct() {
    // SAFETY: both handlers are there as long as the process is.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
}

unsafe extern "C" fn before() {
    ALLOCATOR.begin_fork();
}

unsafe extern "C" fn after() {
    ALLOCATOR.end_fork();
}
