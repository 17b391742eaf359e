//! What holds for any source: no panic, a verdict that agrees with itself, and presets in order.

#![allow(clippy::disallowed_methods)]

use proptest::prelude::*;
use ringfence_screen::{ScreenRisk, ScreenVerdict, VIOLATIONS_MAX, screen};
use ringfence_spec::CodePreset;

const PRESETS: [CodePreset; 4] =
    [CodePreset::Strict, CodePreset::Standard, CodePreset::Data, CodePreset::Open];

/// Words that make trouble, and the grammar around them.
const WORDS: &[&str] = &[
    "eval",
    "exec",
    "open",
    "type",
    "getattr",
    "setattr",
    "vars",
    "x",
    "y",
    "self",
    "f",
    "super",
    "len",
    "print",
    "int",
    "os",
    "sys",
    "json",
    "math",
    "enum",
    "numpy",
    "np",
    "io",
    "operator",
    "attrgetter",
    "__class__",
    "__init__",
    "__builtins__",
    "__import__",
    "_x",
    "gi_frame",
    "format",
    "StringIO",
    "import ",
    "from ",
    " as ",
    "def ",
    "class ",
    "lambda ",
    "lambda: ",
    "return ",
    "yield ",
    "await ",
    "async ",
    "global ",
    "nonlocal ",
    "del ",
    "if ",
    " if ",
    " else ",
    "else:",
    "elif ",
    "for ",
    " in ",
    "while ",
    "try:",
    "except ",
    "except:",
    "finally:",
    "with ",
    "match ",
    "case ",
    "pass",
    "break",
    "raise ",
    " and ",
    " or ",
    "not ",
    " is ",
    "None",
    "True",
    "1",
    "'a'",
    "'{0.__class__}'",
    "f'{",
    "}'",
    "\"",
    "'''",
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
    ":=",
    "==",
    "->",
    "+",
    "-",
    "*",
    "**",
    "/",
    "@",
    "~",
    "|",
    "\n",
    "\n  ",
    "\n    ",
    "\\\n",
    " ",
    "\t",
    "#",
    "metaclass=",
    "*",
    "...",
    "\u{feff}",
    "ｅval",
    "\u{c}",
    "\r",
];

fn soup() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(WORDS), 0..60)
        .prop_map(|words| words.concat())
}

/// Sources that parse, by construction.
fn statement() -> impl Strategy<Value = String> {
    let atom = proptest::sample::select(vec![
        "x",
        "1",
        "'a'",
        "eval",
        "open",
        "len",
        "print",
        "type",
        "os",
        "json",
        "math",
        "()",
        "[]",
        "self",
        "'{0._x}'",
        "f'{x}'",
        "None",
        "getattr",
        "input",
        "id",
        "object",
        "ValueError",
        "__name__",
    ]);
    let expression = atom.prop_map(str::to_owned).prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            (
                inner.clone(),
                proptest::sample::select(vec![
                    "a",
                    "open",
                    "__class__",
                    "__init__",
                    "_x",
                    "sys",
                    "format",
                    "gi_frame",
                    "path",
                    "sin",
                    "StringIO",
                ])
            )
                .prop_map(|(e, attribute)| format!("({e}).{attribute}")),
            (inner.clone(), proptest::collection::vec(inner.clone(), 0..3))
                .prop_map(|(f, a)| format!("({f})({})", a.join(", "))),
            (
                proptest::sample::select(vec!["json", "math", "os", "sys", "io", "np", "x"]),
                proptest::sample::select(vec![
                    "loads", "sys", "path", "system", "StringIO", "open", "modules", "_os"
                ])
            )
                .prop_map(|(m, a)| format!("{m}.{a}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) + ({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[({a}) for x in ({b})]")),
            inner.clone().prop_map(|e| format!("(lambda open, x=1: {e})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("(({a}) if x else ({b}))")),
            inner.clone().prop_map(|e| format!("(y := ({e}))")),
            inner.clone().prop_map(|e| format!("getattr({e}, 'name')")),
            inner.prop_map(|e| format!("f'{{{{{{({e})}}}}}}'")),
        ]
    });
    prop_oneof![
        4 => expression.clone().prop_map(|e| format!("{e}\n")),
        2 => (proptest::sample::select(vec!["x", "open", "eval", "json", "id", "__slots__", "a.b", "x[0]"]), expression.clone())
            .prop_map(|(t, e)| format!("{t} = {e}\n")),
        2 => proptest::sample::select(vec![
            "import json\n", "import os\n", "import io\n", "import numpy as np\n", "from math import *\n",
            "from io import StringIO\n", "from os import path\n", "from . import x\n", "import sys as json\n",
            "del x\n", "pass\n", "global open\n", "assert x\n",
        ]).prop_map(str::to_owned),
        1 => expression.clone().prop_map(|e| format!("if {e}:\n    x = {e}\nelse:\n    pass\n")),
        1 => expression.clone().prop_map(|e| format!("for open in {e}:\n    open\n")),
        1 => expression.clone().prop_map(|e| format!("def f(self, a={e}):\n    open = a\n    return {e}\n")),
        1 => expression.clone().prop_map(|e| format!("class A(object):\n    def __init__(self): {e}\n")),
        1 => expression.clone().prop_map(|e| format!("with {e} as open:\n    open\n")),
        1 => expression.prop_map(|e| format!("try:\n    {e}\nexcept E as x:\n    pass\n")),
    ]
}

fn program() -> impl Strategy<Value = String> {
    proptest::collection::vec(statement(), 1..6).prop_map(|statements| statements.concat())
}

fn verdicts(source: &[u8], extra: &[String]) -> Vec<ScreenVerdict> {
    PRESETS.iter().map(|preset| screen(source, *preset, extra)).collect()
}

fn agrees_with_itself(verdict: &ScreenVerdict) {
    assert_eq!(verdict.safe, verdict.violations.is_empty());
    let is_quiet = verdict.safe && verdict.findings.is_empty();
    assert_eq!(is_quiet, verdict.risk == ScreenRisk::Safe);
    assert!(verdict.violations.len() <= VIOLATIONS_MAX + 1);
    for violation in &verdict.violations {
        assert!(violation.line >= 1 && violation.column >= 1);
        assert!(!violation.hint.to_string().is_empty() && violation.subject.len() <= 4 * 100);
    }
}

/// What a preset allows, every looser one allows.
fn in_order(verdicts: &[ScreenVerdict]) {
    for pair in verdicts.windows(2) {
        assert!(!pair[0].safe || pair[1].safe, "{:#?}", pair[1]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_bytes_get_a_verdict(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let verdicts = verdicts(&bytes, &[]);
        verdicts.iter().for_each(agrees_with_itself);
        in_order(&verdicts);
    }

    #[test]
    fn any_text_gets_a_verdict(text in "\\PC{0,200}") {
        let verdicts = verdicts(text.as_bytes(), &[]);
        verdicts.iter().for_each(agrees_with_itself);
        in_order(&verdicts);
    }

    #[test]
    fn any_soup_of_tokens_gets_a_verdict(text in soup()) {
        let verdicts = verdicts(text.as_bytes(), &[]);
        verdicts.iter().for_each(agrees_with_itself);
        in_order(&verdicts);
    }

    #[test]
    fn presets_are_ordered_for_programs(text in program(), with_extra in any::<bool>()) {
        let extra = if with_extra { vec!["os".to_owned(), "numpy".to_owned()] } else { Vec::new() };
        let verdicts = verdicts(text.as_bytes(), &extra);
        verdicts.iter().for_each(agrees_with_itself);
        in_order(&verdicts);
    }

    #[test]
    fn an_extra_import_never_makes_a_program_worse(text in program()) {
        for preset in PRESETS {
            let extra = ["os".to_owned(), "sys".to_owned(), "json".to_owned()];
            let without = screen(text.as_bytes(), preset, &[]);
            let with = screen(text.as_bytes(), preset, &extra);
            prop_assert!(!without.safe || with.safe, "{preset}: {:#?}", with);
        }
    }

    #[test]
    fn a_comment_or_a_blank_line_changes_nothing(text in program()) {
        let plain = screen(text.as_bytes(), CodePreset::Standard, &[]);
        let moved = screen(format!("# eval(1)\n\n{text}").as_bytes(), CodePreset::Standard, &[]);
        let rules = |v: &ScreenVerdict| v.violations.iter().map(|v| (v.rule.as_str(), v.subject.clone())).collect::<Vec<_>>();
        prop_assert_eq!(rules(&plain), rules(&moved));
    }
}

#[test]
fn the_generated_programs_do_parse() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let parsed = (0..300)
        .filter(|_| {
            let text = program().new_tree(&mut runner).unwrap().current();
            screen(text.as_bytes(), CodePreset::Open, &[]).safe
        })
        .count();
    assert!(parsed > 280, "{parsed} of 300");
}
