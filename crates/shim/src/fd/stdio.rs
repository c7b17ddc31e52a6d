//! Streams of the C library on sockets of the engine. The C library reads and writes by functions
//! of its own, which no library can replace. They stand in tables, one entry for each operation of
//! a stream, and these tables get ours. So any stream reaches the engine, however its descriptor
//! became a socket: `fdopen`, `dup2` onto standard output, or inheritance.

use crate::clib::symbols;
use crate::fd::descriptors::{close, forget, ours};
use crate::fd::io::{read, write};
use crate::fd::own_values;
use crate::runtime::world::fail;
use libc::{FILE, c_int, c_void, off_t, ssize_t};
use softband_client::fds::Kind;
use softband_client::warn;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Offset of `_fileno` in `struct _IO_FILE` (bits/types/struct_FILE.h).
const FILENO_AT: usize = 112;
/// Flag of a stream after an error (`_IO_ERR_SEEN`).
const ERROR_SEEN: c_int = 0x20;
/// Entries of a table of stream operations that a socket needs (`struct _IO_jump_t`).
const READ: usize = 14;
const ENTRIES: usize = 21;

type ReadStream = unsafe extern "C" fn(*mut FILE, *mut c_void, ssize_t) -> ssize_t;
type WriteStream = unsafe extern "C" fn(*mut FILE, *const c_void, ssize_t) -> ssize_t;
type SeekStream = unsafe extern "C" fn(*mut FILE, off_t, c_int) -> off_t;
type CloseStream = unsafe extern "C" fn(*mut FILE) -> c_int;

/// The C library's functions for reads, writes, seeks and closes of streams, in the order of the
/// table.
static ORIGINALS: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

fn original(index: usize) -> usize {
    ORIGINALS[index].load(Ordering::Relaxed)
}

/// Returns the descriptor of a stream.
///
/// # Safety
/// `stream` is an open stream.
unsafe fn descriptor(stream: *mut FILE) -> c_int {
    // SAFETY: the number is a public field of each stream.
    unsafe { stream.cast::<u8>().add(FILENO_AT).cast::<c_int>().read() }
}

/// Returns the stream's descriptor if a socket of the engine is behind it.
///
/// # Safety
/// `stream` is an open stream.
unsafe fn socket(stream: *mut FILE) -> Option<c_int> {
    // SAFETY: the caller's stream is open.
    let fd = unsafe { descriptor(stream) };
    ours(fd).filter(|entry| matches!(entry.kind, Kind::StreamSocket | Kind::DatagramSocket)).map(|_| fd)
}

/// Returns the stream's descriptor if a setting of the host is behind it.
///
/// # Safety
/// `stream` is an open stream.
unsafe fn own_value(stream: *mut FILE) -> Option<c_int> {
    // SAFETY: the caller's stream is open.
    Some(unsafe { descriptor(stream) }).filter(|fd| own_values::is_value(*fd))
}

unsafe extern "C" fn read_stream(stream: *mut FILE, data: *mut c_void, len: ssize_t) -> ssize_t {
    // SAFETY: the C library passes an open stream, and a buffer with room for `len` bytes.
    unsafe {
        match socket(stream) {
            Some(fd) => read(fd, data, len as usize),
            None => std::mem::transmute::<usize, ReadStream>(original(0))(stream, data, len),
        }
    }
}

unsafe extern "C" fn write_stream(stream: *mut FILE, data: *const c_void, len: ssize_t) -> ssize_t {
    // SAFETY: the stream is open while the C library writes to it.
    let Some(fd) = (unsafe { socket(stream).or_else(|| own_value(stream)) }) else {
        // The thread keeps the token here: it holds the stream's lock, which other threads may await.
        // SAFETY: the original has the type of a write, and gets what the C library passed.
        return unsafe { std::mem::transmute::<usize, WriteStream>(original(1))(stream, data, len) };
    };
    let mut written = 0;
    while written < len {
        // SAFETY: the buffer has `len` bytes, and `written` is less.
        let count = unsafe { write(fd, data.add(written as usize), (len - written) as usize) };
        if count < 0 {
            // SAFETY: the flags are the first field of a stream, and the thread has its lock.
            unsafe { *stream.cast::<c_int>() |= ERROR_SEEN };
            break;
        }
        written += count;
    }
    written
}

unsafe extern "C" fn seek_stream(stream: *mut FILE, offset: off_t, from: c_int) -> off_t {
    // SAFETY: a seek gets an open stream; the original has the type of a seek.
    unsafe {
        match socket(stream) {
            Some(_) => fail(libc::ESPIPE),
            None => std::mem::transmute::<usize, SeekStream>(original(2))(stream, offset, from),
        }
    }
}

unsafe extern "C" fn close_stream(stream: *mut FILE) -> c_int {
    // SAFETY: the stream keeps its descriptor until the close; the original has the type of a close.
    unsafe {
        match socket(stream) {
            Some(fd) => close(fd),
            None => std::mem::transmute::<usize, CloseStream>(original(3))(stream),
        }
    }
}

/// Writes the stream's buffer, and ends the use of a socket behind it.
///
/// # Safety
/// `stream` is null or an open stream.
pub unsafe fn leave(stream: *mut FILE) {
    if stream.is_null() {
        return;
    }
    // SAFETY: the stream is not null, so it is open.
    let Some(fd) = (unsafe { socket(stream).or_else(|| own_value(stream)) }) else { return };
    // SAFETY: the stream stays open, since only its descriptor changes hands.
    unsafe { libc::fflush(stream) };
    forget(fd);
}

/// Puts our functions into the C library's tables of stream operations. Warns if this C library has
/// other tables.
pub fn install() {
    let names = [c"_IO_file_read", c"_IO_file_write", c"_IO_file_seek", c"_IO_file_close"];
    let functions = names.map(|name| symbols::find(name) as usize);
    let tables = [c"_IO_file_jumps", c"_IO_wfile_jumps"].map(|name| symbols::find(name).cast::<usize>());
    let is_known = |table: &*mut usize| {
        // SAFETY: a table of the C library has this number of entries.
        !table.is_null() && unsafe { std::slice::from_raw_parts(*table, ENTRIES) }[READ..READ + functions.len()] == functions
    };
    if functions.contains(&0) || !tables.iter().all(is_known) {
        return bypassed("its tables are unknown");
    }
    for (cell, function) in ORIGINALS.iter().zip(functions) {
        cell.store(function, Ordering::Relaxed);
    }
    let ours = [
        read_stream as ReadStream as usize,
        write_stream as WriteStream as usize,
        seek_stream as SeekStream as usize,
        close_stream as CloseStream as usize,
    ];
    for table in tables {
        // SAFETY: the entries lie within the table.
        if !unsafe { replace(table.add(READ), ours) } {
            return bypassed("its tables stay read-only");
        }
    }
}

fn bypassed(why: &str) {
    warn::once(&format!("the streams of this C library bypass sockets of the fabric (fprintf, fgets): {why}"));
}

/// Writes entries into a table that the dynamic linker made read-only. Returns false if it stays so.
///
/// # Safety
/// `entries` lead to four entries of a table that stays loaded.
unsafe fn replace(entries: *mut usize, functions: [usize; 4]) -> bool {
    const PAGE: usize = 4096;
    let start = entries as usize & !(PAGE - 1);
    let len = (entries as usize + size_of_val(&functions) - start).next_multiple_of(PAGE);
    // SAFETY: the pages belong to the C library's tables, which stay readable all the time.
    unsafe {
        let is_writable = libc::mprotect(start as *mut c_void, len, libc::PROT_READ | libc::PROT_WRITE) == 0;
        if is_writable {
            entries.cast::<[usize; 4]>().write(functions);
            libc::mprotect(start as *mut c_void, len, libc::PROT_READ);
        }
        is_writable
    }
}
