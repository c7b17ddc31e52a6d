//! Decodes what an instruction reads and writes, and whether it branches. Pure logic.

use super::emulate::Registers;
use iced_x86::{CodeSize, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register, RflagsBits};

/// Most places in memory that an instruction accesses, such as `push` of a word in memory.
const PLACES_MAX: usize = 4;
/// Flags that computations set.
const STATUS: u32 = RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::CF | RflagsBits::PF;
/// Members of a [`Set`] beside the general registers.
const FIRST_VECTOR: usize = 16;
const OTHERS: usize = 48;
const FLAGS: usize = 49;

/// A place in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub address: usize,
    pub len: usize,
}

/// An access of an instruction to memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    pub place: Place,
    pub is_read: bool,
    pub is_write: bool,
}

/// A set of registers: general ones, vectors, all others as one, flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Set(u64);

impl Set {
    const ONLY_FLAGS: Self = Self(1 << FLAGS);
    /// Vectors, flags and all others.
    pub const NOT_GENERAL: Self = Self(!((1 << FIRST_VECTOR) - 1));

    pub const fn new() -> Self {
        Self(0)
    }

    /// Returns the general registers whose values differ.
    pub fn of_different(former: &Registers, now: &Registers) -> Self {
        let numbers = REGISTERS.iter().enumerate().filter(|(_, index)| former[**index] != now[**index]);
        Self(numbers.fold(0, |set, (number, _)| set | 1 << number))
    }

    pub fn shared(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the indices in [`Registers`] of its general registers.
    pub fn general(self) -> impl Iterator<Item = usize> {
        REGISTERS.into_iter().enumerate().filter(move |(number, _)| self.0 & 1 << number != 0).map(|(_, index)| index)
    }

    pub fn overlaps(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
    pub fn add_all(&mut self, other: Self) {
        self.0 |= other.0;
    }
    pub fn remove_all(&mut self, other: Self) {
        self.0 &= !other.0;
    }
    fn add(&mut self, register: Register) {
        self.0 |= 1 << index_of(register);
    }
}

fn index_of(register: Register) -> usize {
    if register.is_gpr() {
        register.full_register().number()
    } else if register.is_vector_register() {
        FIRST_VECTOR + register.number()
    } else {
        OTHERS
    }
}

/// Effect of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    uses: [Use; PLACES_MAX],
    count: usize,
    pub read: Set,
    /// Registers that may have a new value.
    pub written: Set,
    /// Registers whose whole value is new.
    pub replaced: Set,
    /// Whether the next instruction depends on what it reads.
    pub branches: bool,
}

impl Effect {
    pub fn uses(&self) -> &[Use] {
        &self.uses[..self.count]
    }

    /// Returns the address of its first operand in memory.
    pub fn address(&self) -> Option<usize> {
        self.uses().first().map(|used| used.place.address)
    }

    #[cfg(test)]
    pub fn writing(place: Place) -> Self {
        let mut effect = Self::default();
        effect.use_memory(Use { place, is_read: false, is_write: true }).expect("the first use");
        effect
    }

    fn use_memory(&mut self, used: Use) -> Option<()> {
        *self.uses.get_mut(self.count)? = used;
        self.count += 1;
        Some(())
    }
}

/// Returns the effect of the instruction in `code`. Returns `None` if that is not known. `thread` is
/// the base of the segment `fs`.
pub fn effect(code: &[u8], registers: &Registers, thread: usize, factory: &mut InstructionInfoFactory) -> Option<Effect> {
    let mut decoder = Decoder::with_ip(64, code, registers[libc::REG_RIP as usize] as u64, DecoderOptions::NONE);
    let instruction = decoder.decode();
    let has_own_result = matches!(
        instruction.mnemonic(),
        Mnemonic::Rdtsc | Mnemonic::Rdtscp | Mnemonic::Rdpmc | Mnemonic::Rdrand | Mnemonic::Rdseed | Mnemonic::Cpuid | Mnemonic::Popfq
    );
    if instruction.is_invalid() || has_own_result {
        return None;
    }
    let mut effect = Effect::default();
    let info = factory.info(&instruction);
    let repeats = instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix());
    // A repetition stops after each element, and does nothing if none is left.
    let is_over = repeats && registers[libc::REG_RCX as usize] == 0;
    for used in info.used_memory().iter().filter(|_| !is_over) {
        let (is_read, is_write) = kinds_of(used.access());
        if !is_read && !is_write {
            continue;
        }
        let value = |register: Register, _: usize, _: usize| value_of(register, registers, thread);
        let address = used.virtual_address(0, value).filter(|_| used.vsib_size() == 0 && used.address_size() != CodeSize::Code32)?;
        let len = if repeats { instruction.memory_size() } else { used.memory_size() }.size();
        if len == 0 {
            return None;
        }
        effect.use_memory(Use { place: Place { address: address as usize, len }, is_read, is_write })?;
    }
    for used in info.used_registers() {
        let (is_read, is_write) = kinds_of(used.access());
        if is_read {
            effect.read.add(used.register());
        }
        if is_write {
            effect.written.add(used.register());
            if used.access() == OpAccess::Write && (used.register().size() >= 4) {
                effect.replaced.add(used.register());
            }
        }
    }
    note_flags(&mut effect, &instruction, repeats);
    Some(effect)
}

fn note_flags(effect: &mut Effect, instruction: &Instruction, repeats: bool) {
    if instruction.rflags_modified() & STATUS != 0 {
        effect.written.add_all(Set::ONLY_FLAGS);
        if instruction.rflags_modified() & STATUS == STATUS {
            effect.replaced.add_all(Set::ONLY_FLAGS);
        }
    }
    let flow = instruction.flow_control();
    effect.branches = repeats || matches!(flow, FlowControl::ConditionalBranch | FlowControl::IndirectBranch | FlowControl::IndirectCall);
    if instruction.rflags_read() & STATUS != 0 {
        effect.read.add_all(Set::ONLY_FLAGS);
    }
}

/// Returns whether an access may read and may write.
fn kinds_of(access: OpAccess) -> (bool, bool) {
    match access {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write | OpAccess::CondWrite => (false, true),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        _ => (false, false),
    }
}

fn value_of(register: Register, registers: &Registers, thread: usize) -> Option<u64> {
    match register {
        Register::FS => Some(thread as u64),
        Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
        // The instruction has already added it to the displacement.
        Register::RIP => Some(0),
        register if register.is_gpr64() => Some(registers[REGISTERS[register.number()]] as u64),
        _ => None,
    }
}

/// Index in [`Registers`] of each general register, by the processor's numbering.
const REGISTERS: [usize; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: usize = 0x7000_0000;
    const AT: i64 = 0x40_0000;

    fn of(code: &[u8]) -> Option<Effect> {
        let mut registers: Registers = [0; 23];
        registers[REGISTERS[0]] = 0x1000; // rax
        registers[REGISTERS[1]] = 3; // rcx
        registers[REGISTERS[4]] = 0x8000; // rsp
        registers[REGISTERS[7]] = 0x2000; // rdi
        registers[libc::REG_RIP as usize] = AT;
        effect(code, &registers, THREAD, &mut InstructionInfoFactory::new())
    }

    fn written(code: &[u8]) -> Vec<(usize, usize)> {
        let effect = of(code).unwrap();
        effect.uses().iter().filter(|used| used.is_write).map(|used| (used.place.address, used.place.len)).collect()
    }

    #[test]
    fn all_writes_to_memory_are_seen() {
        assert_eq!(written(&[0x89, 0x48, 0x10]), [(0x1010, 4)]); // mov [rax+16], ecx
        assert_eq!(written(&[0xff, 0x44, 0x88, 0x08]), [(0x1000 + 12 + 8, 4)]); // inc dword [rax+rcx*4+8]
        assert_eq!(written(&[0xc6, 0x05, 1, 0, 0, 0, 7]), [(AT as usize + 8, 1)]); // mov byte [rip+1], 7
        assert_eq!(written(&[0x50]), [(0x7ff8, 8)]); // push rax
        assert_eq!(written(&[0xff, 0xd0]), [(0x7ff8, 8)]); // call rax
        assert_eq!(written(&[0x64, 0x48, 0x89, 0x04, 0x25, 8, 0, 0, 0]), [(THREAD + 8, 8)]); // mov fs:[8], rax
        assert_eq!(written(&[0xf3, 0xaa]), [(0x2000, 1)]); // rep stosb
        assert_eq!(written(&[0x0f, 0x29, 0x00]), [(0x1000, 16)]); // movaps [rax], xmm0
        assert_eq!(written(&[0x3b, 0x08]), []); // cmp ecx, [rax]
        assert_eq!(written(&[0x8d, 0x48, 0x10]), []); // lea ecx, [rax+16]
    }

    #[test]
    fn decisions_are_seen_and_results_from_outside_are_not_understood() {
        let decides = |code: &[u8]| of(code).map(|effect| (effect.branches, effect.read));
        assert_eq!(decides(&[0x74, 0x10]), Some((true, Set::ONLY_FLAGS))); // je
        assert_eq!(decides(&[0xe2, 0x10]), Some((true, Set(1 << 1)))); // loop
        assert_eq!(decides(&[0x0f, 0x44, 0xc1]).map(|(branches, _)| branches), Some(false)); // cmove eax, ecx
        assert_eq!(decides(&[0x48, 0x83, 0xc0, 0x01]), Some((false, Set(1)))); // add rax, 1
        assert_eq!(decides(&[0x0f, 0x31]), None); // rdtsc
    }

    #[test]
    fn a_short_write_leaves_the_rest_of_its_register() {
        let sets = |code: &[u8]| of(code).map(|effect| (effect.written, effect.replaced)).unwrap();
        assert_eq!(sets(&[0x8a, 0x00]), (Set(1), Set(0))); // mov al, [rax]
        assert_eq!(sets(&[0x8b, 0x00]), (Set(1), Set(1))); // mov eax, [rax]
        assert_eq!(sets(&[0x39, 0xc8]).1, Set::ONLY_FLAGS); // cmp eax, ecx
    }
}
