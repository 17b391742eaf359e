//! Makes sources from sources. The same seed and the same programs make the same sequence.

use std::collections::HashSet;
use std::fmt::Write as _;

use ringfence_screen::ScreenVerdict;
use ringfence_spec::CodePreset;

use super::screen::POOL_MAX;
use crate::random::Random;

/// Words that make trouble, and the grammar around them.
const WORDS: &[&str] = &[
    "eval",
    "exec",
    "open(",
    "type(",
    "getattr(",
    "__class__",
    ".__init__",
    "__builtins__",
    "gi_frame",
    "import ",
    "from ",
    " as ",
    " import *",
    "os",
    "sys",
    "json",
    "enum",
    "numpy as np",
    "io",
    "def f(",
    "class A(",
    "metaclass=",
    "lambda x=",
    "lambda: ",
    "lambda *a, **k: ",
    "return ",
    "yield ",
    "yield from ",
    "await ",
    "async ",
    "global x\n",
    "nonlocal x\n",
    "del x\n",
    "if x:\n ",
    "elif x:\n ",
    "else:\n ",
    "for x in ",
    "while x:\n ",
    "try:\n ",
    "except E as x:\n ",
    "except* E:\n ",
    "finally:\n ",
    "with x as y:\n ",
    "with (x as y, z):\n ",
    "match x:\n case ",
    "case [x, *y]:\n ",
    "case A(b=c):\n ",
    "case {1: x, **y}:\n ",
    "pass\n",
    "raise x from y\n",
    "type X[T: int] = ",
    "def f[T, *U, **V](",
    " and ",
    " or ",
    "not ",
    " not in ",
    " is not ",
    " if x else ",
    ":= ",
    "None",
    "1_0",
    "0x1f",
    "1e9",
    "1j",
    "'a'",
    "b'\\xff'",
    "r'\\'",
    "'\\N{BULLET}'",
    "f'{",
    "}'",
    "f'{x!r:>{y}}'",
    "t'{x}'",
    "f\"\"\"{",
    "}\"\"\"",
    "\"",
    "'''",
    "\"\"\"",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    ";",
    ".",
    "=",
    "==",
    "->",
    "+",
    "-",
    "*",
    "**",
    "/",
    "//",
    "@",
    "~",
    "|",
    "<",
    "\n",
    "\n  ",
    "\n\t",
    "\n        ",
    "\\\n",
    "\r",
    "\r\n",
    "\u{c}",
    "\u{feff}",
    "\0",
    "#",
    "# coding: utf-7\n",
    "ｅval",
    "\u{202e}",
    "é",
    "𝓮",
    "\u{2028}",
    "...",
    "$",
    "?",
    "!",
    "`",
    "print x",
    "exec 'x'",
];

/// A generator of sources.
pub(super) struct Mutator {
    random: Random,
    pool: Vec<Vec<u8>>,
    /// Programs given at the start; they stay in the pool.
    n_given: usize,
    seen: HashSet<String>,
}

impl Mutator {
    pub(super) fn new(seed: u64, programs: Vec<Vec<u8>>) -> Self {
        let n_given = programs.len();
        Self { random: Random::new(seed), pool: programs, n_given, seen: HashSet::new() }
    }

    /// The next source.
    pub(super) fn source(&mut self) -> Vec<u8> {
        let mut source = match self.below(10) {
            // Token soup, from nothing.
            0 => Vec::new(),
            _ => self.any_of_pool(),
        };
        for _ in 0..=self.below(6) {
            self.mutate(&mut source);
        }
        source.truncate(CodePreset::Standard.source_bytes_max());
        source
    }

    /// Keeps a source that got a verdict no other got: rules of each preset, and how long the list is.
    pub(super) fn keep_if_new(&mut self, source: Vec<u8>, verdicts: &[ScreenVerdict]) {
        let mut signature = String::new();
        for verdict in verdicts {
            let mut rules: Vec<&str> = verdict.violations.iter().map(|v| v.rule.as_str()).collect();
            rules.sort_unstable();
            rules.dedup();
            let size = verdict.violations.len().checked_ilog2();
            // Writing to a String does not fail.
            let _ = write!(signature, "{rules:?}{size:?};");
        }
        if self.seen.insert(signature) {
            if self.pool.len() < POOL_MAX {
                self.pool.push(source);
            } else {
                let at = self.n_given + self.below(POOL_MAX - self.n_given);
                self.pool[at] = source;
            }
        }
    }

    fn any_of_pool(&mut self) -> Vec<u8> {
        let at = self.below(self.pool.len());
        self.pool[at].clone()
    }

    fn mutate(&mut self, source: &mut Vec<u8>) {
        let at = self.below(source.len() + 1);
        match self.below(11) {
            0..=2 => {
                let word = WORDS[self.below(WORDS.len())];
                source.splice(at..at, word.bytes());
            }
            // One piece many times over: depth, length, or both.
            3 => {
                let end = (at + 1 + self.below(12)).min(source.len());
                let piece: Vec<u8> = match source.get(at..end) {
                    Some(piece) if !piece.is_empty() && self.below(2) == 0 => piece.to_vec(),
                    _ => WORDS[self.below(WORDS.len())].bytes().collect(),
                };
                let n = [3, 30, 95, 300, 1000, 60_000][self.below(6)]
                    .min(CodePreset::Standard.source_bytes_max() / piece.len());
                source.splice(at..at, piece.repeat(n));
            }
            4 => {
                let end = (at + self.below(40)).min(source.len());
                source.drain(at..end);
            }
            5 => {
                let other = self.any_of_pool();
                let from = self.below(other.len() + 1);
                let to = (from + self.below(300)).min(other.len());
                source.splice(at..at, other[from..to].iter().copied());
            }
            6 => {
                let byte = u8::try_from(self.below(256)).unwrap_or(b'x');
                match source.get_mut(at) {
                    Some(old) => *old = byte,
                    None => source.push(byte),
                }
            }
            7 => self.swap_lines(source),
            8 => self.wrap(source, at),
            9 => {
                let indent = b" ".repeat(self.below(9));
                let start = source[..at].iter().rposition(|b| *b == b'\n').map_or(0, |n| n + 1);
                source.splice(start..start, indent);
            }
            _ => source.truncate(at),
        }
        source.truncate(2 * CodePreset::Standard.source_bytes_max());
    }

    fn swap_lines(&mut self, source: &mut Vec<u8>) {
        let mut lines: Vec<&[u8]> = source.split_inclusive(|b| *b == b'\n').collect();
        if lines.len() > 1 {
            let (a, b) = (self.below(lines.len()), self.below(lines.len()));
            lines.swap(a, b);
            *source = lines.concat();
        }
    }

    /// Puts brackets of one kind around a piece, as deep as it goes.
    fn wrap(&mut self, source: &mut Vec<u8>, at: usize) {
        const PAIRS: &[(&str, &str)] = &[
            ("(", ")"),
            ("[", "]"),
            ("{", "}"),
            ("f(", ")"),
            ("f'{", "}'"),
            ("lambda:(", ")"),
            ("[x for x in ", "]"),
        ];
        let (before, after) = PAIRS[self.below(PAIRS.len())];
        let n = [1, 5, 33, 99, 101][self.below(5)];
        let end = (at + self.below(20)).min(source.len());
        source.splice(end..end, after.repeat(n).into_bytes());
        source.splice(at..at, before.repeat(n).into_bytes());
    }

    /// A number below `n`, or 0.
    fn below(&mut self, n: usize) -> usize {
        self.random.below(n)
    }
}
