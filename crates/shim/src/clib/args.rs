//! Arguments of C functions as types. A C caller owes each argument what the manual page of the
//! called function says about it. The types below state that debt once, so that the functions
//! that take them need no `unsafe`.
//!
//! A value comes from a C caller as a parameter of an exported function, or from a Rust reference.
//! Every pointer is null, or its target lives and stays in place during the call. Alignment is not
//! required: the processor does not require it from C programs either.

use libc::{c_char, c_int};
use std::ffi::CStr;
use std::marker::PhantomData;
use std::sync::atomic::AtomicU32;

macro_rules! pointer {
    ($(#[$doc:meta])* $name:ident: $raw:ty, $reference:ty, $null:path) => {
        $(#[$doc])*
        #[repr(transparent)]
        pub struct $name<'a, T>($raw, PhantomData<$reference>);

        impl<T> Clone for $name<'_, T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<'_, T> {}

        impl<T> $name<'_, T> {
            /// The argument of a caller who passes nothing.
            pub const NULL: Self = Self($null(), PhantomData);

            #[inline]
            pub fn is_null(self) -> bool {
                self.0.is_null()
            }

            /// Returns the address, which identifies the target among those of its kind.
            #[inline]
            pub fn address(self) -> usize {
                self.0 as usize
            }
        }
    };
}

pointer! {
    /// A value to read, or null.
    In: *const T, &'a T, std::ptr::null
}

pointer! {
    /// Room for a result, or null. The room may be uninitialised.
    Out: *mut T, &'a mut T, std::ptr::null_mut
}

pointer! {
    /// A value to read and to replace, or null. A function reads a result only after a call
    /// wrote it.
    InOut: *mut T, &'a mut T, std::ptr::null_mut
}

pointer! {
    /// An object that the C library manages, such as a mutex, in the state that the manual page
    /// requires. Other threads may use it at the same time.
    Managed: *mut T, &'a T, std::ptr::null_mut
}

impl<'a, T: Copy> In<'a, T> {
    #[inline]
    pub fn of(value: &'a T) -> Self {
        Self(value, PhantomData)
    }

    /// Takes a pointer out of a structure or a register of the caller.
    ///
    /// # Safety
    /// `pointer` is null, or its target is initialised and lives during the call.
    #[inline]
    pub unsafe fn from_raw(pointer: *const T) -> Self {
        Self(pointer, PhantomData)
    }

    /// Reads the value. Returns `None` for null.
    #[inline]
    pub fn get(self) -> Option<T> {
        // SAFETY: the target of an `In` lives and is initialised, unless the pointer is null.
        (!self.0.is_null()).then(|| unsafe { self.0.read_unaligned() })
    }
}

impl<'a, T: Copy> Out<'a, T> {
    #[inline]
    pub fn of(room: &'a mut T) -> Self {
        Self(room, PhantomData)
    }

    /// Takes a pointer out of a structure or a register of the caller.
    ///
    /// # Safety
    /// `pointer` is null, or it has room for a `T`, which lives during the call.
    #[inline]
    pub unsafe fn from_raw(pointer: *mut T) -> Self {
        Self(pointer, PhantomData)
    }

    /// Writes the result. Does nothing for null.
    #[inline]
    pub fn set(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: an `Out` has room for its value, unless it is null.
            unsafe { self.0.write_unaligned(value) }
        }
    }
}

impl<T> InOut<'_, T> {
    /// Returns the pointer, for a result that leads back to the caller's own memory.
    pub fn as_ptr(self) -> *mut T {
        self.0
    }
}

impl<'a, T: Copy> InOut<'a, T> {
    #[inline]
    pub fn of(value: &'a mut T) -> Self {
        Self(value, PhantomData)
    }

    /// Takes a pointer out of a register of the caller.
    ///
    /// # Safety
    /// `pointer` is null, or it has room for a `T`, which lives during the call.
    #[inline]
    pub unsafe fn from_raw(pointer: *mut T) -> Self {
        Self(pointer, PhantomData)
    }

    /// Reads the value. Returns `None` for null.
    #[inline]
    pub fn get(self) -> Option<T> {
        In(self.0, PhantomData).get()
    }

    /// Replaces the value. Does nothing for null.
    #[inline]
    pub fn set(self, value: T) {
        Out(self.0, PhantomData).set(value);
    }
}

impl<'a, T> Managed<'a, T> {
    /// Takes an initialised object of a Rust function.
    ///
    /// # Safety
    /// The object is in the state that the called function requires.
    pub unsafe fn of(object: &'a mut T) -> Self {
        Self(object, PhantomData)
    }

    /// Reads a number that the C library keeps at `offset` bytes of the object.
    #[inline]
    pub fn field(self, offset: usize) -> c_int {
        assert!(offset + size_of::<c_int>() <= size_of::<T>());
        // SAFETY: the field lies within the object, which lives during the call. The read is
        // volatile, because other threads may use the object.
        unsafe { self.0.cast::<u8>().add(offset).cast::<c_int>().read_volatile() }
    }

    /// Returns a number at `offset` bytes of the object that threads of several processes change.
    pub fn word(self, offset: usize) -> &'a AtomicU32 {
        assert!(offset.is_multiple_of(align_of::<AtomicU32>()) && offset + size_of::<AtomicU32>() <= size_of::<T>());
        // SAFETY: the word lies within the object, which lives during the call. All threads of the
        // run change it by atomic operations.
        unsafe { &*self.0.cast::<u8>().add(offset).cast::<AtomicU32>() }
    }
}

/// A C string, or null.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> Text<'a> {
    pub const NULL: Self = Self(std::ptr::null(), PhantomData);

    /// Takes a pointer out of a register of the caller.
    ///
    /// # Safety
    /// `text` is null, or a C string that lives for `'a`.
    pub unsafe fn from_raw(text: *const c_char) -> Self {
        Self(text, PhantomData)
    }

    pub fn of(text: &'a CStr) -> Self {
        Self(text.as_ptr(), PhantomData)
    }

    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub fn as_ptr(self) -> *const c_char {
        self.0
    }

    /// Returns the string. Returns `None` for null.
    pub fn get(self) -> Option<&'a CStr> {
        // SAFETY: the target of a `Text` ends with a NUL and does not change during the call.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })
    }

    /// Returns the bytes before the NUL. Returns `None` for null.
    pub fn bytes(self) -> Option<&'a [u8]> {
        self.get().map(CStr::to_bytes)
    }
}

/// A list of C strings that ends with a null pointer, or null.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a>(*const *const c_char, PhantomData<&'a [*const c_char]>);

impl<'a> Texts<'a> {
    /// Takes the list of a Rust function.
    ///
    /// # Safety
    /// `list` is null, or a list of C strings that ends with a null pointer and lives for `'a`.
    pub unsafe fn from_raw(list: *const *const c_char) -> Self {
        Self(list, PhantomData)
    }

    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub fn as_ptr(self) -> *const *const c_char {
        self.0
    }

    /// Returns the strings. Null is an empty list.
    pub fn iter(self) -> impl Iterator<Item = &'a CStr> {
        let mut at = self.0;
        std::iter::from_fn(move || {
            if at.is_null() {
                return None;
            }
            // SAFETY: `at` is an entry of the list: it never moves beyond the null pointer.
            let text = Text(unsafe { at.read() }, PhantomData).get()?;
            // SAFETY: the entry is a string, so another entry follows it.
            at = unsafe { at.add(1) };
            Some(text)
        })
    }
}

/// Returns the elements of a caller's array. Null is an empty array.
///
/// # Safety
/// `data` is null, or it has `count` initialised elements, which nobody changes for `'a`.
#[inline]
pub unsafe fn slice<'a, T>(data: *const T, count: usize) -> &'a [T] {
    // SAFETY: a pointer that is not null has `count` elements.
    if data.is_null() || count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(data, count) } }
}

/// Returns the elements of a caller's array. Null is an empty array.
///
/// # Safety
/// `data` is null, or it has `count` initialised elements, which nobody else uses for `'a`.
#[inline]
pub unsafe fn slice_mut<'a, T>(data: *mut T, count: usize) -> &'a mut [T] {
    // SAFETY: a pointer that is not null has `count` elements.
    if data.is_null() || count == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(data, count) } }
}

/// A C structure for which all zero is a value.
///
/// # Safety
/// The type consists of numbers, pointers and optional functions.
pub unsafe trait Zeroed: Sized {
    /// Returns the value of zeros.
    fn zeroed() -> Self {
        // SAFETY: the implementation of the trait says that all zero is a value.
        unsafe { std::mem::zeroed() }
    }
}

macro_rules! all_zero {
    ($($name:ty),*) => {
        // SAFETY: the headers of the C library define the type as numbers and pointers.
        $(unsafe impl Zeroed for $name {})*
    };
}

all_zero!(libc::sigaction, libc::sigset_t, libc::siginfo_t, libc::stat, libc::itimerval, libc::timespec, libc::hostent, libc::Dl_info);
all_zero!(libc::fd_set, libc::addrinfo, libc::rusage, libc::tms, libc::timezone, libc::sem_t);
all_zero!(libc::pthread_mutex_t, libc::pthread_cond_t, c_int, libc::timeval, libc::linger);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_no_value_and_no_room() {
        assert_eq!(In::<u32>::NULL.get(), None);
        assert_eq!(InOut::<u32>::NULL.get(), None);
        Out::<u32>::NULL.set(1);
        assert!(Text::NULL.get().is_none());
        // SAFETY: null is allowed.
        assert_eq!(unsafe { Texts::from_raw(std::ptr::null()) }.iter().count(), 0);
    }

    #[test]
    fn values_go_through_unaligned_pointers() {
        let mut room = [0u8; 9];
        // SAFETY: the room has eight bytes behind the first.
        let out = unsafe { Out::from_raw(room.as_mut_ptr().wrapping_add(1).cast::<u64>()) };
        out.set(0x0102_0304_0506_0708);
        assert_eq!(room, [0, 8, 7, 6, 5, 4, 3, 2, 1]);
    }

    #[test]
    fn a_list_ends_at_its_null_pointer() {
        let list = [c"a".as_ptr(), c"bc".as_ptr(), std::ptr::null(), c"d".as_ptr()];
        // SAFETY: the list contains a null pointer.
        let texts = unsafe { Texts::from_raw(list.as_ptr()) };
        assert_eq!(texts.iter().collect::<Vec<_>>(), [c"a", c"bc"]);
    }
}
