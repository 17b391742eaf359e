//! The few classic BPF instructions a seccomp filter needs, and the one way they are put together
//! here.
//!
//! A *block* is a run of instructions whose jumps are relative and stay inside it or go to its end.
//! Blocks are built from the back, so every distance is known when it is written down and nothing
//! has to be patched later.

use serde::Serialize;

/// One instruction, laid out as the kernel's `struct sock_filter`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[repr(C)]
pub struct Insn {
    /// What to do.
    pub code: u16,
    /// How many instructions to skip if the comparison holds.
    pub jt: u8,
    /// How many instructions to skip if it does not.
    pub jf: u8,
    /// The constant operand.
    pub k: u32,
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

/// Where the low half of argument `index` lies. Both architectures are little-endian.
pub(super) fn argument_low(index: u8) -> u32 {
    16 + 8 * u32::from(index)
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

/// Compares and skips `on_true` or `on_false` instructions. A conditional jump reaches 255
/// instructions; past that it steps onto an unconditional one, which reaches everywhere.
pub(super) fn branch(code: u16, k: u32, on_true: usize, on_false: usize) -> Vec<Insn> {
    match (u8::try_from(on_true), u8::try_from(on_false)) {
        (Ok(jt), Ok(jf)) => vec![Insn { code, jt, jf, k }],
        _ => vec![
            Insn { code, jt: 0, jf: 1, k },
            plain(JUMP, distance(on_true + 1)),
            plain(JUMP, distance(on_false)),
        ],
    }
}

/// `if A >= k { at_least } else { below }`, where both blocks return.
pub(super) fn split(k: u32, below: &[Insn], at_least: &[Insn]) -> Vec<Insn> {
    let mut block = branch(JUMP_GE, k, below.len(), 0);
    block.extend_from_slice(below);
    block.extend_from_slice(at_least);
    block
}

fn plain(code: u16, k: u32) -> Insn {
    Insn { code, jt: 0, jf: 0, k }
}

/// A distance that does not fit makes a jump the checker refuses, never a jump to a wrong place.
fn distance(n_insns: usize) -> u32 {
    u32::try_from(n_insns).unwrap_or(u32::MAX)
}
