//! Simulates a filter: the kernel's checks at its installation, and its answer to a call.
//!
//! Knows only the instructions [`super::compile`] emits. Those are also the ones the kernel can evaluate ahead of time
//! (`seccomp_is_const_allow` in kernel/seccomp.c), so an allowed call that reads no argument is answered from a bitmap
//! and costs no filter instructions at all since Linux 5.11.

use super::bpf::{self, Insn, ret};
use std::fmt;

/// `BPF_MAXINSNS`: the kernel takes no longer filter.
pub const INSNS_MAX: usize = 4096;

/// The kernel's input to a filter: `struct seccomp_data`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SeccompData {
    /// The system call number as the kernel got it.
    pub nr: u32,
    /// The `AUDIT_ARCH_*` of the entry that was used.
    pub arch: u32,
    /// Address of the call.
    pub instruction_pointer: u64,
    /// The argument registers.
    pub args: [u64; 6],
}

/// Answer of a filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The call goes ahead.
    Allow,
    /// The call goes ahead and is logged.
    Log,
    /// A tracer decides.
    Trace(u16),
    /// The holder of the listener decides.
    Notify,
    /// The call fails with this error; with 0 it returns 0. Either way it is not carried out.
    Errno(u16),
    /// The thread gets `SIGSYS`.
    Trap(u16),
    /// The thread ends.
    KillThread,
    /// The process ends with `SIGSYS`.
    KillProcess,
}

/// Reason that the kernel would refuse a filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadFilter {
    /// It is empty or longer than [`INSNS_MAX`].
    Length(usize),
    /// The instruction at this index is not one that Ringfence emits.
    Opcode(usize),
    /// The load at this index is not of an aligned word of `struct seccomp_data`.
    Offset(usize),
    /// The jump at this index leaves the filter.
    Jump(usize),
    /// The last instruction does not return.
    NoReturn,
}

/// An answer and its cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trace {
    /// The answer.
    pub action: Action,
    /// Number of instructions that ran.
    pub n_insns: usize,
    /// True if the answer depended on more than the number and the architecture. If not, and it is [`Action::Allow`],
    /// the kernel answers from its bitmap.
    pub read_arguments: bool,
}

/// A filter that passed the kernel's checks: every jump goes forward and stays inside, every load is of an existing
/// word, the last instruction returns. So it always ends with an answer.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a>(&'a [Insn]);

/// The filter's answer to this call.
pub fn simulate(insns: &[Insn], data: &SeccompData) -> Result<Action, BadFilter> {
    Ok(Program::check(insns)?.run(data).action)
}

impl<'a> Program<'a> {
    /// Makes the checks of `bpf_check_classic` and `seccomp_check_filter`.
    pub fn check(insns: &'a [Insn]) -> Result<Self, BadFilter> {
        if insns.is_empty() || insns.len() > INSNS_MAX {
            return Err(BadFilter::Length(insns.len()));
        }
        for (at, insn) in insns.iter().enumerate() {
            let left = insns.len() - at - 1;
            let reaches = |skip: usize| skip < left;
            match insn.code {
                bpf::LOAD if insn.k % 4 != 0 || insn.k >= bpf::DATA_BYTES => {
                    return Err(BadFilter::Offset(at));
                }
                bpf::LOAD | bpf::AND | bpf::RETURN => {}
                bpf::JUMP => {
                    if !usize::try_from(insn.k).is_ok_and(reaches) {
                        return Err(BadFilter::Jump(at));
                    }
                }
                bpf::JUMP_EQ | bpf::JUMP_GT | bpf::JUMP_GE | bpf::JUMP_SET => {
                    if !reaches(insn.jt.into()) || !reaches(insn.jf.into()) {
                        return Err(BadFilter::Jump(at));
                    }
                }
                _ => return Err(BadFilter::Opcode(at)),
            }
        }
        match insns.last() {
            Some(insn) if insn.code == bpf::RETURN => Ok(Self(insns)),
            _ => Err(BadFilter::NoReturn),
        }
    }

    /// Answers one call.
    pub fn run(&self, data: &SeccompData) -> Trace {
        let mut accumulator = 0;
        let mut n_insns = 0;
        let mut read_arguments = false;
        let mut rest = self.0.iter();
        while let Some(insn) = rest.next() {
            n_insns += 1;
            let k = insn.k;
            let holds = match insn.code {
                bpf::LOAD => {
                    accumulator = data.word(k);
                    read_arguments |= k != bpf::NR && k != bpf::ARCH;
                    continue;
                }
                bpf::AND => {
                    accumulator &= k;
                    continue;
                }
                bpf::RETURN => {
                    return Trace { action: Action::of(k), n_insns, read_arguments };
                }
                bpf::JUMP => {
                    skip(&mut rest, usize::try_from(k).unwrap_or(usize::MAX));
                    continue;
                }
                bpf::JUMP_EQ => accumulator == k,
                bpf::JUMP_GT => accumulator > k,
                bpf::JUMP_GE => accumulator >= k,
                bpf::JUMP_SET => accumulator & k != 0,
                _ => break,
            };
            skip(&mut rest, if holds { insn.jt } else { insn.jf }.into());
        }
        // Unreachable after `check`; if it were reached, the strictest answer would be right.
        Trace { action: Action::KillProcess, n_insns, read_arguments }
    }
}

fn skip<'a>(rest: &mut impl Iterator<Item = &'a Insn>, n_insns: usize) {
    if let Some(last) = n_insns.checked_sub(1) {
        rest.nth(last);
    }
}

impl SeccompData {
    /// The 32 bits at `offset`, on a little-endian machine.
    fn word(&self, offset: u32) -> u32 {
        let half = |value: u64| {
            if offset.is_multiple_of(8) { low(value) } else { low(value >> 32) }
        };
        match offset / 8 {
            0 if offset == bpf::NR => self.nr,
            0 => self.arch,
            1 => half(self.instruction_pointer),
            slot => self.args.get(slot as usize - 2).map_or(0, |&arg| half(arg)),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "BPF sees an argument as two halves; this is the low one"
)]
fn low(value: u64) -> u32 {
    value as u32
}

impl Action {
    /// Reads a filter's return value as `__seccomp_filter` does: an unknown action ends the process.
    pub fn of(value: u32) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "SECCOMP_RET_DATA is the low half")]
        let data = value as u16;
        match value & 0xffff_0000 {
            ret::ALLOW => Self::Allow,
            ret::LOG => Self::Log,
            ret::TRACE => Self::Trace(data),
            ret::USER_NOTIF => Self::Notify,
            // MAX_ERRNO: the kernel caps the data at 4095.
            ret::ERRNO => Self::Errno(data.min(4095)),
            ret::TRAP => Self::Trap(data),
            ret::KILL_THREAD => Self::KillThread,
            _ => Self::KillProcess,
        }
    }
}

impl fmt::Display for BadFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(n) => {
                write!(f, "a filter has 1 to {INSNS_MAX} instructions, this one {n}")
            }
            Self::Opcode(at) => write!(f, "instruction {at} is not one a Ringfence filter uses"),
            Self::Offset(at) => {
                write!(f, "instruction {at} loads from outside struct seccomp_data")
            }
            Self::Jump(at) => write!(f, "instruction {at} jumps out of the filter"),
            Self::NoReturn => f.write_str("the last instruction does not return"),
        }
    }
}

impl std::error::Error for BadFilter {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seccomp::bpf::{Tail, give, load};

    const CALL: SeccompData = SeccompData {
        nr: 7,
        arch: 9,
        instruction_pointer: 0x1111_2222_3333_4444,
        args: [0xaaaa_bbbb_cccc_dddd; 6],
    };

    fn jump(k: u32) -> Insn {
        Insn { code: bpf::JUMP, jt: 0, jf: 0, k }
    }

    #[test]
    fn a_load_sees_the_word_it_names() {
        for (offset, word) in [
            (0, 7),
            (4, 9),
            (8, 0x3333_4444),
            (12, 0x1111_2222),
            (16, 0xcccc_dddd),
            (60, 0xaaaa_bbbb),
        ] {
            let mut tail = Tail::with_capacity(4);
            let other = tail.push(give(ret::KILL_THREAD));
            let same = tail.push(give(ret::ALLOW));
            tail.branch(bpf::JUMP_EQ, word, same, other);
            tail.push(load(offset));
            let insns = tail.into_insns();
            assert_eq!(simulate(&insns, &CALL), Ok(Action::Allow), "offset {offset}");
        }
    }

    #[test]
    fn a_filter_the_kernel_would_not_take_is_refused() {
        let end = give(ret::ALLOW);
        let cond = |jt, jf| Insn { code: bpf::JUMP_EQ, jt, jf, k: 0 };
        for (insns, why) in [
            (vec![], BadFilter::Length(0)),
            (vec![end; INSNS_MAX + 1], BadFilter::Length(INSNS_MAX + 1)),
            (vec![load(0)], BadFilter::NoReturn),
            (vec![end, load(0)], BadFilter::NoReturn),
            (vec![cond(1, 0), end], BadFilter::Jump(0)),
            (vec![cond(0, 1), end], BadFilter::Jump(0)),
            (vec![load(0), cond(0, 255), end, end], BadFilter::Jump(1)),
            (vec![jump(1), end], BadFilter::Jump(0)),
            // A kernel that added in 32 bits would take this for a jump backwards.
            (vec![load(0), jump(u32::MAX), end], BadFilter::Jump(1)),
            (vec![end, cond(0, 0)], BadFilter::Jump(1)),
            (vec![load(2), end], BadFilter::Offset(0)),
            (vec![load(64), end], BadFilter::Offset(0)),
            // BPF_LD|BPF_H|BPF_ABS: half a word.
            (vec![Insn { code: 0x28, ..load(0) }, end], BadFilter::Opcode(0)),
            // BPF_RET|BPF_A
            (vec![Insn { code: 0x16, ..end }], BadFilter::Opcode(0)),
        ] {
            assert_eq!(Program::check(&insns).map(|_| ()), Err(why), "{insns:?}");
            assert_eq!(simulate(&insns, &CALL), Err(why));
        }
        assert!(Program::check(&vec![end; INSNS_MAX]).is_ok());
        assert!(Program::check(&[jump(0), cond(1, 0), end, end]).is_ok());
    }

    #[test]
    fn a_branch_past_255_instructions_still_lands() {
        for (far, between) in [(0, 0), (254, 0), (255, 0), (256, 0), (600, 0), (300, 300), (1, 255)]
        {
            for nr in [7, 8] {
                let mut tail = Tail::with_capacity(0);
                let at_least = tail.push(give(ret::ALLOW));
                for _ in 0..far {
                    tail.push(give(ret::KILL_THREAD));
                }
                let below = tail.push(give(ret::ERRNO | 1));
                for _ in 0..between {
                    tail.push(give(ret::KILL_THREAD));
                }
                tail.branch(bpf::JUMP_GE, 8, at_least, below);
                tail.push(load(bpf::NR));
                let insns = tail.into_insns();
                let want = if nr >= 8 { Action::Allow } else { Action::Errno(1) };
                let got = simulate(&insns, &SeccompData { nr, ..CALL });
                assert_eq!(got, Ok(want), "{far} {between} {nr}");
            }
        }
    }

    #[test]
    fn return_values_are_read_as_the_kernel_reads_them() {
        for (value, action) in [
            (0x7fff_0000, Action::Allow),
            (0x7fff_0005, Action::Allow),
            (0x0005_0026, Action::Errno(38)),
            (0x0005_ffff, Action::Errno(4095)),
            (0x7fc0_0000, Action::Notify),
            (0x0003_0002, Action::Trap(2)),
            (0x8000_0000, Action::KillProcess),
            (0, Action::KillThread),
            (0x1234_0000, Action::KillProcess),
        ] {
            assert_eq!(Action::of(value), action, "{value:#x}");
        }
    }
}
