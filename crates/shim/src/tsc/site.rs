//! Decides whether a counter read of the program can become a jump. Pure logic on bytes.
//!
//! A jump takes five bytes and `rdtsc` takes two, so the instructions behind it move along. The
//! move is correct only if they mean the same elsewhere, and if no jump of the program leads
//! between them.

use iced_x86::{Decoder, DecoderOptions, FlowControl};
use std::ops::Range;

/// Size of `jmp rel32` in bytes.
pub(crate) const JUMP_BYTES: usize = 5;
/// Most bytes that move.
pub(crate) const MOVED_MAX: usize = 32;
/// Range in bytes of a jump with an eight-bit distance, with room for the instruction itself.
const SHORT_REACH: usize = 144;
/// Bytes before the read at which decoding starts to find instruction boundaries. A decoder
/// synchronizes after a few instructions.
const RUN_UP: usize = 512;

/// Decides about the counter read of `len` bytes at offset `at` of `text`, which lies at address
/// `base`. Returns the number of bytes to move, or `None` if the read must stay.
pub(crate) fn moved_bytes(text: &[u8], base: u64, at: usize, len: usize) -> Option<usize> {
    let mut end = at + len;
    let mut instructions = decoder(text, base, end, end + MOVED_MAX);
    while end < at + JUMP_BYTES {
        let instruction = instructions.decode();
        if instruction.is_invalid() || instruction.flow_control() != FlowControl::Next || instruction.is_ip_rel_memory_operand() {
            return None;
        }
        end += instruction.len();
    }
    // A jump to the read itself is fine, because it finds the jump that replaces the read.
    let inside = base + at as u64 + 1..base + end as u64;
    (end - at <= MOVED_MAX && !near_jump_leads_into(text, at + 1..end) && !short_jump_leads_into(text, base, at, &inside)).then_some(end - at)
}

/// Returns whether a jump or call with a 32-bit distance leads into `inside` (offsets), whichever
/// byte it starts at.
fn near_jump_leads_into(text: &[u8], inside: Range<usize>) -> bool {
    let leads = |end: usize, distance: &[u8]| {
        let distance = i32::from_le_bytes(distance.try_into().expect("four bytes"));
        inside.contains(&(end as isize + distance as isize).cast_unsigned())
    };
    (0..text.len().saturating_sub(JUMP_BYTES)).any(|start| match text[start] {
        0xe8 | 0xe9 => leads(start + 5, &text[start + 1..start + 5]),
        // This byte is the condition; the byte 0x0f precedes it.
        0x80..=0x8f if start > 0 && text[start - 1] == 0x0f => leads(start + 5, &text[start + 1..start + 5]),
        _ => false,
    })
}

/// Returns the same for eight-bit distances. Every second byte could be a jump here, so instruction
/// boundaries matter. Returns true if the boundaries are unknown.
fn short_jump_leads_into(text: &[u8], base: u64, at: usize, inside: &Range<u64>) -> bool {
    let from = at.saturating_sub(RUN_UP);
    let behind = jumps_in(text, base, at, at + SHORT_REACH).any(|target| inside.contains(&target));
    let Some(start) = (from..at.min(from + 16)).find(|start| is_boundary(text, *start, at)) else { return true };
    behind || jumps_in(text, base, start, at).any(|target| inside.contains(&target))
}

fn decoder(text: &[u8], base: u64, from: usize, to: usize) -> Decoder<'_> {
    Decoder::with_ip(64, &text[from..to.min(text.len())], base + from as u64, DecoderOptions::NONE)
}

/// Returns whether decoding from `start` reaches an instruction at `at`.
fn is_boundary(text: &[u8], start: usize, at: usize) -> bool {
    let mut last = decoder(text, 0, start, at + 16);
    while last.position() + start < at {
        if last.decode().is_invalid() {
            return false;
        }
    }
    last.position() + start == at
}

/// Returns the targets of the jumps between two offsets.
fn jumps_in(text: &[u8], base: u64, from: usize, to: usize) -> impl Iterator<Item = u64> + '_ {
    decoder(text, base, from, to)
        .into_iter()
        .filter(|instruction| instruction.flow_control() != FlowControl::Next)
        .map(|jump| jump.near_branch_target())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x40_0000;

    /// Returns the code between 64 bytes of `nop` on each side, and its offset.
    fn surrounded(code: &[u8]) -> (Vec<u8>, usize) {
        let mut text = vec![0x90; 64];
        text.extend(code);
        text.extend([0x90; 64]);
        (text, 64)
    }

    fn moved(code: &[u8], before: impl Fn(&mut Vec<u8>)) -> Option<usize> {
        let (mut text, at) = surrounded(code);
        before(&mut text);
        moved_bytes(&text, BASE, at, 2)
    }

    #[test]
    fn what_compilers_put_behind_a_counter_read_moves() {
        assert_eq!(moved(&[0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20], |_| ()), Some(6)); // shl rdx, 32
        assert_eq!(moved(&[0x0f, 0x31, 0x48, 0x8b, 0x8f, 0x28, 2, 0, 0], |_| ()), Some(9)); // mov rcx, [rdi+0x228]
        assert_eq!(moved(&[0x0f, 0x31, 0x89, 0xc0, 0x90], |_| ()), Some(5)); // mov eax, eax; nop
    }

    #[test]
    fn what_means_something_else_elsewhere_stays() {
        assert_eq!(moved(&[0x0f, 0x31, 0x48, 0x8b, 0x05, 1, 0, 0, 0], |_| ()), None); // mov rax, [rip+1]
        assert_eq!(moved(&[0x0f, 0x31, 0xc3], |_| ()), None); // ret
        assert_eq!(moved(&[0x0f, 0x31, 0x75, 0xfc, 0x90, 0x90], |_| ()), None); // jne to the read
        assert_eq!(moved_bytes(&[0x0f, 0x31], BASE, 0, 2), None); // the text ends
    }

    #[test]
    fn a_jump_into_the_middle_forbids_it_and_one_to_the_read_does_not() {
        let shl = [0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20];
        let short = |to: i32| move |text: &mut Vec<u8>| text[32..34].copy_from_slice(&[0xeb, (to - 34) as u8]);
        assert_eq!(moved(&shl, short(66)), None);
        assert_eq!(moved(&shl, short(64)), Some(6));
        let near = |to: i32| {
            move |text: &mut Vec<u8>| {
                text[80] = 0x0f;
                text[81] = 0x84;
                text[82..86].copy_from_slice(&(to - 86).to_le_bytes());
            }
        };
        assert_eq!(moved(&shl, near(66)), None);
        assert_eq!(moved(&shl, near(70)), Some(6));
    }
}
