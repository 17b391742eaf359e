//! Attributes that lead from a value to the interpreter behind it (R1.4). Dunder names are judged by an allowlist, so
//! that one added by a later Python is refused until it has been reviewed; the rest by a denylist of known names.

use super::{ATTRIBUTE_NOT_ALLOWED, EXCEPTION_OBJECT, PRIVATE_ATTRIBUTE, Rule};

/// The rule an attribute breaks, and the hint.
pub(crate) fn judge(attribute: &str) -> Option<(&'static Rule, String)> {
    if is_reflective(attribute) {
        return Some((&ATTRIBUTE_NOT_ALLOWED, hint(attribute)));
    }
    if attribute.starts_with('_') {
        let hint = "use a name without a leading underscore".to_owned();
        return Some((&PRIVATE_ATTRIBUTE, hint));
    }
    if attribute == EXCEPTIONS_OBJECT {
        let hint = "an AttributeError hands on by it what was hidden; give an attribute of your own another name";
        return Some((&EXCEPTION_OBJECT, hint.to_owned()));
    }
    None
}

/// Attribute of an `AttributeError` with the object that lacked the attribute, since Python 3.10: in
/// `"{0.__globals__.x}".format(f)` that is an object which no attribute may expose, and in `enum.nope` a module as a
/// value. The source does not show which object has the attribute, so reading it is refused on all; binding one of the
/// program's own is harmless. Its `name` is text.
pub(crate) const EXCEPTIONS_OBJECT: &str = "obj";

/// Returns true if an attribute exposes the implementation of a value instead of its content.
pub(crate) fn is_reflective(attribute: &str) -> bool {
    if is_dunder(attribute) {
        return !is_harmless_dunder(attribute);
    }
    // Most attributes of a program are not in the list, which their first letters show.
    let may_be = matches!(
        attribute.as_bytes(),
        [b'a', b'g', ..]
            | [b'c', b'o' | b'r', ..]
            | [b'e', b'n', ..]
            | [b'f', b'_' | b'u', ..]
            | [b'g', b'i', ..]
            | [b'i', b'm', ..]
            | [b'l', b'o', ..]
            | [b'm', b'r', ..]
            | [b't', b'b', ..]
            | [b'_', ..]
    );
    may_be && INTERPRETER.binary_search(&attribute).is_ok()
}

/// Returns true if a name has two underscores on either side and something between them.
pub(crate) fn is_dunder(name: &str) -> bool {
    name.len() > 4 && name.starts_with("__") && name.ends_with("__")
}

/// Returns true for protocol methods, and data that reveals nothing about the interpreter.
pub(crate) fn is_harmless_dunder(name: &str) -> bool {
    let inner = &name[2..name.len() - 2];
    PROTOCOL.binary_search(&inner).is_ok() || METADATA.binary_search(&inner).is_ok()
}

/// Methods that take the name of an attribute; they may be defined, and called with a literal.
pub(crate) fn is_attribute_protocol(name: &str) -> bool {
    matches!(name, "__getattr__" | "__getattribute__" | "__setattr__" | "__delattr__")
}

fn hint(attribute: &str) -> String {
    match attribute {
        "__class__" => "write `type(x)` to get the class of `x`".to_owned(),
        "__dict__" => "name the attributes; a dataclass has `dataclasses.asdict(x)`".to_owned(),
        "__annotations__" => "a dataclass has `dataclasses.fields(x)`".to_owned(),
        "__bases__" | "__base__" | "__mro__" | "mro" | "__subclasses__" => {
            "write `isinstance` or `issubclass` with the class you mean".to_owned()
        }
        "__traceback__" | "tb_frame" | "tb_lineno" | "tb_next" => {
            "print the exception itself: `print(repr(error))`".to_owned()
        }
        _ => "it shows how the interpreter works; use the value itself".to_owned(),
    }
}

/// Frames, code objects, generators, tracebacks, and a few that lead there. Sorted.
const INTERPRETER: &[&str] = &[
    "_Printer__data",
    "_Printer__dirs",
    "_Printer__filenames",
    "_Printer__files",
    "_Printer__name",
    "_current_exceptions",
    "_current_frames",
    "_getframe",
    "_getframemodulename",
    "ag_await",
    "ag_code",
    "ag_frame",
    "co_argcount",
    "co_cellvars",
    "co_code",
    "co_consts",
    "co_exceptiontable",
    "co_filename",
    "co_firstlineno",
    "co_flags",
    "co_freevars",
    "co_kwonlyargcount",
    "co_lines",
    "co_linetable",
    "co_lnotab",
    "co_name",
    "co_names",
    "co_nlocals",
    "co_positions",
    "co_posonlyargcount",
    "co_qualname",
    "co_stacksize",
    "co_varnames",
    "cr_await",
    "cr_code",
    "cr_frame",
    "cr_origin",
    "enable_load_extension",
    "f_back",
    "f_builtins",
    "f_code",
    "f_generator",
    "f_globals",
    "f_lasti",
    "f_lineno",
    "f_locals",
    "f_trace",
    "f_trace_lines",
    "f_trace_opcodes",
    "func_closure",
    "func_code",
    "func_defaults",
    "func_dict",
    "func_globals",
    "gi_code",
    "gi_frame",
    "gi_yieldfrom",
    "im_class",
    "im_func",
    "im_self",
    "load_extension",
    "mro",
    "tb_frame",
    "tb_lasti",
    "tb_lineno",
    "tb_next",
];

/// Special methods that ordinary classes have, without their underscores. Sorted.
const PROTOCOL: &[&str] = &[
    "abs",
    "add",
    "aenter",
    "aexit",
    "aiter",
    "and",
    "anext",
    "array",
    "array_function",
    "array_priority",
    "array_ufunc",
    "array_wrap",
    "await",
    "bool",
    "bytes",
    "call",
    "ceil",
    "complex",
    "contains",
    "copy",
    "deepcopy",
    "del",
    "delitem",
    "dir",
    "divmod",
    "enter",
    "eq",
    "exit",
    "float",
    "floor",
    "floordiv",
    "format",
    "fspath",
    "ge",
    "getitem",
    "gt",
    "hash",
    "iadd",
    "iand",
    "ifloordiv",
    "ilshift",
    "imatmul",
    "imod",
    "imul",
    "index",
    "init",
    "int",
    "invert",
    "ior",
    "ipow",
    "irshift",
    "isub",
    "iter",
    "itruediv",
    "ixor",
    "le",
    "len",
    "length_hint",
    "lshift",
    "lt",
    "matmul",
    "missing",
    "mod",
    "mul",
    "ne",
    "neg",
    "new",
    "next",
    "or",
    "pos",
    "post_init",
    "pow",
    "radd",
    "rand",
    "rdivmod",
    "repr",
    "reversed",
    "rfloordiv",
    "rlshift",
    "rmatmul",
    "rmod",
    "rmul",
    "ror",
    "round",
    "rpow",
    "rrshift",
    "rshift",
    "rsub",
    "rtruediv",
    "rxor",
    "setitem",
    "sizeof",
    "str",
    "sub",
    "truediv",
    "trunc",
    "xor",
];

/// Data about a module, a class or an exception that is plain text or plain values. Sorted.
const METADATA: &[&str] = &[
    "all",
    "author",
    "cause",
    "context",
    "copyright",
    "credits",
    "date",
    "debug",
    "doc",
    "email",
    "file",
    "isabstractmethod",
    "license",
    "maintainer",
    "members",
    "name",
    "notes",
    "qualname",
    "slots",
    "status",
    "stderr",
    "stdin",
    "stdout",
    "suppress_context",
    "title",
    "total",
    "url",
    "version",
    "version_info",
    "wrapped",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_and_without_doubles() {
        for list in [INTERPRETER, PROTOCOL, METADATA] {
            assert!(list.windows(2).all(|pair| pair[0] < pair[1]), "{list:?}");
        }
        assert!(INTERPRETER.iter().all(|name| is_reflective(name)));
    }

    #[test]
    fn every_reflective_name_of_the_requirement_is_known() {
        for name in [
            "__class__",
            "__base__",
            "__bases__",
            "__mro__",
            "__subclasses__",
            "__globals__",
            "__code__",
            "__closure__",
            "__dict__",
            "__builtins__",
            "__loader__",
            "__reduce__",
            "__reduce_ex__",
            "__self__",
            "__func__",
            "__spec__",
            "__import__",
            "__traceback__",
            "__getattribute__",
            "gi_frame",
            "tb_frame",
            "f_back",
            "cr_frame",
            "ag_frame",
        ] {
            assert!(is_reflective(name), "{name}");
        }
        for name in
            ["__init__", "__name__", "__doc__", "__eq__", "__enter__", "_private", "x", "__x"]
        {
            assert!(!is_reflective(name), "{name}");
        }
    }
}
