//! Programs that cannot load the library of Softband: the start of their file tells.

/// Bytes of a file that [`obstacle`] needs. They hold the header and the table of segments.
pub const START_BYTES: usize = 4096;

/// Offsets in the header of an ELF file of 64 bits (elf(5)).
const CLASS_AT: usize = 4;
const CLASS_64: u8 = 2;
const TABLE_AT: usize = 32;
const ENTRY_BYTES_AT: usize = 54;
const ENTRIES_AT: usize = 56;
/// Kind of the segment that names the dynamic loader.
const PT_INTERP: u32 = 3;

/// Returns why a program cannot load a library, by the first bytes of its file. Scripts have none.
#[must_use]
pub fn obstacle(start: &[u8]) -> Option<&'static str> {
    if !start.starts_with(b"\x7fELF") {
        return None;
    }
    if start.get(CLASS_AT) != Some(&CLASS_64) {
        return Some("a program of 32 bits");
    }
    let number = |at: usize, len: usize| {
        let bytes = start.get(at..at.checked_add(len)?)?;
        Some(bytes.iter().rev().fold(0_usize, |number, byte| number << 8 | usize::from(*byte)))
    };
    let (table, size, count) = (number(TABLE_AT, 8)?, number(ENTRY_BYTES_AT, 2)?, number(ENTRIES_AT, 2)?);
    for index in 0..count {
        // A table behind the first bytes tells nothing.
        if number(table.checked_add(index * size)?, 4)? == PT_INTERP as usize {
            return None;
        }
    }
    Some("statically linked")
}

/// Returns the interpreter of a script, by the first bytes of its file.
#[must_use]
pub fn interpreter(start: &[u8]) -> Option<&[u8]> {
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?.trim_ascii();
    line.split(|byte| byte.is_ascii_whitespace()).next().filter(|path| !path.is_empty())
}

/// Returns whether a file is the dynamic loader, which a command line can name in front of a program.
#[must_use]
pub fn is_loader(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name.starts_with(b"ld-") || name == b"ld.so"
}

/// Returns the warning about a program that cannot load the library.
#[must_use]
pub fn warning(program: &str, obstacle: &str) -> String {
    format!(
        "'{program}' is {obstacle}, so it cannot load Softband's library: it runs outside the fabric and sees the machine's network, files and clocks; \
         use a dynamically linked build (Go: CGO_ENABLED=1)"
    )
}

#[cfg(test)]
mod tests {
    use super::{interpreter, is_loader, obstacle, warning};

    fn elf(kinds: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56 * kinds.len()];
        bytes[..5].copy_from_slice(b"\x7fELF\x02");
        (bytes[32], bytes[54], bytes[56]) = (64, 56, kinds.len() as u8);
        for (index, kind) in kinds.iter().enumerate() {
            bytes[64 + index * 56..][..4].copy_from_slice(&kind.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn a_program_without_a_loader_cannot_load_a_library() {
        assert_eq!(obstacle(&elf(&[6, 3, 1])), None);
        assert_eq!(obstacle(&elf(&[1, 1, 4])), Some("statically linked"));
        assert_eq!(obstacle(b"\x7fELF\x01"), Some("a program of 32 bits"));
        assert_eq!((obstacle(b"#!/bin/sh\n"), obstacle(b""), obstacle(&elf(&[1])[..66])), (None, None, None));
        assert!(warning("./x", "statically linked").contains("'./x' is statically linked"));
    }

    #[test]
    fn a_script_names_its_interpreter() {
        assert_eq!(interpreter(b"#! /usr/bin/env python3\nx"), Some(&b"/usr/bin/env"[..]));
        assert_eq!((interpreter(b"#!\n"), interpreter(b"\x7fELF")), (None, None));
        assert!(is_loader(b"/lib64/ld-linux-x86-64.so.2") && !is_loader(b"/opt/build"));
    }
}
