//! The few classic BPF instructions a seccomp filter needs, and the one way they are combined here.
//!
//! A program is written from its end to its front, so the target of a jump already exists: every distance is known when
//! it is written and nothing has to be patched later.

use serde::{Deserialize, Serialize};

/// One instruction, laid out as the kernel's `struct sock_filter`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[repr(C)]
pub struct Insn {
    /// Opcode.
    pub code: u16,
    /// Number of instructions to skip if the comparison holds.
    pub jt: u8,
    /// Number of instructions to skip if it does not.
    pub jf: u8,
    /// The constant operand.
    pub k: u32,
}

impl Insn {
    /// The memory layout of `struct sock_filter`.
    pub fn to_bytes(self) -> [u8; 8] {
        let [c0, c1] = self.code.to_ne_bytes();
        let [k0, k1, k2, k3] = self.k.to_ne_bytes();
        [c0, c1, self.jt, self.jf, k0, k1, k2, k3]
    }
}

/// `A = *(u32 *)(data + k)`
pub(super) const LOAD: u16 = 0x20;
/// `A &= k`
pub(super) const AND: u16 = 0x54;
/// `pc += k`
pub(super) const JUMP: u16 = 0x05;
/// `pc += A == k ? jt : jf`
pub(super) const JUMP_EQ: u16 = 0x15;
/// `pc += A > k ? jt : jf`
pub(super) const JUMP_GT: u16 = 0x25;
/// `pc += A >= k ? jt : jf`
pub(super) const JUMP_GE: u16 = 0x35;
/// `pc += A & k ? jt : jf`
pub(super) const JUMP_SET: u16 = 0x45;
/// Ends the filter with `k`.
pub(super) const RETURN: u16 = 0x06;

/// `SECCOMP_RET_*`: the high half is the action, the low half its data.
pub(super) mod ret {
    pub(in super::super) const KILL_PROCESS: u32 = 0x8000_0000;
    pub(in super::super) const KILL_THREAD: u32 = 0x0000_0000;
    pub(in super::super) const TRAP: u32 = 0x0003_0000;
    pub(in super::super) const ERRNO: u32 = 0x0005_0000;
    pub(in super::super) const USER_NOTIF: u32 = 0x7fc0_0000;
    pub(in super::super) const TRACE: u32 = 0x7ff0_0000;
    pub(in super::super) const LOG: u32 = 0x7ffc_0000;
    pub(in super::super) const ALLOW: u32 = 0x7fff_0000;
}

/// `offsetof(struct seccomp_data, nr)`
pub(super) const NR: u32 = 0;
/// `offsetof(struct seccomp_data, arch)`
pub(super) const ARCH: u32 = 4;
/// `sizeof(struct seccomp_data)`
pub(super) const DATA_BYTES: u32 = 64;

/// Offset of the low half of argument `index`. Both architectures are little-endian.
pub(super) fn argument_low(index: u8) -> u32 {
    16 + 8 * u32::from(index)
}

/// Offset of the high half of argument `index`.
pub(super) fn argument_high(index: u8) -> u32 {
    argument_low(index) + 4
}

pub(super) fn load(offset: u32) -> Insn {
    plain(LOAD, offset)
}

pub(super) fn and(mask: u32) -> Insn {
    plain(AND, mask)
}

pub(super) fn give(value: u32) -> Insn {
    plain(RETURN, value)
}

/// The end of a program, growing towards its front.
pub(super) struct Tail {
    reversed: Vec<Insn>,
}

/// A jump target: the number of instructions from there to the end of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Label(usize);

impl Tail {
    pub(super) fn with_capacity(n_insns: usize) -> Self {
        Self { reversed: Vec::with_capacity(n_insns) }
    }

    /// Prepends an instruction; it runs on into the one that was first.
    pub(super) fn push(&mut self, insn: Insn) -> Label {
        self.reversed.push(insn);
        Label(self.reversed.len())
    }

    /// Prepends a comparison that goes to one of two targets. A conditional jump reaches over 255 instructions; past
    /// that it steps onto an unconditional one, which reaches everywhere.
    pub(super) fn branch(&mut self, code: u16, k: u32, on_true: Label, on_false: Label) -> Label {
        match (u8::try_from(self.distance(on_true)), u8::try_from(self.distance(on_false))) {
            (Ok(jt), Ok(jf)) => self.push(Insn { code, jt, jf, k }),
            (Err(_), _) => {
                let on_true = self.jump(on_true);
                self.branch(code, k, on_true, on_false)
            }
            (_, Err(_)) => {
                let on_false = self.jump(on_false);
                self.branch(code, k, on_true, on_false)
            }
        }
    }

    /// Number of instructions that a prepended jump would skip on its way there.
    pub(super) fn distance(&self, to: Label) -> usize {
        self.reversed.len() - to.0
    }

    pub(super) fn into_insns(mut self) -> Vec<Insn> {
        self.reversed.reverse();
        self.reversed
    }

    /// A distance that does not fit makes a jump the checker refuses, never a jump to a wrong
    /// place.
    fn jump(&mut self, to: Label) -> Label {
        let skip = u32::try_from(self.distance(to)).unwrap_or(u32::MAX);
        self.push(plain(JUMP, skip))
    }
}

fn plain(code: u16, k: u32) -> Insn {
    Insn { code, jt: 0, jf: 0, k }
}
