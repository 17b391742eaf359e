//! Sources made to break the reader: none of them may overflow a stack, hang, or cost more than a moment.

#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use ringfence_screen::{DEPTH_MAX, ScreenVerdict, screen};

/// The limit of the tighter presets.
const SOURCE_BYTES_MAX: usize = CodePreset::Standard.source_bytes_max();
use ringfence_spec::CodePreset;

/// A tenth of what Rust gives a thread: what does not fit must be seen not to fit.
const STACK_BYTES: usize = 200 << 10;

/// Far above what any of these takes (under 50 ms in a debug build on a busy machine), far below what a hang takes.
const MOMENT: Duration = Duration::from_secs(30);

fn on_a_small_stack(name: &str, source: String, preset: CodePreset) -> ScreenVerdict {
    let name = name.to_owned();
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let started = Instant::now();
    let verdict =
        thread.spawn(move || screen(source.as_bytes(), preset, &[])).unwrap().join().unwrap();
    assert!(started.elapsed() < MOMENT, "{name} took {:?}", started.elapsed());
    verdict
}

/// A piece repeated, between what makes it Python.
fn repeated(n: usize, (before, piece, after, closing): Shape) -> String {
    [before, &piece.repeat(n), after, &closing.repeat(n)].concat()
}

/// A piece repeated until the source is full.
fn filled(shape: Shape) -> String {
    let (before, piece, after, closing) = shape;
    let room = SOURCE_BYTES_MAX - before.len() - after.len();
    repeated(room / (piece.len() + closing.len()), shape)
}

/// What comes before, the piece that is repeated, what comes after, and what closes each piece.
type Shape = (&'static str, &'static str, &'static str, &'static str);

const SHAPES: &[(&str, Shape)] = &[
    ("minus", ("x = ", "-", "1", "")),
    ("tilde", ("x = ", "~", "1", "")),
    ("not", ("x = ", "not ", "1", "")),
    ("await", ("async def f():\n  x = ", "await ", "x", "")),
    ("open parentheses", ("", "(", "", "")),
    ("parentheses", ("x = ", "(", "1", ")")),
    ("open brackets", ("", "[", "", "")),
    ("brackets", ("x = ", "[", "1", "]")),
    ("braces", ("x = ", "{1:", "1", "}")),
    ("closing", ("", ")", "", "")),
    ("mixed brackets", ("", "([{", "", "")),
    ("calls", ("f", "()", "", "")),
    ("nested calls", ("x = ", "f(", "1", ")")),
    ("subscripts", ("x", "[0]", "", "")),
    ("attributes", ("a", ".b", "", "")),
    ("power", ("x = 1", "**1", "", "")),
    ("power of minus", ("x = 1", "**-1", "", "")),
    ("sum", ("x = 1", "+1", "", "")),
    ("and", ("x = 1", " and 1", "", "")),
    ("or and", ("x = 1", " or 1 and 1", "", "")),
    ("comparison", ("x = 1", "<1", "", "")),
    ("not in", ("x = 1", " not in 1", "", "")),
    ("ternary", ("x = ", "1 if 1 else ", "1", "")),
    ("ternary of ternaries", ("x = ", "(1 if ", "1", " else 1)")),
    ("lambda", ("x = ", "lambda:", "1", "")),
    ("lambda defaults", ("x = ", "lambda a=", "1", ":1")),
    ("lambda parameters", ("x = ", "lambda a,b=", "1", ":1")),
    ("walrus", ("x = ", "(y:=", "1", ")")),
    ("starred", ("x = ", "*", "y", "")),
    ("assignments", ("", "x=", "1", "")),
    ("annotated", ("x", ":x", "", "")),
    ("decorators", ("", "@d\n", "def f(): pass", "")),
    ("strings", ("x = ", "'a'", "", "")),
    ("f-strings", ("x = ", "f'{1}'", "", "")),
    ("nested f-strings", ("x = ", "f'{", "1", "}'")),
    ("nested f-string quotes", ("x = ", "f'{f\"{", "1", "}\"}'")),
    ("format specs", ("x = f'{1", ":{1", "", "}")),
    ("open f-strings", ("x = ", "f'{", "", "")),
    ("elif", ("if x: pass\n", "elif x: pass\n", "", "")),
    ("if on one line", ("", "if x: ", "pass", "")),
    ("while on one line", ("", "while x: ", "pass", "")),
    ("else if", ("", "if x:\n pass\nelse: ", "pass", "")),
    ("one space deeper", ("", "if x:\n", "pass", "")),
    ("try", ("", "try:\n", "pass", "")),
    ("classes", ("", "class A:", "pass", "")),
    ("comprehension", ("x = [1", " for x in x", "]", "")),
    ("nested comprehension", ("x = ", "[1 for x in ", "x", "]")),
    ("comprehension ifs", ("x = [1 for x in x", " if x", "]", "")),
    ("match", ("", "match x:\n case ", "", "")),
    ("soft keyword", ("", "match ", "x", "")),
    ("soft keyword brackets", ("match ", "(", "", ")")),
    ("patterns", ("match x:\n case ", "[", "1", "]: pass")),
    ("class patterns", ("match x:\n case ", "A(", "1", ")")),
    ("or patterns", ("match x:\n case 1", "|1", ": pass", "")),
    ("pattern as", ("match x:\n case ", "(", "1", " as x)")),
    ("with", ("with ", "(", "x", ")")),
    ("with items", ("with (x", ",x", "): pass", "")),
    ("with as", ("with ", "x as ", "y: pass", "")),
    ("type parameters", ("def f[", "T:", "int", "](): pass")),
    ("type aliases", ("type X = ", "x[", "1", "]")),
    ("slices", ("x[", ":", "]", "")),
    ("dots", ("from ", ".", " import x", "")),
    ("yield", ("def f(): ", "(yield ", "1", ")")),
    ("global", ("global x", ",x", "", "")),
    ("semicolons", ("", ";", "", "")),
    ("backslashes", ("x = \\\n", "\\\n", "1", "")),
    ("digits", ("x = ", "9", "", "")),
    ("underscores in digits", ("x = 1", "_1", "", "")),
    ("hexadecimal", ("x = 0x", "f", "", "")),
    ("float", ("x = 1.", "9", "", "")),
    ("exponent", ("x = 1e", "9", "", "")),
    ("escapes", ("x = '", "\\x41", "'", "")),
    ("named escapes", ("x = '", "\\N{BULLET}", "'", "")),
    ("bad escapes", ("x = '", "\\N{", "'", "")),
    ("open string", ("x = '''", "'", "", "")),
    ("carriage returns", ("", "\r", "", "")),
    ("form feeds", ("", "\u{c}", "", "")),
    ("tabs and spaces", ("if x:\n", "\t ", "pass", "")),
    ("commas", ("x = 1", ",", "", "")),
    ("names", ("", "a,", "", "")),
    ("blocked names", ("", "eval,", "", "")),
    ("blocked bindings", ("", "eval=1\n", "eval", "")),
    ("imports", ("", "import os\n", "", "")),
    ("import names", ("import a", ",a", "", "")),
    ("wide characters", ("x = '", "𝓮", "'", "")),
    ("wide names", ("", "𝓮", "", "")),
    ("print statements", ("", "print x\n", "", "")),
    ("question marks", ("", "?", "", "")),
    ("exclamation marks", ("", "!", "", "")),
    ("dollars", ("", "$", "", "")),
    ("at signs", ("", "@", "", "")),
    ("colons", ("", ":", "", "")),
    ("arrows", ("", "->", "", "")),
];

#[test]
fn no_shape_breaks_the_reader_on_a_small_stack() {
    for (name, shape) in SHAPES {
        for preset in [CodePreset::Open, CodePreset::Strict] {
            let source = filled(*shape);
            assert!(source.len() <= SOURCE_BYTES_MAX);
            on_a_small_stack(name, source, preset);
        }
    }
}

#[test]
fn no_shape_that_is_just_not_too_deep_breaks_it_either() {
    for (name, shape) in SHAPES {
        for n in [20, 33, 48, 98, 150, 240, 330, 490, 990] {
            on_a_small_stack(name, repeated(n, *shape), CodePreset::Strict);
        }
    }
}

#[test]
fn ever_deeper_blocks_do_not_break_it() {
    for clause in
        ["if x:", "while x:", "try:", "def f():", "class A:", "with x:", "match x:\n case x:"]
    {
        let mut source = String::new();
        for depth in 0.. {
            let line = format!("{}{clause}\n", " ".repeat(depth * 2));
            if source.len() + line.len() > SOURCE_BYTES_MAX {
                break;
            }
            source.push_str(&line);
        }
        let verdict = on_a_small_stack(clause, source, CodePreset::Open);
        assert!(!verdict.safe, "{clause}");
    }
}

#[test]
fn what_is_just_deep_enough_is_still_walked() {
    let n = DEPTH_MAX as usize - 3;
    let shapes = [
        format!("x = {}1", "-".repeat(n)),
        format!("x = 1{}", "+1".repeat(n)),
        format!("x = 1{}", "**1".repeat(n)),
        format!("x = {}1", "not ".repeat(n)),
        format!("x = a{}", ".b".repeat(n)),
        format!("x = a{}", "[0]".repeat(n / 2)),
        format!("x = a{}", "()".repeat(n / 2)),
        format!("x = {}1", "1 if 1 else ".repeat(n / 2)),
        format!("x = {}1{}", "(".repeat(99), ")".repeat(99)),
        format!("x = {}1{}", "[".repeat(99), "]".repeat(99)),
        format!("x = {}1{}", "f(".repeat(99), ")".repeat(99)),
        format!("x = {}1{}", "{1:".repeat(99), "}".repeat(99)),
        format!("x = {}1", "lambda:".repeat(99)),
        format!("x = {}x{}", "[1 for x in ".repeat(99), "]".repeat(99)),
    ];
    for source in shapes {
        let shown: String = source.chars().take(20).collect();
        let verdict = on_a_small_stack(&shown, source, CodePreset::Data);
        assert!(verdict.safe, "{shown}: {:?}", verdict.violations);
    }
}

#[test]
fn what_is_too_deep_says_where() {
    let verdict =
        screen(format!("x = 1\ny = {}1", "-".repeat(5000)).as_bytes(), CodePreset::Open, &[]);
    let v = &verdict.violations[0];
    assert_eq!((v.rule.as_str(), v.line), ("too_deep", 2));
    assert!((1000..1010).contains(&v.column), "{v:?}");
    let verdict = screen("(".repeat(5000).as_bytes(), CodePreset::Open, &[]);
    assert_eq!(
        (verdict.violations[0].rule.as_str(), verdict.violations[0].column),
        ("too_deep", 101)
    );
}

#[test]
fn size_and_encoding_have_their_own_rules() {
    let rule = |source: &[u8]| screen(source, CodePreset::Open, &[]).violations[0].clone();
    for (preset, most) in [
        (CodePreset::Strict, 50 << 10),
        (CodePreset::Standard, 50 << 10),
        (CodePreset::Data, 1 << 20),
        (CodePreset::Open, 1 << 20),
    ] {
        assert!(screen(&vec![b' '; most], preset, &[]).safe, "{preset}");
        let verdict = screen(&vec![b' '; most + 1], preset, &[]);
        assert_eq!(verdict.violations[0].rule.as_str(), "source_too_large", "{preset}");
    }
    let v = rule(b"x = 1\ny = '\xff'");
    assert_eq!(
        (v.rule.as_str(), v.line, v.column, v.subject.as_str()),
        ("source_not_utf8", 2, 6, "byte 0xff")
    );
    let v = rule(b"x = 1\n\0");
    assert_eq!((v.rule.as_str(), v.line, v.column), ("null_byte", 2, 1));
    let v = rule(b"x = (1\ny = 2");
    assert_eq!(v.rule.as_str(), "syntax_error");
}

#[test]
fn a_syntax_error_has_its_line_and_column() {
    let verdict = screen(b"x = 1\nif x\n    y = 2\n", CodePreset::Standard, &[]);
    let v = &verdict.violations[0];
    assert_eq!((v.rule.as_str(), v.line, v.column), ("syntax_error", 2, 5));
    assert!(v.subject.contains("':'") || v.subject.contains("`:`"), "{v:?}");
}
