//! Types and numbers of PMIx 4 and later (`pmix_common.h`, `pmix_server.h`). The standard keeps them
//! stable.

use std::ffi::{c_char, c_int, c_void};

pub(crate) type Status = c_int;
pub(crate) const SUCCESS: Status = 0;
pub(crate) const ERR_NOT_SUPPORTED: Status = -47;
pub(crate) const ERR_LOST_CONNECTION: Status = -61;
/// The request is complete, and no callback follows.
pub(crate) const OPERATION_SUCCEEDED: Status = -157;
/// Answer of an event handler that lets no other handler see the event.
pub(crate) const EVENT_ACTION_COMPLETE: Status = -334;

/// Bytes of the name of a job, with its final zero.
pub(crate) const NAME_BYTES: usize = 256;
/// Bytes of a key, with its final zero.
pub(crate) const KEY_BYTES: usize = 512;

/// A process: its job and its rank.
#[repr(C)]
pub(crate) struct Proc {
    pub(crate) name: [u8; NAME_BYTES],
    pub(crate) rank: u32,
}

impl Proc {
    pub(crate) fn new(job: &str, rank: u32) -> Self {
        Self { name: padded(job), rank }
    }
}

/// Returns a text with zeros behind it. A text that is too long is cut.
pub(crate) fn padded<const BYTES: usize>(text: &str) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let length = text.len().min(BYTES - 1);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
}

/// Types of a value (`PMIX_STRING` and others).
pub(crate) const TYPE_BOOL: u16 = 1;
pub(crate) const TYPE_STRING: u16 = 3;
pub(crate) const TYPE_UINT16: u16 = 13;
pub(crate) const TYPE_UINT32: u16 = 14;
pub(crate) const TYPE_INFO: u16 = 24;
pub(crate) const TYPE_DATA_ARRAY: u16 = 39;
pub(crate) const TYPE_PROC_RANK: u16 = 40;

/// The content of a value. Its largest member is a variable of an environment: two pointers and a
/// character.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union Data {
    pub(crate) flag: bool,
    pub(crate) string: *const c_char,
    pub(crate) uint16: u16,
    pub(crate) uint32: u32,
    pub(crate) array: *const DataArray,
    pub(crate) all: [u64; 3],
}

#[repr(C)]
pub(crate) struct Value {
    pub(crate) kind: u16,
    pub(crate) data: Data,
}

/// An attribute: a key with its value.
#[repr(C)]
pub(crate) struct Info {
    pub(crate) key: [u8; KEY_BYTES],
    pub(crate) flags: u32,
    pub(crate) value: Value,
}

#[repr(C)]
pub(crate) struct DataArray {
    pub(crate) kind: u16,
    pub(crate) size: usize,
    pub(crate) array: *const c_void,
}

pub(crate) type Done = Option<unsafe extern "C" fn(Status, *mut c_void)>;
pub(crate) type Connected = unsafe extern "C" fn(*const Proc, *mut c_void, Done, *mut c_void) -> Status;
pub(crate) type Abort = unsafe extern "C" fn(*const Proc, *mut c_void, c_int, *const c_char, *mut Proc, usize, Done, *mut c_void) -> Status;
pub(crate) type Spawn = unsafe extern "C" fn(*const Proc, *const Info, usize, *const c_void, usize, *mut c_void, *mut c_void) -> Status;
/// Ends the work of an event handler: status, results and their number, a callback with its data,
/// and the data of the handler's call.
pub(crate) type Handled = Option<unsafe extern "C" fn(Status, *mut Info, usize, Done, *mut c_void, *mut c_void)>;
pub(crate) type Handler = unsafe extern "C" fn(usize, Status, *const Proc, *mut Info, usize, *mut Info, usize, Handled, *mut c_void);

/// Functions that the library calls for the ranks. It knows longer tables in later versions, whose
/// further entries stay null.
#[repr(C)]
pub(crate) struct Module {
    pub(crate) client_connected: Option<Connected>,
    pub(crate) client_finalized: Option<Connected>,
    pub(crate) abort: Option<Abort>,
    pub(crate) fence_to_unpublish: [*const c_void; 5],
    pub(crate) spawn: Option<Spawn>,
    pub(crate) others: [*const c_void; 55],
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// The figures are those of pmix_common.h 4.2 and 5.0 on x86-64.
    #[test]
    fn the_types_have_the_sizes_of_the_header() {
        assert_eq!((size_of::<Proc>(), offset_of!(Proc, rank)), (260, 256));
        assert_eq!((size_of::<Value>(), offset_of!(Value, data)), (32, 8));
        assert_eq!((size_of::<Info>(), offset_of!(Info, flags), offset_of!(Info, value)), (552, 512, 520));
        assert_eq!((size_of::<DataArray>(), offset_of!(DataArray, array)), (24, 16));
        assert_eq!(offset_of!(Module, spawn), 8 * size_of::<*const ()>());
    }

    #[test]
    fn long_names_are_cut_before_the_final_zero() {
        assert_eq!(padded::<4>("ab"), *b"ab\0\0");
        assert_eq!(padded::<4>("abcdef"), *b"abc\0");
    }
}
