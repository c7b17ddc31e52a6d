//! Reader of bytes that may end early.

use super::DecodeError;
use std::net::{Ipv4Addr, Ipv6Addr};

#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
    /// Returns the bytes that are left.
    pub(super) const fn rest(self) -> &'a [u8] {
        self.0
    }
    pub(super) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }
    pub(super) fn byte(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[byte]| byte)
    }
    pub(super) fn half(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }
    pub(super) fn word(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }
    pub(super) fn v4(&mut self) -> Result<Ipv4Addr, DecodeError> {
        self.array::<4>().map(Ipv4Addr::from)
    }
    pub(super) fn v6(&mut self) -> Result<Ipv6Addr, DecodeError> {
        self.array::<16>().map(Ipv6Addr::from)
    }
}

/// Appends a number of 16 bits.
pub(super) fn put_half(into: &mut Vec<u8>, number: u16) {
    into.extend_from_slice(&number.to_be_bytes());
}

/// Appends a number of 32 bits.
pub(super) fn put_word(into: &mut Vec<u8>, number: u32) {
    into.extend_from_slice(&number.to_be_bytes());
}

/// Writes a number of 16 bits over the bytes at `at`, which exist.
pub(super) fn set_half(bytes: &mut [u8], at: usize, number: u16) {
    bytes[at..at + 2].copy_from_slice(&number.to_be_bytes());
}
