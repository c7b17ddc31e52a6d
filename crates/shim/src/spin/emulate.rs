//! Emulates the loads, comparisons and stores of a word by which programs poll and mark memory.
//!
//! Stepping over an access costs a debug exception. In a virtual machine that exception costs about
//! ten times as much as a fault. Compilers use few instructions for a word, and these are simple
//! enough to emulate. All others are stepped.

/// Index in `gregs` of each general register, by the processor's numbering.
const REGISTERS: [usize; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];
const FLAGS: usize = libc::REG_EFL as usize;
const POINTER: usize = libc::REG_RIP as usize;

const CARRY: u64 = 1;
const PARITY: u64 = 1 << 2;
const ADJUST: u64 = 1 << 4;
const ZERO: u64 = 1 << 6;
const SIGN: u64 = 1 << 7;
const OVERFLOW: u64 = 1 << 11;
const ARITHMETIC: u64 = CARRY | PARITY | ADJUST | ZERO | SIGN | OVERFLOW;

/// Registers of the interrupted program.
pub type Registers = [i64; 23];
/// Bytes of the longest instruction.
pub const INSTRUCTION_BYTES: usize = 15;

/// Effect of an instruction on registers, flags or the word in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Loads the word into a register of `to` bytes.
    Load { to: usize, is_signed: bool },
    /// Sets the flags of `memory - register`.
    CompareMemory,
    /// Sets the flags of `register - memory`.
    CompareRegister,
    /// Sets the flags of `memory - number`.
    CompareNumber(u64),
    /// Sets the flags of `memory & register`.
    TestRegister,
    /// Sets the flags of `memory & number`.
    TestNumber(u64),
    /// Stores the register in memory.
    StoreRegister,
    /// Stores the number in memory.
    StoreNumber(u64),
}

/// A decoded instruction with one operand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    work: Work,
    /// Bytes of memory read or written.
    pub size: usize,
    register: usize,
    /// Whether the instruction has a REX prefix. Without it, registers 4..7 of one byte mean ah,
    /// ch, dh, bh.
    has_rex: bool,
    len: usize,
}

/// A byte slice and the position of its next byte.
struct Bytes<'a>(&'a [u8], usize);

impl Bytes<'_> {
    fn next(&mut self) -> Option<u8> {
        let byte = self.0.get(self.1).copied();
        self.1 += 1;
        byte
    }
    fn peek(&self) -> Option<u8> {
        self.0.get(self.1).copied()
    }
    /// Reads a sign-extended number of `len` bytes.
    fn number(&mut self, len: usize) -> Option<u64> {
        let bytes = self.0.get(self.1..self.1 + len)?;
        self.1 += len;
        let mut value = [0u8; 8];
        value[..len].copy_from_slice(bytes);
        Some(extend(u64::from_le_bytes(value), len))
    }
}

fn extend(value: u64, bytes: usize) -> u64 {
    if bytes == 0 {
        return 0;
    }
    let shift = 64 - 8 * bytes as u32;
    ((value << shift) as i64 >> shift) as u64
}

fn mask(bytes: usize) -> u64 {
    u64::MAX >> (64 - 8 * bytes as u32)
}

/// Decodes an instruction that either reads or writes a word of memory. Returns `None` for any
/// other.
pub fn decode(bytes: &[u8]) -> Option<Instruction> {
    let mut bytes = Bytes(bytes, 0);
    let mut is_short = false;
    let mut rex = 0;
    if bytes.peek()? == 0x66 {
        is_short = true;
        bytes.next();
    }
    let has_rex = bytes.peek()? & 0xf0 == 0x40;
    if has_rex {
        rex = bytes.next()?;
    }
    let wide = if rex & 8 != 0 {
        8
    } else if is_short {
        2
    } else {
        4
    };
    let opcode = match bytes.next()? {
        0x0f => 0x0f00 | u16::from(bytes.next()?),
        byte => u16::from(byte),
    };
    let modes = bytes.next()?;
    let (mode, extension) = (modes >> 6, usize::from(modes >> 3 & 7));
    let register = extension | usize::from(rex & 4) << 1;
    skip_address(&mut bytes, mode, modes & 7)?;
    let load = |to, is_signed| Work::Load { to, is_signed };
    let (work, size) = match (opcode, extension) {
        (0x8a, _) => (load(1, false), 1),
        (0x8b, _) => (load(wide, false), wide),
        (0x0fb6, _) => (load(wide, false), 1),
        (0x0fb7, _) => (load(wide, false), 2),
        (0x0fbe, _) => (load(wide, true), 1),
        (0x0fbf, _) => (load(wide, true), 2),
        (0x88, _) => (Work::StoreRegister, 1),
        (0x89, _) => (Work::StoreRegister, wide),
        (0xc6, 0) => (Work::StoreNumber(bytes.number(1)?), 1),
        (0xc7, 0) => (Work::StoreNumber(bytes.number(wide.min(4))?), wide),
        (0x63, _) if wide == 8 => (load(8, true), 4),
        (0x38, _) => (Work::CompareMemory, 1),
        (0x39, _) => (Work::CompareMemory, wide),
        (0x3a, _) => (Work::CompareRegister, 1),
        (0x3b, _) => (Work::CompareRegister, wide),
        (0x80, 7) => (Work::CompareNumber(bytes.number(1)?), 1),
        (0x81, 7) => (Work::CompareNumber(bytes.number(wide.min(4))?), wide),
        (0x83, 7) => (Work::CompareNumber(bytes.number(1)?), wide),
        (0x84, _) => (Work::TestRegister, 1),
        (0x85, _) => (Work::TestRegister, wide),
        (0xf6, 0) => (Work::TestNumber(bytes.number(1)?), 1),
        (0xf7, 0) => (Work::TestNumber(bytes.number(wide.min(4))?), wide),
        _ => return None,
    };
    Some(Instruction { work, size, register, has_rex, len: bytes.1 })
}

/// Skips the rest of the operand's address, which the fault has already reported.
fn skip_address(bytes: &mut Bytes, mode: u8, base: u8) -> Option<()> {
    if mode == 3 {
        return None; // a register
    }
    let mut displacement = match mode {
        1 => 1,
        2 => 4,
        _ => 0,
    };
    if base == 4 {
        let scaled = bytes.next()?;
        if mode == 0 && scaled & 7 == 5 {
            displacement = 4;
        }
    } else if mode == 0 && base == 5 {
        displacement = 4; // relative to the instruction
    }
    bytes.number(displacement).map(|_| ())
}

impl Instruction {
    /// Executes the instruction with `memory` as the word, and advances the instruction pointer.
    /// Returns the word to write, if any.
    pub fn apply(&self, memory: u64, registers: &mut Registers) -> Option<u64> {
        let memory = memory & mask(self.size);
        registers[POINTER] += self.len as i64;
        match self.work {
            Work::Load { to, is_signed } => {
                let value = if is_signed { extend(memory, self.size) } else { memory };
                self.set_register(registers, to, value);
            }
            Work::CompareMemory => self.compare(registers, memory, self.register(registers)),
            Work::CompareRegister => self.compare(registers, self.register(registers), memory),
            Work::CompareNumber(number) => self.compare(registers, memory, number & mask(self.size)),
            Work::TestRegister => self.test(registers, memory & self.register(registers)),
            Work::TestNumber(number) => self.test(registers, memory & number & mask(self.size)),
            Work::StoreRegister => return Some(self.register(registers)),
            Work::StoreNumber(number) => return Some(number & mask(self.size)),
        }
        None
    }

    /// Returns the register and the first bit of an operand of `bytes`.
    fn place(&self, bytes: usize) -> (usize, u32) {
        if bytes == 1 && !self.has_rex && self.register >= 4 { (REGISTERS[self.register - 4], 8) } else { (REGISTERS[self.register], 0) }
    }

    fn register(&self, registers: &Registers) -> u64 {
        let (index, shift) = self.place(self.size);
        registers[index] as u64 >> shift & mask(self.size)
    }

    fn set_register(&self, registers: &mut Registers, bytes: usize, value: u64) {
        let (index, shift) = self.place(bytes);
        let old = registers[index] as u64;
        // A write of four bytes clears the upper four; a shorter write leaves the rest.
        let kept = if bytes >= 4 { 0 } else { old & !(mask(bytes) << shift) };
        registers[index] = (kept | (value & mask(bytes)) << shift) as i64;
    }

    fn compare(&self, registers: &mut Registers, left: u64, right: u64) {
        let result = left.wrapping_sub(right) & mask(self.size);
        let top = 1 << (8 * self.size - 1);
        let mut flags = result_flags(result, top);
        if left < right {
            flags |= CARRY;
        }
        if (left ^ right ^ result) & 0x10 != 0 {
            flags |= ADJUST;
        }
        if (left ^ right) & (left ^ result) & top != 0 {
            flags |= OVERFLOW;
        }
        set_flags(registers, flags);
    }

    fn test(&self, registers: &mut Registers, result: u64) {
        set_flags(registers, result_flags(result, 1 << (8 * self.size - 1)));
    }
}

fn result_flags(result: u64, top: u64) -> u64 {
    let mut flags = 0;
    if result == 0 {
        flags |= ZERO;
    }
    if result & top != 0 {
        flags |= SIGN;
    }
    if (result as u8).count_ones().is_multiple_of(2) {
        flags |= PARITY;
    }
    flags
}

fn set_flags(registers: &mut Registers, flags: u64) {
    registers[FLAGS] = ((registers[FLAGS] as u64 & !ARITHMETIC) | flags) as i64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::arch::asm;

    #[test]
    fn lengths_and_operands_are_read() {
        // cmp al, [rdx]; movzx eax, byte [r13+0]; cmp byte [rip+x], 0; mov eax, [rax+rcx*8+0x100]; test byte [rbx+rsi*1], 1
        assert_eq!(decode(&[0x3a, 0x02]).map(|i| (i.len, i.size)), Some((2, 1)));
        assert_eq!(decode(&[0x41, 0x0f, 0xb6, 0x45, 0x00]).map(|i| (i.len, i.size, i.register)), Some((5, 1, 0)));
        assert_eq!(decode(&[0x80, 0x3d, 1, 2, 3, 4, 0]).map(|i| (i.len, i.work)), Some((7, Work::CompareNumber(0))));
        assert_eq!(decode(&[0x8b, 0x84, 0xc8, 0, 1, 0, 0]).map(|i| (i.len, i.size)), Some((7, 4)));
        assert_eq!(decode(&[0xf6, 0x04, 0x33, 0x01]).map(|i| (i.len, i.work)), Some((4, Work::TestNumber(1))));
        assert_eq!(decode(&[0x48, 0x81, 0x38, 0, 0, 0, 0x80]).map(|i| i.work), Some(Work::CompareNumber(0xffff_ffff_8000_0000)));
    }

    #[test]
    fn a_store_tells_what_to_write() {
        let mut registers = [0; 23];
        registers[13] = 0x1122_3344_5566_7788;
        let mut written = |bytes: &[u8]| decode(bytes).map(|instruction| (instruction.size, instruction.apply(0, &mut registers)));
        assert_eq!(written(&[0x88, 0x02]), Some((1, Some(0x88)))); // mov [rdx], al
        assert_eq!(written(&[0x88, 0x22]), Some((1, Some(0x77)))); // mov [rdx], ah
        assert_eq!(written(&[0x48, 0x89, 0x42, 0x08]), Some((8, Some(0x1122_3344_5566_7788)))); // mov [rdx+8], rax
        assert_eq!(written(&[0xc6, 0x02, 0x05]), Some((1, Some(5)))); // mov byte [rdx], 5
        assert_eq!(written(&[0x48, 0xc7, 0x02, 0xff, 0xff, 0xff, 0xff]), Some((8, Some(u64::MAX)))); // mov qword [rdx], -1
    }

    #[test]
    fn changes_in_place_and_unknown_instructions_are_left_alone() {
        for bytes in
            [&[0x00, 0x02][..], &[0xfe, 0x02], &[0x3a, 0xc2], &[0x80, 0x02, 1], &[0xf0, 0x0f, 0xb1, 0x0a], &[0xc5, 0xf8, 0x10, 0x00], &[0x0f]]
        {
            assert_eq!(decode(bytes), None, "{bytes:x?}");
        }
    }

    #[test]
    fn partial_registers_are_written_as_the_processor_does() {
        let filled = || [0x1122_3344_5566_7788_i64; 23];
        let after = |bytes: &[u8], memory: u64| {
            let mut registers = filled();
            decode(bytes).unwrap().apply(memory, &mut registers);
            registers
        };
        assert_eq!(after(&[0x8a, 0x02], 0xff)[13], 0x1122_3344_5566_77ff); // mov al, [rdx]
        assert_eq!(after(&[0x8a, 0x22], 0xff)[13], 0x1122_3344_5566_ff88); // mov ah, [rdx]
        assert_eq!(after(&[0x66, 0x8b, 0x02], 0xaaaa)[13], 0x1122_3344_5566_aaaa); // mov ax, [rdx]
        assert_eq!(after(&[0x8b, 0x02], 0xffff_ffff)[13], 0xffff_ffff); // mov eax, [rdx]
        assert_eq!(after(&[0x48, 0x63, 0x02], 0x8000_0000)[13], -0x8000_0000); // movsxd rax, [rdx]
        assert_eq!(after(&[0x0f, 0xbe, 0x02], 0x80)[13], 0xffff_ff80); // movsx eax, byte [rdx]
        assert_eq!(after(&[0x44, 0x0f, 0xb6, 0x02], 0x80)[0], 0x80); // movzx r8d, byte [rdx]
        assert_eq!(after(&[0x8b, 0x02], 0)[POINTER], filled()[POINTER] + 2);
    }

    /// Returns the flags of this processor after `cmp` of two numbers.
    fn native_flags(left: u64, right: u64, size: usize) -> u64 {
        let flags: u64;
        // SAFETY: compares registers and reads the flags over the stack.
        unsafe {
            match size {
                1 => asm!("cmp {0}, {1}", "pushfq", "pop {2}", in(reg_byte) left as u8, in(reg_byte) right as u8, out(reg) flags),
                2 => asm!("cmp {0:x}, {1:x}", "pushfq", "pop {2}", in(reg) left, in(reg) right, out(reg) flags),
                4 => asm!("cmp {0:e}, {1:e}", "pushfq", "pop {2}", in(reg) left, in(reg) right, out(reg) flags),
                _ => asm!("cmp {0}, {1}", "pushfq", "pop {2}", in(reg) left, in(reg) right, out(reg) flags),
            }
        }
        flags & ARITHMETIC
    }

    #[test]
    fn comparisons_leave_the_processors_own_flags() {
        let edges =
            [0, 1, 0xf, 0x10, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, i64::MAX as u64, 1 << 63, u64::MAX];
        for size in [1, 2, 4, 8] {
            let bytes: &[u8] = match size {
                1 => &[0x3a, 0x02],
                2 => &[0x66, 0x3b, 0x02],
                4 => &[0x3b, 0x02],
                _ => &[0x48, 0x3b, 0x02],
            };
            let instruction = decode(bytes).unwrap();
            for left in edges {
                for right in edges {
                    let mut registers = [0; 23];
                    registers[13] = left as i64;
                    registers[FLAGS] = 0x246;
                    instruction.apply(right, &mut registers);
                    assert_eq!(registers[FLAGS] as u64 & ARITHMETIC, native_flags(left, right, size), "{left:x} {right:x} {size}");
                    assert_eq!(registers[FLAGS] as u64 & !ARITHMETIC, 0x202);
                }
            }
        }
    }
}
