//! The modules that `standard` may import (R1.3), and their members. A module of the standard library exposes its own
//! imports (`enum.sys`, `random._os`); those are not its members here.

use std::sync::LazyLock;

use ringfence_spec::CodePreset;
use rustc_hash::FxHashMap;

/// A module on the list.
#[derive(Debug)]
pub(crate) struct Module {
    /// Its dotted name.
    pub(crate) name: &'static str,
    /// Members that may be used; empty means all but [`Module::never`].
    only: &'static [&'static str],
    /// Members that may not.
    never: &'static [&'static str],
    /// True if `from x import *` brings its own functions and nothing else.
    pub(crate) star: bool,
    /// True if modules below it are on the list by themselves.
    pub(crate) parent: bool,
    /// True if it can be called and handed on: it has nothing but what it lists.
    pub(crate) callable: bool,
}

const fn module(name: &'static str) -> Module {
    Module { name, only: &[], never: &[], star: false, parent: false, callable: false }
}

impl Module {
    const fn star(self) -> Self {
        Self { star: true, ..self }
    }

    const fn parent(self) -> Self {
        Self { parent: true, ..self }
    }

    const fn callable(self) -> Self {
        Self { callable: true, ..self }
    }

    const fn never(self, never: &'static [&'static str]) -> Self {
        Self { never, ..self }
    }

    const fn only(self, only: &'static [&'static str]) -> Self {
        Self { only, ..self }
    }

    /// Returns true if a member is the module's own and may be used.
    pub(crate) fn has(&self, member: &str) -> bool {
        !self.never.contains(&member) && (self.only.is_empty() || self.only.contains(&member))
    }

    /// The package it is in, where that is on a list.
    fn package(&self) -> Option<&'static Module> {
        self.name.rsplit_once('.').and_then(|(package, _)| listed(package))
    }

    /// Returns true if a member is a module beside it in its package that no preset may use.
    pub(crate) fn has_inner_beside(&self, member: &str) -> bool {
        self.package().is_some_and(|package| package.never.contains(&member))
    }

    /// The module on a list that is beside it in its package: `json.decoder` shows `scanner`.
    pub(crate) fn beside(&self, member: &str) -> Option<&'static Module> {
        self.package().and_then(|package| listed(&format!("{}.{member}", package.name)))
    }

    /// Returns true if a member named like a module of the library is the module's own: `time.time`, `sys.platform`.
    pub(crate) fn owns(&self, member: &str) -> bool {
        self.name == member
            || self.only.contains(&member)
            || OWN_NAMES.contains(&(self.name, member))
    }

    /// The members that may be used, if they are few enough to list.
    pub(crate) fn few(&self) -> Option<&'static [&'static str]> {
        (!self.only.is_empty() && self.only.len() <= 3).then_some(self.only)
    }
}

/// Members that are named like a module but are not one.
const OWN_NAMES: &[(&str, &str)] = &[("datetime", "time")];

/// Every module on a list. Sorted by name.
pub(crate) const MODULES: &[Module] = &[
    module("__future__"),
    module("abc").never(&["ABCMeta"]),
    module("array"),
    module("base64").never(&["main"]),
    module("binascii"),
    module("bisect").star(),
    module("calendar").never(&["main"]),
    module("cmath").star(),
    module("code_api")
        .only(&[
            "BudgetExceeded",
            "CallError",
            "Chunk",
            "File",
            "Hit",
            "Match",
            "chunks",
            "files",
            "filtering",
            "grep",
            "read",
            "reranking",
            "search",
            "wrap",
        ])
        .parent(),
    module("code_api.filtering").only(&[
        "by_language",
        "by_path",
        "by_score",
        "by_text",
        "unique",
        "without_tests",
    ]),
    module("code_api.grep").only(&["Match", "grep"]).callable(),
    module("code_api.reranking").only(&["bm25", "mmr", "recency", "vectors"]),
    module("code_api.search").only(&["Hit", "search"]).callable(),
    module("collections").star().parent(),
    module("collections.abc").star().never(&["FunctionType"]),
    module("contextlib"),
    module("copy"),
    module("csv"),
    // Makes a class from values, like `type` with three arguments.
    module("dataclasses").never(&["FunctionType", "make_dataclass"]),
    module("datetime").star(),
    module("decimal").star(),
    module("difflib"),
    // `global_enum` writes into any module.
    module("enum").never(&["EnumMeta", "EnumType", "bltns", "global_enum"]),
    module("fractions").star(),
    // `singledispatch` evaluates annotations that are text, as `typing.get_type_hints` does; `update_wrapper` reads any
    // attribute, and so does `wraps`, which is judged by its arguments.
    module("functools").never(&["singledispatch", "singledispatchmethod", "update_wrapper"]),
    module("hashlib"),
    module("heapq").star(),
    module("io").only(&["BytesIO", "StringIO"]),
    module("itertools").star(),
    module("json").never(&["tool"]).parent(),
    module("json.decoder"),
    module("json.encoder"),
    module("json.scanner"),
    module("math").star(),
    module("numbers"),
    module("pprint"),
    module("random").star(),
    module("re"),
    module("ringfence").only(&["progress"]),
    module("statistics").star(),
    // `Formatter().get_field("0.__class__", …)` reads any attribute.
    module("string").never(&["Formatter", "templatelib"]),
    module("struct"),
    module("textwrap"),
    module("time"),
    module("typing").never(&["ForwardRef", "evaluate_forward_ref", "get_type_hints", "stdlib_re"]),
    module("unicodedata"),
    module("uuid").never(&["main"]),
    module("zoneinfo"),
];

/// The modules that `standard` may import, by their dotted names.
pub fn importable() -> impl Iterator<Item = &'static str> {
    MODULES.iter().map(|module| module.name)
}

/// Status of a dotted name in the lists.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Known {
    /// It, or a package it is in, is on the preset's list.
    Listed(&'static Module),
    /// The operator named it, or a package it is in.
    Extra,
    /// It is on no list.
    No,
}

/// Looks a dotted module name up.
pub(crate) fn find(path: &str, preset: CodePreset, extra: &[String]) -> Known {
    let names = |named: &str| {
        path.strip_prefix(named).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if extra.iter().any(|module| names(module)) {
        return Known::Extra;
    }
    match listed(path).filter(|_| preset >= CodePreset::Standard) {
        Some(module) => Known::Listed(module),
        None => Known::No,
    }
}

/// The module on a list by this very name, whichever preset may import it.
pub(crate) fn listed(name: &str) -> Option<&'static Module> {
    // Called for every name before a dot, so a linear search would be noticeable.
    static BY_NAME: LazyLock<FxHashMap<&str, &Module>> =
        LazyLock::new(|| MODULES.iter().map(|module| (module.name, module)).collect());
    BY_NAME.get(name).copied()
}

/// Returns true for a module of the standard library, which other modules expose as a member after importing it.
pub(crate) fn is_standard_library(name: &str) -> bool {
    STANDARD_LIBRARY.binary_search(&name).is_ok()
}

/// Returns true if a member of an unknown object is a module that leads out, and not a usual name of a library's part:
/// `np.os`, but not `scipy.signal`.
pub(crate) fn leads_out(member: &str) -> bool {
    matches!(
        member,
        "bltns"
            | "builtins"
            | "ctypes"
            | "importlib"
            | "inspect"
            | "marshal"
            | "multiprocessing"
            | "os"
            | "posix"
            | "pty"
            | "runpy"
            | "shutil"
            | "socket"
            | "subprocess"
            | "sys"
    )
}

/// Returns true if a module reaches out of the program by itself: importing it is riskier than importing a parser.
pub(crate) fn reaches_out(name: &str) -> bool {
    REACHES_OUT.binary_search(&name).is_ok()
}

const REACHES_OUT: &[&str] = &[
    "__main__",
    "_ctypes",
    "_posixsubprocess",
    "_thread",
    "bltns",
    "builtins",
    "cffi",
    "code",
    "codeop",
    "ctypes",
    "dill",
    "dis",
    "faulthandler",
    "fcntl",
    "ftplib",
    "gc",
    "http",
    "httpx",
    "imp",
    "importlib",
    "inspect",
    "marshal",
    "mmap",
    "multiprocessing",
    "nt",
    "os",
    "pickle",
    "pickletools",
    "pip",
    "pkgutil",
    "posix",
    "psutil",
    "pty",
    "pwd",
    "pydoc",
    "requests",
    "resource",
    "runpy",
    "shutil",
    "signal",
    "site",
    "smtplib",
    "socket",
    "socketserver",
    "ssl",
    "subprocess",
    "sys",
    "telnetlib",
    "urllib",
    "zipimport",
];

/// Top-level names of the standard library of Python 3.9 to 3.14 that begin with a letter. Sorted.
const STANDARD_LIBRARY: &[&str] = &[
    "abc",
    "aifc",
    "annotationlib",
    "antigravity",
    "argparse",
    "array",
    "ast",
    "asynchat",
    "asyncio",
    "asyncore",
    "atexit",
    "audioop",
    "base64",
    "bdb",
    "binascii",
    "binhex",
    "bisect",
    "builtins",
    "bz2",
    "cProfile",
    "calendar",
    "cgi",
    "cgitb",
    "chunk",
    "cmath",
    "cmd",
    "code",
    "codecs",
    "codeop",
    "collections",
    "colorsys",
    "compileall",
    "compression",
    "concurrent",
    "configparser",
    "contextlib",
    "contextvars",
    "copy",
    "copyreg",
    "crypt",
    "csv",
    "ctypes",
    "curses",
    "dataclasses",
    "datetime",
    "dbm",
    "decimal",
    "difflib",
    "dis",
    "distutils",
    "doctest",
    "email",
    "encodings",
    "ensurepip",
    "enum",
    "errno",
    "faulthandler",
    "fcntl",
    "filecmp",
    "fileinput",
    "fnmatch",
    "formatter",
    "fractions",
    "ftplib",
    "functools",
    "gc",
    "genericpath",
    "getopt",
    "getpass",
    "gettext",
    "glob",
    "graphlib",
    "grp",
    "gzip",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "http",
    "idlelib",
    "imaplib",
    "imghdr",
    "imp",
    "importlib",
    "inspect",
    "io",
    "ipaddress",
    "itertools",
    "json",
    "keyword",
    "lib2to3",
    "linecache",
    "locale",
    "logging",
    "lzma",
    "mailbox",
    "mailcap",
    "marshal",
    "math",
    "mimetypes",
    "mmap",
    "modulefinder",
    "msilib",
    "msvcrt",
    "multiprocessing",
    "netrc",
    "nis",
    "nntplib",
    "nt",
    "ntpath",
    "nturl2path",
    "numbers",
    "opcode",
    "operator",
    "optparse",
    "os",
    "ossaudiodev",
    "parser",
    "pathlib",
    "pdb",
    "pickle",
    "pickletools",
    "pipes",
    "pkgutil",
    "platform",
    "plistlib",
    "poplib",
    "posix",
    "posixpath",
    "pprint",
    "profile",
    "pstats",
    "pty",
    "pwd",
    "py_compile",
    "pyclbr",
    "pydoc",
    "pydoc_data",
    "pyexpat",
    "queue",
    "quopri",
    "random",
    "re",
    "readline",
    "reprlib",
    "resource",
    "rlcompleter",
    "runpy",
    "sched",
    "secrets",
    "select",
    "selectors",
    "shelve",
    "shlex",
    "shutil",
    "signal",
    "site",
    "smtpd",
    "smtplib",
    "sndhdr",
    "socket",
    "socketserver",
    "spwd",
    "sqlite3",
    "sre_compile",
    "sre_constants",
    "sre_parse",
    "ssl",
    "stat",
    "statistics",
    "string",
    "stringprep",
    "struct",
    "subprocess",
    "sunau",
    "symbol",
    "symtable",
    "sys",
    "sysconfig",
    "syslog",
    "tabnanny",
    "tarfile",
    "telnetlib",
    "tempfile",
    "termios",
    "textwrap",
    "this",
    "threading",
    "time",
    "timeit",
    "tkinter",
    "token",
    "tokenize",
    "tomllib",
    "trace",
    "traceback",
    "tracemalloc",
    "tty",
    "turtle",
    "turtledemo",
    "types",
    "typing",
    "unicodedata",
    "unittest",
    "urllib",
    "uu",
    "uuid",
    "venv",
    "warnings",
    "wave",
    "weakref",
    "webbrowser",
    "winreg",
    "winsound",
    "wsgiref",
    "xdrlib",
    "xml",
    "xmlrpc",
    "zipapp",
    "zipfile",
    "zipimport",
    "zlib",
    "zoneinfo",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted() {
        for list in [REACHES_OUT, STANDARD_LIBRARY] {
            assert!(list.windows(2).all(|pair| pair[0] < pair[1]), "{list:?}");
        }
        assert!(MODULES.windows(2).all(|pair| pair[0].name < pair[1].name));
        for module in MODULES {
            let below = format!("{}.", module.name);
            assert_eq!(
                module.parent,
                MODULES.iter().any(|m| m.name.starts_with(&below)),
                "{below}"
            );
        }
    }

    #[test]
    fn the_requirement_lists_are_all_there() {
        let standard = "json math datetime itertools functools collections re typing dataclasses enum \
            statistics random string textwrap time calendar zoneinfo csv decimal fractions numbers \
            cmath heapq bisect array struct copy pprint uuid hashlib base64 binascii unicodedata \
            difflib abc contextlib __future__ io code_api.search code_api.reranking code_api.filtering";
        for name in standard.split_whitespace() {
            assert!(matches!(find(name, CodePreset::Standard, &[]), Known::Listed(_)), "{name}");
        }
        for name in ["os", "sys", "subprocess", "numpy", "importlib", "jsonx", "json.evil"] {
            assert!(matches!(find(name, CodePreset::Standard, &[]), Known::No), "{name}");
        }
    }

    #[test]
    fn an_extra_module_brings_its_submodules_and_no_namesake() {
        let extra = ["yaml".to_owned()];
        assert!(matches!(find("yaml.nodes", CodePreset::Standard, &extra), Known::Extra));
        assert!(matches!(find("yamlx", CodePreset::Standard, &extra), Known::No));
    }
}
