//! Syntax of definitions in each language: the table that the definer reads.

use super::Language;

/// Syntax of functions without a keyword.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Functions {
    /// Always by a keyword.
    Keyword,
    /// `int name(int a)` at the margin, or `void name() {` in a container.
    CLike,
    /// `name(a) {` in a class; `name = function`.
    JsLike,
    /// `name() {`.
    ShellLike,
    /// `name ::` at the margin.
    Signature,
    /// `name <- function`.
    Arrow,
}

pub(super) struct Syntax {
    pub(super) keywords: &'static [&'static str],
    pub(super) modifiers: &'static [&'static str],
    pub(super) functions: Functions,
    /// Starts of lines that belong to the definition below.
    pub(super) leads: &'static [&'static str],
}

const SLASHES: &[&str] = &["//", "/*", "*", "@", "#[", "["];
const HASHES: &[&str] = &["#", "@"];

/// The table: keywords, modifiers, functions without a keyword, leads.
#[rustfmt::skip]
pub(super) fn syntax(language: Language) -> Syntax {
    use Functions::{Arrow, CLike, JsLike, Keyword, ShellLike, Signature};
    use Language as L;
    let (keywords, modifiers, functions, leads): (&[&str], &[&str], _, _) = match language {
        L::Rust => (&["fn", "struct", "enum", "trait", "mod", "type", "union", "macro_rules", "impl", "const", "static"], &["pub", "crate", "async", "unsafe", "extern", "default", "const"], Keyword, SLASHES),
        L::Python => (&["def", "class"], &["async", "cdef", "cpdef"], Keyword, HASHES),
        L::JavaScript | L::TypeScript => (&["function", "class", "interface", "enum", "type", "namespace", "module", "const", "let", "var"], &["export", "default", "declare", "async", "abstract", "public", "private", "protected", "static", "readonly", "override", "get", "set"], JsLike, SLASHES),
        L::Go => (&["func", "type", "var", "const"], &[], Keyword, &["//", "/*", "*"]),
        L::Java | L::Groovy => (&["class", "interface", "enum", "record", "def"], &["public", "private", "protected", "static", "final", "abstract", "sealed", "strictfp", "default", "synchronized", "native"], CLike, SLASHES),
        L::C => (&["struct", "union", "enum", "define"], &["typedef", "static", "extern", "const"], CLike, &["//", "/*", "*"]),
        L::Cpp | L::ObjectiveC => (&["class", "struct", "union", "enum", "namespace", "concept", "define", "using", "interface", "implementation", "protocol"], &["typedef", "static", "extern", "const", "inline", "constexpr", "export", "friend"], CLike, &["//", "/*", "*", "template", "requires", "[["]),
        L::CSharp => (&["class", "struct", "interface", "enum", "record", "namespace", "delegate"], &["public", "private", "protected", "internal", "static", "sealed", "abstract", "partial", "readonly", "ref", "unsafe", "file", "async", "override", "virtual", "new", "extern"], CLike, SLASHES),
        L::Kotlin => (&["fun", "class", "interface", "object", "typealias", "val", "var"], &["public", "private", "protected", "internal", "open", "abstract", "sealed", "data", "inline", "value", "enum", "annotation", "companion", "override", "suspend", "operator", "infix", "const", "lateinit", "expect", "actual", "tailrec", "external", "inner"], Keyword, SLASHES),
        L::Swift => (&["func", "class", "struct", "enum", "protocol", "extension", "actor", "typealias"], &["public", "private", "fileprivate", "internal", "open", "static", "final", "override", "mutating", "nonisolated", "indirect", "convenience", "class"], Keyword, SLASHES),
        L::Scala => (&["class", "object", "trait", "def", "type", "enum", "given", "val"], &["case", "abstract", "final", "sealed", "implicit", "private", "protected", "override", "lazy", "inline", "package", "opaque", "transparent", "open"], Keyword, SLASHES),
        L::Ruby => (&["class", "module", "def"], &["private", "protected", "public", "private_class_method"], Keyword, HASHES),
        L::Elixir => (&["defmodule", "def", "defp", "defmacro", "defmacrop", "defprotocol", "defimpl", "defguard", "defdelegate", "defexception"], &[], Keyword, HASHES),
        L::Php => (&["function", "class", "interface", "trait", "enum", "namespace"], &["public", "private", "protected", "static", "abstract", "final", "readonly"], Keyword, &["//", "/*", "*", "#"]),
        L::Shell => (&["function"], &[], ShellLike, &["#"]),
        L::Lua => (&["function"], &["local"], JsLike, &["--"]),
        L::Haskell => (&["data", "newtype", "class", "type", "module", "instance"], &["family"], Signature, &["--", "{-"]),
        L::OCaml => (&["let", "type", "module", "val", "class", "external", "and", "exception"], &["rec", "nonrec"], Keyword, &["(*", "[@"]),
        L::FSharp => (&["let", "type", "module", "member", "and", "namespace"], &["rec", "inline", "private", "static", "public", "internal", "override", "abstract"], Keyword, &["//", "[<", "(*"]),
        L::Zig => (&["fn", "const", "var", "test"], &["pub", "export", "extern", "inline", "threadlocal"], Keyword, &["//"]),
        L::Dart => (&["class", "enum", "mixin", "extension", "typedef"], &["abstract", "final", "base", "sealed", "interface", "static"], CLike, SLASHES),
        L::Nim => (&["proc", "func", "method", "template", "macro", "iterator", "type"], &[], Keyword, &["#"]),
        L::Clojure => (&["defn", "defmacro", "def", "defprotocol", "defrecord", "defmulti", "defmethod", "ns", "defun", "define", "deftype", "defvar", "defcustom"], &[], Keyword, &[";"]),
        L::Perl => (&["sub", "package"], &[], Keyword, &["#"]),
        L::R => (&[], &[], Arrow, &["#"]),
        L::Julia => (&["function", "struct", "macro", "module", "const"], &["mutable", "abstract", "type"], Keyword, &["#", "@", "\"\"\""]),
        L::Sql => (&["table", "view", "function", "procedure", "index", "trigger", "type"], &["create", "or", "replace", "unique", "temporary", "materialized"], Keyword, &["--"]),
        L::Proto => (&["message", "service", "enum", "rpc", "type", "input", "interface", "struct", "scalar", "query", "mutation", "union"], &["extend"], Keyword, &["//", "#", "\"\"\"", "*", "/*"]),
        L::Terraform => (&["resource", "data", "module", "variable", "output", "provider"], &[], Keyword, &["#", "//"]),
        L::Solidity => (&["contract", "interface", "library", "function", "struct", "enum", "event", "modifier", "error"], &["abstract"], Keyword, SLASHES),
        L::Erlang => (&[], &[], CLike, &["%", "-spec"]),
        L::Text | L::Markdown | L::Data | L::Markup => (&[], &[], Keyword, &[]),
    };
    Syntax { keywords, modifiers, functions, leads }
}

/// Words before `(` that are no function's name.
#[rustfmt::skip]
pub(super) const CONTROL: &[&str] = &[
    "if", "for", "while", "switch", "return", "catch", "else", "do", "case", "sizeof", "new", "throw", "typeof", "await", "super", "this", "assert", "match", "when", "with", "elif", "foreach", "using", "lock", "defined", "static_assert", "import", "require", "delete", "constructor", "synchronized", "try", "until", "unless", "yield", "and", "or", "not", "in",
];
