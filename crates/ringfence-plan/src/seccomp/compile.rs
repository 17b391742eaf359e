//! Rules to instructions: check the architecture, find the call by halving, then look at its
//! arguments if it must.

use super::bpf::{self, Insn, ret};
use super::checks::{Among, Condition, Guard, Outcome};
use super::errno::ENOSYS;
use super::reasons::Report;
use super::rules::{self, Ruling};
use super::{Arch, FilterSpec, Observe, table};
use std::collections::HashMap;
use std::rc::Rc;

/// Set in the numbers of the x32 ABI, which comes in under x86-64's own `AUDIT_ARCH`.
const X32_BIT: u32 = 0x4000_0000;

pub(super) fn instructions(spec: FilterSpec) -> Vec<Insn> {
    let mut insns = vec![bpf::load(bpf::ARCH)];
    // Another architecture's numbers mean other calls. A program that enters by `int 0x80` is a
    // 32-bit one, which cannot run here anyway, or one that tries to get round the filter; neither
    // gets a second attempt.
    insns.extend(bpf::branch(bpf::JUMP_EQ, spec.arch.audit(), 1, 0));
    insns.push(bpf::give(ret::KILL_PROCESS));
    insns.push(bpf::load(bpf::NR));
    if spec.arch == Arch::X86_64 {
        // Most kernels are built without x32 and answer just this. -1 has the bit too and means "no
        // call".
        insns.extend(bpf::branch(bpf::JUMP_GE, X32_BIT, 0, 1));
        insns.push(bpf::give(errno(ENOSYS)));
    }
    insns.extend(dispatch(spec));
    insns
}

/// Consecutive numbers with one answer.
struct Range<'a> {
    first: u32,
    block: &'a [Insn],
}

/// The part that looks at the number, which is in the accumulator.
fn dispatch(spec: FilterSpec) -> Vec<Insn> {
    let unknown = [bpf::give(errno(ENOSYS))];
    let mut blocks = HashMap::new();
    for (calls, ruling) in rules::rulings(spec) {
        let block = Rc::new(body(&ruling, spec.observe));
        blocks.extend(calls.map(|call| (call, Rc::clone(&block))));
    }
    let block_of = |call| blocks.get(call).map_or(&unknown[..], |block| block.as_slice());

    // All numbers, cut where the answer changes; the last range has no end.
    let mut ranges: Vec<Range<'_>> = Vec::new();
    let mut push = |first, block| {
        if ranges.last().is_none_or(|last| last.block != block) {
            ranges.push(Range { first, block });
        }
    };
    let mut next = 0;
    for &(nr, call) in table::calls(spec.arch) {
        if nr > next {
            push(next, &unknown);
        }
        push(nr, block_of(call));
        next = nr + 1;
    }
    push(next, &unknown);
    search(&ranges)
}

/// A balanced tree of comparisons.
fn search(ranges: &[Range<'_>]) -> Vec<Insn> {
    match ranges {
        [] => vec![],
        [range] => range.block.to_vec(),
        _ => {
            let (below, at_least) = ranges.split_at(ranges.len() / 2);
            bpf::split(at_least[0].first, &search(below), &search(at_least))
        }
    }
}

/// The block that answers one call.
fn body(ruling: &Ruling, observe: Observe) -> Vec<Insn> {
    let mut block: Vec<Insn> =
        ruling.guards.iter().flat_map(|guard| guarded(guard, observe)).collect();
    block.push(bpf::give(answer(ruling.otherwise, observe)));
    block
}

/// Returns if the guard matches, else runs off its end.
fn guarded(guard: &Guard, observe: Observe) -> Vec<Insn> {
    let mut block = vec![bpf::give(answer(guard.then, observe))];
    for condition in guard.when.iter().rev() {
        let mut with = test(condition, block.len());
        with.append(&mut block);
        block = with;
    }
    block
}

/// Runs off its end if the condition holds, else skips `otherwise` instructions more.
fn test(condition: &Condition, otherwise: usize) -> Vec<Insn> {
    let mut block = Vec::new();
    for (from_last, &value) in condition.values.iter().rev().enumerate() {
        let end = block.len();
        let (equal, different) = match condition.among {
            Among::These if from_last == 0 => (end, otherwise),
            Among::These => (end, 0),
            Among::Others => (end + otherwise, 0),
        };
        let mut with = bpf::branch(bpf::JUMP_EQ, value, equal, different);
        with.append(&mut block);
        block = with;
    }
    let mut with = vec![bpf::load(bpf::argument_low(condition.argument))];
    if condition.mask != u32::MAX {
        with.push(bpf::and(condition.mask));
    }
    with.append(&mut block);
    with
}

fn answer(outcome: Outcome, observe: Observe) -> u32 {
    match outcome {
        Outcome::Allow => ret::ALLOW,
        Outcome::Refuse { reason, .. } => match (observe, reason.report) {
            (Observe::Notify, Report::Denial) => ret::USER_NOTIF,
            _ => errno(reason.errno),
        },
    }
}

/// An error number is below 4096, so it always fits; were one not to, 0 would make the call a
/// silent success, so EPERM.
fn errno(errno: i32) -> u32 {
    ret::ERRNO | u32::from(u16::try_from(errno).ok().filter(|n| *n != 0).unwrap_or(1))
}
