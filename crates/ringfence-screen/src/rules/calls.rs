//! Builtins that run code, read files or reflect (R1.2): their names and their harmless
//! forms. A blocked builtin may not even be mentioned, so an alias is refused where it is made.

use std::sync::LazyLock;

use ruff_python_ast::{Arguments, Expr, ExprCall};
use rustc_hash::FxHashMap;

/// A builtin with a rule.
#[derive(Debug)]
pub(crate) struct Builtin {
    name: &'static str,
    /// Its exception.
    pub(crate) unless: Unless,
    /// An alternative to suggest.
    pub(crate) hint: &'static str,
}

/// Exception to the rule about a builtin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unless {
    /// Never.
    Never,
    /// Called with the name of an attribute as a literal.
    LiteralName,
    /// Called with one argument, or named where only a type is meant.
    OneArgument,
}

macro_rules! builtins {
    ($($name:literal $unless:ident $hint:literal,)*) => {
        &[$(Builtin {
            name: $name,
            unless: Unless::$unless,
            hint: $hint,
        }),*]
    };
}

/// Sorted by name.
const BLOCKED: &[Builtin] = builtins! {
    "breakpoint" Never "print what you want to see",
    "compile" Never "write the code itself; for patterns use `re.compile`",
    "copyright" Never "give the variable another name",
    "credits" Never "give the variable another name",
    "delattr" LiteralName "write `del x.name`",
    "eval" Never "write the expression itself; to read data use `json.loads`",
    "exec" Never "write the statements themselves",
    "getattr" LiteralName "write the name as a literal, or look it up in a dict of your own",
    "globals" Never "keep values in a dict of your own",
    "help" Never "print the `__doc__` of what you want to read about",
    "input" Never "put the value into the program, or pass it on stdin to a run with files",
    "license" Never "give the variable another name",
    "locals" Never "keep values in a dict of your own",
    "open" Never "use `io.StringIO` for text in memory; the preset `data` has files",
    "setattr" LiteralName "write `x.name = value`, or keep values in a dict",
    "type" OneArgument "write `type(x)` with one argument, or a `class` statement",
    "vars" Never "name the attributes; a dataclass has `dataclasses.asdict(x)`",
};

/// The rule about a builtin, if there is one.
pub(crate) fn blocked(name: &str) -> Option<&'static Builtin> {
    static BY_NAME: LazyLock<FxHashMap<&str, &Builtin>> =
        LazyLock::new(|| BLOCKED.iter().map(|builtin| (builtin.name, builtin)).collect());
    BY_NAME.get(name).copied()
}

/// Returns true for builtins that read a value without exposing it: a module may be passed to them.
pub(crate) fn only_looks(name: &str) -> bool {
    matches!(name, "dir" | "hasattr" | "id" | "isinstance" | "print" | "repr" | "str")
}

/// Library functions that read attributes by name, and the condition for a harmless call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadsByName {
    /// `operator.attrgetter`: each argument is a literal.
    Each,
    /// `operator.methodcaller`: the first argument is a literal.
    First,
    /// `functools.wraps`: no list of names is given, so that it takes its own.
    None,
}

/// The condition for a function of this name, if it reads attributes by name.
pub(crate) fn reads_by_name(function: &str) -> Option<ReadsByName> {
    match function {
        "attrgetter" => Some(ReadsByName::Each),
        "methodcaller" => Some(ReadsByName::First),
        "wraps" => Some(ReadsByName::None),
        _ => None,
    }
}

/// The attribute named in a call of getattr, setattr or delattr, or of a method like `__setattr__`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AttributeName<'a> {
    /// A literal.
    Literal(&'a str),
    /// Anything that is known only when it runs.
    Computed,
}

/// The attribute that an argument names.
pub(crate) fn attribute_name(arguments: &Arguments, position: usize) -> AttributeName<'_> {
    let before = arguments.args.get(..=position);
    match before {
        Some(before) if !before.iter().any(Expr::is_starred_expr) => match &before[position] {
            Expr::StringLiteral(literal) => AttributeName::Literal(literal.value.to_str()),
            _ => AttributeName::Computed,
        },
        _ => AttributeName::Computed,
    }
}

/// `type(x)`: the class of a value, and no class of its own making.
pub(crate) fn has_one_argument(call: &ExprCall) -> bool {
    let arguments = &call.arguments;
    arguments.keywords.is_empty() && matches!(&*arguments.args, [one] if !one.is_starred_expr())
}

/// Builtin types of plain values, and `object` and `type`. Sorted.
pub(crate) const TYPES: &[&str] = &[
    "bool",
    "bytes",
    "complex",
    "dict",
    "float",
    "frozenset",
    "int",
    "list",
    "object",
    "set",
    "str",
    "tuple",
    "type",
];

/// `type(int)(…)`, `type(type(x))(…)`: calls `type` without naming it in front of the arguments.
pub(crate) fn calls_a_metaclass(callee: &Expr) -> bool {
    let Expr::Call(call) = callee else { return false };
    let of = |call: &ExprCall| matches!(&*call.func, Expr::Name(n) if n.id.as_str() == "type");
    of(call)
        && call.arguments.args.first().is_some_and(|argument| match argument {
            Expr::Name(name) => TYPES.contains(&name.id.as_str()),
            Expr::Call(inner) => of(inner),
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted() {
        assert!(BLOCKED.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
