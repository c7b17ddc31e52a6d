//! Payload by reference: slices of shared buffers, and queues of them.

use softband_model::verbs::api::PayloadSlice;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes under way, as slices of shared buffers. A clone shares the buffers.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    slices: Vec<PayloadSlice>,
    len_bytes: u32,
}

impl Payload {
    /// Returns a payload without bytes.
    pub const fn empty() -> Self {
        Self { slices: Vec::new(), len_bytes: 0 }
    }
    /// Returns `len_bytes` bytes whose values the model does not carry.
    pub fn counted(len_bytes: u32) -> Self {
        let mut payload = Self::empty();
        payload.push(PayloadSlice { buffer: None, offset: 0, len: len_bytes });
        payload
    }
    /// Returns the length in bytes.
    pub const fn len(&self) -> u32 {
        self.len_bytes
    }
    /// Returns whether the payload has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len_bytes == 0
    }
    /// Returns the slices, in order.
    pub fn slices(&self) -> &[PayloadSlice] {
        &self.slices
    }
    /// Adds a slice at the end.
    ///
    /// # Panics
    /// If the payload exceeds 4 GiB.
    pub fn push(&mut self, slice: PayloadSlice) {
        if slice.len > 0 {
            self.len_bytes = self.len_bytes.checked_add(slice.len).expect("a payload below 4 GiB");
            self.slices.push(slice);
        }
    }
    /// Adds another payload at the end.
    pub fn append(&mut self, other: Self) {
        other.slices.into_iter().for_each(|slice| self.push(slice));
    }
    /// Returns `len` bytes from offset `from`, or as many as there are.
    pub fn part(&self, from: u32, len: u32) -> Self {
        let (mut part, mut skip, mut left) = (Self::empty(), from, len);
        for slice in &self.slices {
            if left == 0 {
                break;
            }
            let taken = slice.len.saturating_sub(skip).min(left);
            if taken > 0 {
                part.push(PayloadSlice { buffer: slice.buffer.clone(), offset: slice.offset + skip, len: taken });
            }
            left -= taken;
            skip = skip.saturating_sub(slice.len);
        }
        part
    }
    /// Returns a copy of the bytes. Bytes without a value read as zero.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len_bytes as usize);
        for slice in &self.slices {
            match &slice.buffer {
                Some(_) => bytes.extend_from_slice(slice.bytes()),
                None => bytes.resize(bytes.len() + slice.len as usize, 0),
            }
        }
        bytes
    }
}

impl From<Arc<[u8]>> for Payload {
    fn from(buffer: Arc<[u8]>) -> Self {
        let len = u32::try_from(buffer.len()).expect("a payload below 4 GiB");
        let mut payload = Self::empty();
        payload.push(PayloadSlice { buffer: Some(buffer), offset: 0, len });
        payload
    }
}
impl From<&[u8]> for Payload {
    fn from(bytes: &[u8]) -> Self {
        Arc::<[u8]>::from(bytes).into()
    }
}

/// Queue of stream bytes from offset `start` to offset `end`.
#[derive(Debug, Default)]
pub(crate) struct ByteQueue {
    pieces: VecDeque<(u64, PayloadSlice)>,
    start: u64,
    end: u64,
}

/// Pieces below this size join their predecessor, so that small writes cost no piece each.
const SMALL_BYTES: u32 = 512;
/// Size up to which pieces join.
const JOINED_BYTES: u32 = 4_096;

impl ByteQueue {
    pub(crate) fn new(start: u64) -> Self {
        Self { pieces: VecDeque::new(), start, end: start }
    }
    pub(crate) fn start(&self) -> u64 {
        self.start
    }
    pub(crate) fn end(&self) -> u64 {
        self.end
    }
    pub(crate) fn len(&self) -> u64 {
        self.end - self.start
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(crate) fn push(&mut self, payload: &Payload) {
        for slice in payload.slices() {
            let joined = self.pieces.back().and_then(|(_, last)| joined(last, slice));
            match (joined, self.pieces.back_mut()) {
                (Some(joined), Some((_, last))) => *last = joined,
                _ => self.pieces.push_back((self.end, slice.clone())),
            }
            self.end += u64::from(slice.len);
        }
    }

    /// Returns up to `len` bytes from stream offset `from`, which must lie in the queue.
    pub(crate) fn get(&self, from: u64, len: u32) -> Payload {
        debug_assert!(from >= self.start && from <= self.end, "the offset lies in the queue");
        let mut payload = Payload::empty();
        let first = self.pieces.partition_point(|(start, piece)| start + u64::from(piece.len) <= from);
        for (start, piece) in self.pieces.range(first..) {
            let left = len - payload.len();
            if left == 0 {
                break;
            }
            let skip = from.saturating_sub(*start) as u32;
            payload.push(PayloadSlice { buffer: piece.buffer.clone(), offset: piece.offset + skip, len: (piece.len - skip).min(left) });
        }
        payload
    }

    /// Forgets the bytes before stream offset `to`.
    pub(crate) fn discard_to(&mut self, to: u64) {
        let to = to.min(self.end);
        while let Some((start, piece)) = self.pieces.front_mut() {
            let end = *start + u64::from(piece.len);
            if end > to {
                let cut = to.saturating_sub(*start) as u32;
                *start += u64::from(cut);
                piece.offset += cut;
                piece.len -= cut;
                break;
            }
            self.pieces.pop_front();
        }
        self.start = self.start.max(to);
        if self.pieces.is_empty() && self.pieces.capacity() > 64 {
            self.pieces = VecDeque::new();
        }
    }
}

fn joined(last: &PayloadSlice, next: &PayloadSlice) -> Option<PayloadSlice> {
    let len = last.len.checked_add(next.len)?;
    match (&last.buffer, &next.buffer) {
        (None, None) => Some(PayloadSlice { buffer: None, offset: 0, len }),
        (Some(a), Some(b)) if Arc::ptr_eq(a, b) && last.offset + last.len == next.offset => {
            Some(PayloadSlice { buffer: last.buffer.clone(), offset: last.offset, len })
        }
        (Some(_), Some(_)) if next.len < SMALL_BYTES && len <= JOINED_BYTES => {
            let bytes: Vec<u8> = [last.bytes(), next.bytes()].concat();
            Some(PayloadSlice { buffer: Some(bytes.into()), offset: 0, len })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_returns_any_span_of_its_bytes() {
        let mut queue = ByteQueue::new(100);
        queue.push(&Payload::from(&[1, 2, 3][..]));
        queue.push(&Payload::from(&[9; 600][..]));
        queue.push(&Payload::from(&[4, 5][..]));
        assert_eq!(queue.get(101, 3).to_vec(), [2, 3, 9]);
        queue.discard_to(102);
        assert_eq!(queue.get(102, 2).to_vec(), [3, 9]);
        assert_eq!(queue.get(702, 99).to_vec(), [9, 4, 5]);
        queue.discard_to(704);
        assert_eq!((queue.get(704, 9).to_vec(), queue.len()), (vec![5], 1));
        queue.discard_to(999);
        assert!(queue.is_empty() && queue.end() == 705);
    }

    #[test]
    fn small_writes_join_to_few_pieces() {
        let mut queue = ByteQueue::new(0);
        (0..10_000_u32).for_each(|number| queue.push(&Payload::from(&[number as u8][..])));
        assert!(queue.pieces.len() <= 3);
        assert_eq!(queue.get(5_000, 2).to_vec(), [5_000_u32 as u8, 5_001_u32 as u8]);
    }
}
