//! The processor state in signal handlers.

use libc::ucontext_t;

/// Trap flag: stop after one instruction.
const TRAP_FLAG: i64 = 0x100;
/// Flags that single-stepping changes by itself: trap and resume.
const NOT_STATE: i64 = TRAP_FLAG | 0x1_0000;
/// General registers: r8..r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp.
pub const GENERAL: std::ops::Range<usize> = 0..16;
/// Bytes of the floating-point and vector registers in the `fxsave` area.
const FXSAVE_BYTES: usize = 416;

pub fn instruction(machine: &ucontext_t) -> usize {
    machine.uc_mcontext.gregs[libc::REG_RIP as usize] as usize
}

pub fn stack(machine: &ucontext_t) -> usize {
    machine.uc_mcontext.gregs[libc::REG_RSP as usize] as usize
}

/// Returns the result of a system call that has just ended.
pub fn result(machine: &ucontext_t) -> i64 {
    machine.uc_mcontext.gregs[libc::REG_RAX as usize]
}

pub fn set_stepping(machine: &mut ucontext_t, on: bool) {
    let flags = &mut machine.uc_mcontext.gregs[libc::REG_EFL as usize];
    *flags = if on { *flags | TRAP_FLAG } else { *flags & !TRAP_FLAG };
}

/// Ends stepping. Returns whether stepping was on.
pub fn take_stepping(machine: &mut ucontext_t) -> bool {
    let on = machine.uc_mcontext.gregs[libc::REG_EFL as usize] & TRAP_FLAG != 0;
    set_stepping(machine, false);
    on
}

/// Returns whether a write caused the fault.
pub fn is_write(machine: &ucontext_t) -> bool {
    const WRITE: i64 = 2;
    machine.uc_mcontext.gregs[libc::REG_ERR as usize] & WRITE != 0
}

/// Returns the flags that instructions set and use.
pub fn flags_of(registers: &[i64; 23]) -> u64 {
    (registers[libc::REG_EFL as usize] & !NOT_STATE) as u64
}

/// Returns a hash of the state on which a program can base decisions: general registers, flags,
/// vector registers.
pub fn fingerprint(machine: &ucontext_t) -> u64 {
    let mut hash = Fingerprint::new();
    for register in &machine.uc_mcontext.gregs[GENERAL] {
        hash.add(*register as u64);
    }
    hash.add(flags_of(&machine.uc_mcontext.gregs));
    if !machine.uc_mcontext.fpregs.is_null() {
        // SAFETY: the kernel stores the floating-point state there. Its first 416 bytes are
        // registers on every x86-64.
        let vector = unsafe { std::slice::from_raw_parts(machine.uc_mcontext.fpregs.cast::<u64>(), FXSAVE_BYTES / 8) };
        for word in vector {
            hash.add(*word);
        }
    }
    hash.0
}

/// A running hash (multiply and fold, as wyhash does).
#[derive(Clone, Copy, Debug)]
pub struct Fingerprint(pub u64);

impl Fingerprint {
    pub const fn new() -> Self {
        Self(0x2d35_8dcc_aa6c_78a5)
    }
    pub fn add(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word) * 0x8bb8_4b93_962e_acc9_u128 + u128::from(word);
        self.0 = (wide as u64) ^ (wide >> 64) as u64;
    }
}

impl Default for Fingerprint {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stepping_is_no_part_of_the_state_and_registers_are() {
        // SAFETY: all zero is a context without floating-point state.
        let mut machine: ucontext_t = unsafe { std::mem::zeroed() };
        let before = fingerprint(&machine);
        set_stepping(&mut machine, true);
        assert_eq!(fingerprint(&machine), before);
        machine.uc_mcontext.gregs[libc::REG_RCX as usize] = 1;
        assert_ne!(fingerprint(&machine), before);
    }
}
