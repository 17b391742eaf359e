//! Compiles rules to instructions: check the architecture, find the call by binary search, then check its arguments if
//! necessary.
//!
//! Every run compiles one on its way up, so it writes each instruction once and looks up no names.

use super::bpf::{self, Insn, Label, Tail, ret};
use super::checks::{Condition, Guard, Half, Outcome, Test};
use super::errno::ENOSYS;
use super::reasons::Reporting;
use super::rules::{self, Ruling};
use super::{Arch, FilterSpec, Observe, lookup};

/// Set in the numbers of the x32 ABI, which comes in under x86-64's own `AUDIT_ARCH`.
const X32_BIT: u32 = 0x4000_0000;

/// Capacity for every filter so far: a larger one costs a second allocation, nothing else.
const INSNS_EXPECTED: usize = 384;

/// Maximum distance of a jump to an existing answer; past it the answer is written again. A conditional jump reaches
/// 255, and the instructions written in between need some of it.
const SHARED_OVER_MAX: usize = 192;

pub(super) fn instructions(spec: FilterSpec) -> Vec<Insn> {
    let rulings: Vec<Ruling> = rules::rulings(spec).collect();
    let mut writer = Writer {
        rulings: &rulings,
        observe: spec.observe,
        written: Vec::with_capacity(rulings.len()),
        tail: Tail::with_capacity(INSNS_EXPECTED),
    };
    // From the back: the last to run is the first to be written.
    let known = writer.search(&ranges(spec, &rulings));
    let mut tail = writer.tail;
    if spec.arch == Arch::X86_64 {
        // Most kernels are built without x32 and answer just this. -1 has the bit too and means "no
        // call".
        let x32 = tail.push(bpf::give(errno(ENOSYS)));
        tail.branch(bpf::JUMP_GE, X32_BIT, x32, known);
    }
    let native = tail.push(bpf::load(bpf::NR));
    // Another architecture's numbers mean other calls. A program that enters by `int 0x80` is a 32-bit one, which
    // cannot run here anyway, or one that tries to bypass the filter; neither gets a second attempt.
    let foreign = tail.push(bpf::give(ret::KILL_PROCESS));
    tail.branch(bpf::JUMP_EQ, spec.arch.audit(), native, foreign);
    tail.push(bpf::load(bpf::ARCH));
    tail.into_insns()
}

/// Action of the filter once it knows the number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// Returns this.
    Give(u32),
    /// Checks the arguments, by the ruling of this group.
    Ask(u8),
}

/// Consecutive numbers with one answer.
struct Range {
    first: u32,
    answer: Answer,
}

/// All numbers, cut where the answer changes; the last range has no end.
fn ranges(spec: FilterSpec, rulings: &[Ruling]) -> Vec<Range> {
    let unknown = Answer::Give(errno(ENOSYS));
    let answer = |(group, ruling): (u8, &Ruling)| match ruling.guards[..] {
        [] => Answer::Give(value(ruling.otherwise, spec.observe)),
        _ => Answer::Ask(group),
    };
    let answers: Vec<Answer> = (0..).zip(rulings).map(answer).collect();
    let groups = lookup::groups_by_number(spec.arch);
    let mut ranges: Vec<Range> = Vec::with_capacity(groups.len() / 2);
    let mut push = |first, answer| {
        if ranges.last().is_none_or(|last| last.answer != answer) {
            ranges.push(Range { first, answer });
        }
    };
    let mut nr = 0;
    for &group in groups {
        push(nr, answers.get(usize::from(group)).copied().unwrap_or(unknown));
        nr += 1;
    }
    push(nr, unknown);
    ranges
}

struct Writer<'a> {
    rulings: &'a [Ruling],
    observe: Observe,
    /// The last position of each answer.
    written: Vec<(Answer, Label)>,
    tail: Tail,
}

impl Writer<'_> {
    /// Writes a balanced tree of comparisons of the number, which is in the accumulator. Its entry is the instruction
    /// written last, so a load put in front runs on into it.
    fn search(&mut self, ranges: &[Range]) -> Label {
        match ranges {
            [] => self.answer(Answer::Give(errno(ENOSYS))),
            [range] => self.answer(range.answer),
            _ => {
                let (below, at_least) = ranges.split_at(ranges.len() / 2);
                let first = at_least[0].first;
                let at_least = self.search(at_least);
                let below = self.search(below);
                self.tail.branch(bpf::JUMP_GE, first, at_least, below)
            }
        }
    }

    /// The position of the answer: an earlier one nearby, or a new one.
    fn answer(&mut self, answer: Answer) -> Label {
        let known = self.written.iter().position(|(written, _)| *written == answer);
        if let Some(at) = known {
            let place = self.written[at].1;
            if self.tail.distance(place) <= SHARED_OVER_MAX {
                return place;
            }
        }
        let place = match answer {
            Answer::Give(value) => self.tail.push(bpf::give(value)),
            Answer::Ask(group) => self.ask(&self.rulings[usize::from(group)]),
        };
        match known {
            Some(at) => self.written[at].1 = place,
            None => self.written.push((answer, place)),
        }
        place
    }

    /// Tries the guards in turn.
    fn ask(&mut self, ruling: &Ruling) -> Label {
        let otherwise = self.tail.push(bpf::give(value(ruling.otherwise, self.observe)));
        ruling.guards.iter().rev().fold(otherwise, |otherwise, guard| self.guard(guard, otherwise))
    }

    /// Returns the guard's outcome if it matches.
    fn guard(&mut self, guard: &Guard, otherwise: Label) -> Label {
        let then = self.tail.push(bpf::give(value(guard.then, self.observe)));
        guard.when().rev().fold(then, |then, condition| self.test(condition, then, otherwise))
    }

    fn test(&mut self, condition: &Condition, then: Label, otherwise: Label) -> Label {
        let &Condition { argument, half, mask, test } = condition;
        match test {
            // One instruction both masks and compares with zero.
            Test::These([0]) => self.tail.branch(bpf::JUMP_SET, mask, otherwise, then),
            Test::Others([0]) => self.tail.branch(bpf::JUMP_SET, mask, then, otherwise),
            Test::These(values) => self.one_of(values, mask, then, otherwise),
            Test::Others(values) => self.one_of(values, mask, otherwise, then),
            Test::Above(value) => {
                let above = self.tail.branch(bpf::JUMP_GT, value, then, otherwise);
                self.masked(mask, above)
            }
        };
        self.tail.push(bpf::load(match half {
            Half::Low => bpf::argument_low(argument),
            Half::High => bpf::argument_high(argument),
        }))
    }

    /// Compares the masked accumulator with each value.
    fn one_of(&mut self, values: &[u32], mask: u32, listed: Label, unlisted: Label) -> Label {
        let equal = |next, &value: &u32| self.tail.branch(bpf::JUMP_EQ, value, listed, next);
        let first = values.iter().rev().fold(unlisted, equal);
        self.masked(mask, first)
    }

    /// Masks the accumulator before `next`, which was written last.
    fn masked(&mut self, mask: u32, next: Label) -> Label {
        if mask == u32::MAX { next } else { self.tail.push(bpf::and(mask)) }
    }
}

/// The filter's return value for an outcome.
fn value(outcome: Outcome, observe: Observe) -> u32 {
    match outcome {
        Outcome::Allow => ret::ALLOW,
        Outcome::Refuse { reason, .. } => match (observe, reason.report) {
            (Observe::Notify, Reporting::Denial) => ret::USER_NOTIF,
            // Without an error number the call returns 0 and is not carried out: seccomp(2).
            (_, Reporting::Done) => ret::ERRNO,
            _ => errno(reason.errno),
        },
    }
}

/// An error number is below 4096, so it always fits; if one did not, 0 would make the call a silent success, so EPERM.
fn errno(errno: i32) -> u32 {
    ret::ERRNO | u32::from(u16::try_from(errno).ok().filter(|n| *n != 0).unwrap_or(1))
}
