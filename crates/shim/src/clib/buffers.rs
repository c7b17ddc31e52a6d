//! Memory that a C caller passes with its length: the buffers of `read`, `write` and their
//! relatives. Both types have the layout of `iovec`.

use libc::{c_void, iovec, size_t};
use std::marker::PhantomData;

/// Bytes to read.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Readable<'a>(iovec, PhantomData<&'a [u8]>);

/// Room to write into.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Writable<'a>(iovec, PhantomData<&'a mut [u8]>);

impl<'a> Readable<'a> {
    /// Takes a buffer of a caller.
    ///
    /// # Safety
    /// `data` has `len` bytes, which live for `'a`.
    #[inline]
    pub unsafe fn new(data: *const c_void, len: size_t) -> Self {
        Self(iovec { iov_base: data.cast_mut(), iov_len: len }, PhantomData)
    }

    /// Takes a scatter list of a caller. Null is an empty list.
    ///
    /// # Safety
    /// `list` has `count` elements, and each has its bytes; all of them live for `'a`.
    #[inline]
    pub unsafe fn list(list: *const iovec, count: usize) -> &'a [Self] {
        // SAFETY: the elements live for `'a`, and the type has their layout.
        unsafe { super::args::slice(list.cast(), count) }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.0.iov_len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub fn as_ptr(&self) -> *const c_void {
        self.0.iov_base
    }

    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        // SAFETY: the buffer has its length, by the contract of `new` and `list`.
        unsafe { super::args::slice(self.0.iov_base.cast(), self.0.iov_len) }
    }

    /// Returns at most `len` bytes behind the first `start`.
    #[inline]
    pub fn part(&self, start: usize, len: usize) -> Self {
        // The kernel judges the pointer, so a bad one gives EFAULT as without the library.
        let start = start.min(self.0.iov_len);
        let base = self.0.iov_base.cast::<u8>().wrapping_add(start).cast();
        Self(iovec { iov_base: base, iov_len: len.min(self.0.iov_len - start) }, PhantomData)
    }
}

impl<'a> Writable<'a> {
    /// Takes a buffer of a caller.
    ///
    /// # Safety
    /// `data` has room for `len` bytes, which live for `'a` and which nobody else uses.
    #[inline]
    pub unsafe fn new(data: *mut c_void, len: size_t) -> Self {
        Self(iovec { iov_base: data, iov_len: len }, PhantomData)
    }

    /// Takes a scatter list of a caller. Null is an empty list.
    ///
    /// # Safety
    /// `list` has `count` elements, and each has its room; all of them live for `'a`. Nobody else
    /// uses the room.
    #[inline]
    pub unsafe fn list(list: *const iovec, count: usize) -> &'a [Self] {
        // SAFETY: the elements live for `'a`, and the type has their layout.
        unsafe { super::args::slice(list.cast(), count) }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.0.iov_len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies `text` and a NUL into the room, `start` bytes behind its beginning.
    pub fn put_text_at(&self, start: usize, text: &[u8]) {
        self.put_at(start, text);
        self.put_at(start + text.len(), &[0]);
    }

    #[inline]
    pub fn as_ptr(&self) -> *mut c_void {
        self.0.iov_base
    }

    /// Copies `bytes` into the room, `start` bytes behind its beginning.
    pub fn put_at(&self, start: usize, bytes: &[u8]) {
        assert!(start + bytes.len() <= self.len());
        // SAFETY: the room holds the bytes, and they lie outside of it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.iov_base.cast::<u8>().add(start), bytes.len()) };
    }
}

/// Position of the next byte in a scatter list.
#[derive(Debug)]
pub struct Cursor<'a> {
    parts: &'a [Writable<'a>],
    index: usize,
    offset: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub fn new(parts: &'a [Writable<'a>]) -> Self {
        Self { parts, index: 0, offset: 0 }
    }

    /// Returns the rest of the current part that is not empty. Returns `None` at the end.
    pub fn room(&mut self) -> Option<&mut [u8]> {
        while self.index < self.parts.len() && self.offset == self.parts[self.index].len() {
            self.index += 1;
            self.offset = 0;
        }
        let part = self.parts.get(self.index)?;
        // SAFETY: the room of the part is longer than the offset. The cursor lends one slice at a
        // time, so that parts may overlap.
        Some(unsafe { std::slice::from_raw_parts_mut(part.0.iov_base.cast::<u8>().add(self.offset), part.len() - self.offset) })
    }

    pub fn advance(&mut self, bytes: usize) {
        self.offset += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_skips_empty_parts_and_ends() {
        let mut bytes = [0u8; 4];
        let base = bytes.as_mut_ptr();
        // SAFETY: the parts lie within the array.
        let part = |at: usize, len| unsafe { Writable::new(base.wrapping_add(at).cast(), len) };
        let parts = [part(0, 0), part(0, 3), part(3, 0), part(3, 1)];
        let mut cursor = Cursor::new(&parts);
        assert_eq!(cursor.room().map(|room| room.len()), Some(3));
        cursor.advance(2);
        assert_eq!(cursor.room().map(|room| room.len()), Some(1));
        cursor.advance(1);
        assert_eq!(cursor.room().map(|room| room.len()), Some(1));
        cursor.advance(1);
        assert!(cursor.room().is_none());
    }

    #[test]
    fn a_part_stays_within_its_buffer() {
        // SAFETY: the array has five bytes.
        let whole = unsafe { Readable::new(b"abcde".as_ptr().cast(), 5) };
        assert_eq!(whole.part(1, 2).bytes(), b"bc");
        assert_eq!(whole.part(4, 9).bytes(), b"e");
        assert!(whole.part(5, 1).is_empty());
    }
}
