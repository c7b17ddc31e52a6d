//! The C library of PMI-1 (`pmi.h`), for MPI libraries that load one at run time. It reaches the
//! server of the job by the variables `PMI_PORT` and `PMI_ID`.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // runs in programs, reads their environment, and connects

use softband_pmi::client::Client;
use softband_pmi::{KEY_MAX, NAME_MAX, VALUE_MAX};
use std::ffi::{CStr, c_char, c_int};
use std::net::TcpStream;
use std::sync::Mutex;

const SUCCESS: c_int = 0;
const FAIL: c_int = -1;
const ERR_INIT: c_int = 1;
const ERR_INVALID_ARG: c_int = 3;
const ERR_INVALID_LENGTH: c_int = 8;

static CLIENT: Mutex<Option<Client<TcpStream>>> = Mutex::new(None);

/// Runs `action` on the connection. Returns its status.
fn with(action: impl FnOnce(&mut Client<TcpStream>) -> c_int) -> c_int {
    CLIENT.lock().map_or(FAIL, |mut client| client.as_mut().map_or(ERR_INIT, action))
}

fn status<T>(outcome: std::io::Result<T>) -> c_int {
    if outcome.is_ok() { SUCCESS } else { FAIL }
}

/// Stores a number where the caller wants it.
///
/// # Safety
/// `to` is null, or valid for a write.
unsafe fn store(to: *mut c_int, value: usize) -> c_int {
    if to.is_null() {
        return ERR_INVALID_ARG;
    }
    // SAFETY: the caller keeps `to` valid, and it is not null.
    unsafe { to.write(c_int::try_from(value).unwrap_or(c_int::MAX)) };
    SUCCESS
}

/// Stores a text with its final zero.
///
/// # Safety
/// `to` is null, or valid for writes of `room` bytes.
unsafe fn store_text(to: *mut c_char, room: c_int, text: &str) -> c_int {
    if to.is_null() {
        return ERR_INVALID_ARG;
    }
    if usize::try_from(room).unwrap_or(0) <= text.len() {
        return ERR_INVALID_LENGTH;
    }
    // SAFETY: the caller has room for `room` bytes, and the text with its zero is not longer.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), text.len());
        to.add(text.len()).write(0);
    }
    SUCCESS
}

/// Reads a text of the caller.
///
/// # Safety
/// `text` is null, or a string that ends in zero.
unsafe fn text_of<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller passes a string that ends in zero.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

fn connect() -> Option<Client<TcpStream>> {
    let port = std::env::var("PMI_PORT").ok()?;
    let rank = std::env::var("PMI_ID").ok()?.parse().ok()?;
    let stream = TcpStream::connect(port).ok()?;
    let _ = stream.set_nodelay(true);
    Client::start(stream, rank).ok()
}

/// Connects to the server of the job.
///
/// # Safety
/// `spawned` is null, or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Init(spawned: *mut c_int) -> c_int {
    let Ok(mut client) = CLIENT.lock() else { return FAIL };
    if client.is_none() {
        *client = connect();
    }
    if client.is_none() {
        return FAIL;
    }
    // SAFETY: the caller keeps the pointer valid.
    unsafe { store(spawned, 0) }
}

/// # Safety
/// `initialized` is null, or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Initialized(initialized: *mut c_int) -> c_int {
    let is_there = CLIENT.lock().is_ok_and(|client| client.is_some());
    // SAFETY: the caller keeps the pointer valid.
    unsafe { store(initialized, usize::from(is_there)) }
}

#[unsafe(no_mangle)]
pub extern "C" fn PMI_Finalize() -> c_int {
    let outcome = with(|client| status(client.finalize()));
    if let Ok(mut client) = CLIENT.lock() {
        *client = None;
    }
    outcome
}

/// # Safety
/// `size` is null, or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_size(size: *mut c_int) -> c_int {
    // SAFETY: the caller keeps the pointer valid.
    with(|client| unsafe { store(size, client.size) })
}

/// # Safety
/// `rank` is null, or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_rank(rank: *mut c_int) -> c_int {
    // SAFETY: the caller keeps the pointer valid.
    with(|client| unsafe { store(rank, client.rank) })
}

/// # Safety
/// `size` is null, or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_universe_size(size: *mut c_int) -> c_int {
    // SAFETY: the caller keeps the pointer valid.
    unsafe { PMI_Get_size(size) }
}

/// # Safety
/// `number` is null, or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_appnum(number: *mut c_int) -> c_int {
    // SAFETY: the caller keeps the pointer valid.
    with(|_| unsafe { store(number, 0) })
}

#[unsafe(no_mangle)]
pub extern "C" fn PMI_Barrier() -> c_int {
    with(|client| status(client.barrier()))
}

/// Asks the server to end the job, and ends this process.
///
/// # Safety
/// `_message` is not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Abort(code: c_int, _message: *const c_char) -> c_int {
    with(|client| status(client.abort(code)));
    std::process::exit(code)
}

/// # Safety
/// `name` is null, or valid for writes of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Get_my_name(name: *mut c_char, length: c_int) -> c_int {
    // SAFETY: the caller has room for `length` bytes.
    with(|client| unsafe { store_text(name, length, &client.name) })
}

/// # Safety
/// `length` is null, or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Get_name_length_max(length: *mut c_int) -> c_int {
    // SAFETY: the caller keeps the pointer valid.
    unsafe { store(length, NAME_MAX) }
}

/// # Safety
/// `length` is null, or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Get_key_length_max(length: *mut c_int) -> c_int {
    // SAFETY: the caller keeps the pointer valid.
    unsafe { store(length, KEY_MAX) }
}

/// # Safety
/// `length` is null, or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Get_value_length_max(length: *mut c_int) -> c_int {
    // SAFETY: the caller keeps the pointer valid.
    unsafe { store(length, VALUE_MAX) }
}

/// # Safety
/// `key` and `value` are null, or strings that end in zero. `_space` is not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Put(_space: *const c_char, key: *const c_char, value: *const c_char) -> c_int {
    // SAFETY: the caller passes strings that end in zero.
    let (Some(key), Some(value)) = (unsafe { text_of(key) }, unsafe { text_of(value) }) else { return ERR_INVALID_ARG };
    with(|client| status(client.put(key, value)))
}

/// # Safety
/// `_space` is not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Commit(_space: *const c_char) -> c_int {
    with(|_| SUCCESS)
}

/// # Safety
/// `key` is null, or a string that ends in zero; `value` is null, or valid for writes of `length`
/// bytes. `_space` is not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_KVS_Get(_space: *const c_char, key: *const c_char, value: *mut c_char, length: c_int) -> c_int {
    // SAFETY: the caller passes a string that ends in zero.
    let Some(key) = (unsafe { text_of(key) }) else { return ERR_INVALID_ARG };
    with(|client| match client.get(key) {
        // SAFETY: the caller has room for `length` bytes.
        Ok(Some(text)) => unsafe { store_text(value, length, &text) },
        _ => FAIL,
    })
}

/// # Safety
/// `size` is null, or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_clique_size(size: *mut c_int) -> c_int {
    // SAFETY: the caller keeps the pointer valid.
    with(|client| unsafe { store(size, client.neighbours.len()) })
}

/// # Safety
/// `ranks` is null, or valid for writes of `length` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMI_Get_clique_ranks(ranks: *mut c_int, length: c_int) -> c_int {
    with(|client| {
        if usize::try_from(length).unwrap_or(0) < client.neighbours.len() {
            return ERR_INVALID_LENGTH;
        }
        for (place, rank) in client.neighbours.iter().enumerate() {
            // SAFETY: the caller has room for `length` numbers, and there are no more neighbours.
            let outcome = unsafe { store(ranks.wrapping_add(place), *rank) };
            if outcome != SUCCESS {
                return outcome;
            }
        }
        SUCCESS
    })
}
