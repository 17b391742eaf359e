//! The strict preset (R1.5): a whitelist of syntax and of builtins. To widen either, write down why in
//! docs/screening.md.

use ruff_python_ast::{Expr, Stmt};

/// The builtins of the strict preset. Sorted.
pub const BUILTINS: [&str; 36] = [
    "abs",
    "all",
    "any",
    "bin",
    "bool",
    "chr",
    "dict",
    "dir",
    "divmod",
    "enumerate",
    "filter",
    "float",
    "frozenset",
    "hasattr",
    "hex",
    "int",
    "isinstance",
    "iter",
    "len",
    "list",
    "map",
    "max",
    "min",
    "next",
    "ord",
    "print",
    "range",
    "repr",
    "reversed",
    "round",
    "set",
    "sorted",
    "str",
    "sum",
    "tuple",
    "zip",
];

/// Names that Python finds without an import and that are not in [`BUILTINS`]; a name in neither list is a variable of
/// the session. Of Python 3.9 to 3.14, without dunder names, which have a rule of their own. Sorted.
const OTHER_BUILTINS: &[&str] = &[
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "BaseException",
    "BaseExceptionGroup",
    "BlockingIOError",
    "BrokenPipeError",
    "BufferError",
    "BytesWarning",
    "ChildProcessError",
    "ConnectionAbortedError",
    "ConnectionError",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "DeprecationWarning",
    "EOFError",
    "Ellipsis",
    "EncodingWarning",
    "EnvironmentError",
    "Exception",
    "ExceptionGroup",
    "FileExistsError",
    "FileNotFoundError",
    "FloatingPointError",
    "FutureWarning",
    "GeneratorExit",
    "IOError",
    "ImportError",
    "ImportWarning",
    "IndentationError",
    "IndexError",
    "InterruptedError",
    "IsADirectoryError",
    "KeyError",
    "KeyboardInterrupt",
    "LookupError",
    "MemoryError",
    "ModuleNotFoundError",
    "NameError",
    "NotADirectoryError",
    "NotImplemented",
    "NotImplementedError",
    "OSError",
    "OverflowError",
    "PendingDeprecationWarning",
    "PermissionError",
    "ProcessLookupError",
    "PythonFinalizationError",
    "RecursionError",
    "ReferenceError",
    "ResourceWarning",
    "RuntimeError",
    "RuntimeWarning",
    "StopAsyncIteration",
    "StopIteration",
    "SyntaxError",
    "SyntaxWarning",
    "SystemError",
    "SystemExit",
    "TabError",
    "TimeoutError",
    "TypeError",
    "UnboundLocalError",
    "UnicodeDecodeError",
    "UnicodeEncodeError",
    "UnicodeError",
    "UnicodeTranslateError",
    "UnicodeWarning",
    "UserWarning",
    "ValueError",
    "Warning",
    "ZeroDivisionError",
    "aiter",
    "anext",
    "ascii",
    "breakpoint",
    "bytearray",
    "bytes",
    "callable",
    "classmethod",
    "compile",
    "complex",
    "copyright",
    "credits",
    "delattr",
    "eval",
    "exec",
    "exit",
    "format",
    "getattr",
    "globals",
    "hash",
    "help",
    "id",
    "input",
    "issubclass",
    "license",
    "locals",
    "memoryview",
    "object",
    "oct",
    "open",
    "pow",
    "property",
    "quit",
    "setattr",
    "slice",
    "staticmethod",
    "super",
    "type",
    "vars",
];

/// Returns true for a builtin outside the 36.
pub(crate) fn is_other_builtin(name: &str) -> bool {
    OTHER_BUILTINS.binary_search(&name).is_ok()
}

/// Name of a statement that is not whitelisted.
pub(crate) fn refused_statement(statement: &Stmt) -> Option<&'static str> {
    Some(match statement {
        Stmt::Expr(_)
        | Stmt::Assign(_)
        | Stmt::AugAssign(_)
        | Stmt::AnnAssign(_)
        | Stmt::Delete(_)
        | Stmt::If(_)
        | Stmt::While(_)
        | Stmt::Assert(_)
        | Stmt::Pass(_)
        | Stmt::Break(_)
        | Stmt::Continue(_) => return None,
        Stmt::For(s) if !s.is_async => return None,
        Stmt::For(_) => "async for",
        Stmt::FunctionDef(s) if s.is_async => "async def",
        Stmt::FunctionDef(_) => "def",
        Stmt::ClassDef(_) => "class",
        Stmt::Return(_) => "return",
        Stmt::TypeAlias(_) => "type",
        Stmt::With(_) => "with",
        Stmt::Match(_) => "match",
        Stmt::Raise(_) => "raise",
        Stmt::Try(_) => "try",
        Stmt::Import(_) | Stmt::ImportFrom(_) => "import",
        Stmt::Global(_) => "global",
        Stmt::Nonlocal(_) => "nonlocal",
        Stmt::IpyEscapeCommand(_) => "escape command",
    })
}

/// Name of an expression that is not whitelisted.
pub(crate) fn refused_expression(expression: &Expr) -> Option<&'static str> {
    Some(match expression {
        Expr::BoolOp(_)
        | Expr::Named(_)
        | Expr::BinOp(_)
        | Expr::UnaryOp(_)
        | Expr::Lambda(_)
        | Expr::If(_)
        | Expr::Dict(_)
        | Expr::Set(_)
        | Expr::Compare(_)
        | Expr::Call(_)
        | Expr::FString(_)
        | Expr::StringLiteral(_)
        | Expr::BytesLiteral(_)
        | Expr::NumberLiteral(_)
        | Expr::BooleanLiteral(_)
        | Expr::NoneLiteral(_)
        | Expr::EllipsisLiteral(_)
        | Expr::Attribute(_)
        | Expr::Subscript(_)
        | Expr::Starred(_)
        | Expr::Name(_)
        | Expr::List(_)
        | Expr::Tuple(_)
        | Expr::Slice(_) => return None,
        Expr::ListComp(e) if e.generators.iter().all(|g| !g.is_async) => return None,
        Expr::SetComp(e) if e.generators.iter().all(|g| !g.is_async) => return None,
        Expr::DictComp(e) if e.generators.iter().all(|g| !g.is_async) => return None,
        Expr::Generator(e) if e.generators.iter().all(|g| !g.is_async) => return None,
        Expr::ListComp(_) | Expr::SetComp(_) | Expr::DictComp(_) | Expr::Generator(_) => {
            "async for"
        }
        Expr::Await(_) => "await",
        Expr::Yield(_) | Expr::YieldFrom(_) => "yield",
        Expr::TString(_) => "t-string",
        Expr::IpyEscapeCommand(_) => "escape command",
    })
}

/// An alternative to refused syntax.
pub(crate) fn hint(construct: &str) -> &'static str {
    match construct {
        "def" | "async def" | "return" => "write a lambda, or the steps themselves",
        "import" => "this preset has no modules; use its 36 builtins",
        "class" => "use dicts, tuples and lists",
        "with" | "try" | "raise" => "test with `if` before the step that can fail",
        "match" => "write `if` and `elif`",
        _ => "write it with expressions, `if`, `for` and `while`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_and_apart() {
        assert!(BUILTINS.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(OTHER_BUILTINS.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(BUILTINS.iter().all(|name| !is_other_builtin(name)));
    }
}
