//! Fields of the kernel's structures: numbers in the order of the machine's bytes.

/// Reads fields of any bytes. Bytes after the last are 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(self, at: usize) -> [u8; N] {
        let mut array = [0; N];
        let given = self.from(at);
        let len = given.len().min(N);
        array[..len].copy_from_slice(&given[..len]);
        array
    }

    pub(super) fn u8(self, at: usize) -> u8 {
        self.array::<1>(at)[0]
    }

    pub(super) fn u16(self, at: usize) -> u16 {
        u16::from_ne_bytes(self.array(at))
    }

    pub(super) fn u32(self, at: usize) -> u32 {
        u32::from_ne_bytes(self.array(at))
    }

    pub(super) fn u64(self, at: usize) -> u64 {
        u64::from_ne_bytes(self.array(at))
    }

    /// Returns the bytes from `at` on.
    pub(super) fn from(self, at: usize) -> &'a [u8] {
        self.0.get(at..).unwrap_or_default()
    }

    /// Returns at most `len` bytes from `at` on.
    pub(super) fn bytes(self, at: usize, len: usize) -> Vec<u8> {
        let given = self.from(at);
        given[..given.len().min(len)].to_vec()
    }
}

/// A structure that takes shape, full of zeros at first.
#[derive(Debug)]
pub(super) struct Structure(Vec<u8>);

impl Structure {
    pub(super) fn of(bytes: usize) -> Self {
        Self(vec![0; bytes])
    }

    /// Writes bytes at an offset. The structure has room for them.
    pub(super) fn put(&mut self, at: usize, bytes: &[u8]) -> &mut Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    pub(super) fn u8(&mut self, at: usize, value: u8) -> &mut Self {
        self.put(at, &[value])
    }

    pub(super) fn u16(&mut self, at: usize, value: u16) -> &mut Self {
        self.put(at, &value.to_ne_bytes())
    }

    pub(super) fn u32(&mut self, at: usize, value: u32) -> &mut Self {
        self.put(at, &value.to_ne_bytes())
    }

    pub(super) fn u64(&mut self, at: usize, value: u64) -> &mut Self {
        self.put(at, &value.to_ne_bytes())
    }

    /// Returns the bytes from `at` on.
    pub(super) fn from(&mut self, at: usize) -> &mut [u8] {
        &mut self.0[at..]
    }

    /// Returns the first `room` bytes.
    pub(super) fn cut(self, room: usize) -> Vec<u8> {
        let mut bytes = self.0;
        bytes.truncate(room);
        bytes
    }
}
