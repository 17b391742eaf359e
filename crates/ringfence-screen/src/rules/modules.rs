//! The modules that each preset may import (R1.3), and their members. A module of the standard library exposes its own
//! imports (`enum.sys`, `random._os`); those are not its members here.

use std::sync::LazyLock;

use ringfence_spec::CodePreset;
use rustc_hash::FxHashMap;

/// A module that some preset may import.
#[derive(Debug)]
pub(crate) struct Module {
    /// Its dotted name.
    pub(crate) name: &'static str,
    /// The tightest preset that may import it.
    pub(crate) from: CodePreset,
    /// Members that may be used below [`Module::whole_from`]; empty means all but [`Module::never`].
    only: &'static [&'static str],
    /// The tightest preset for which `only` does not hold.
    whole_from: CodePreset,
    /// Members that no preset but `open` may use.
    never: &'static [&'static str],
    /// True if `from x import *` brings its own functions and nothing else.
    pub(crate) star: bool,
    /// True if modules below it are on the list by themselves.
    pub(crate) parent: bool,
    /// Its origin.
    pub(crate) kind: Kind,
}

/// Origin of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The standard library, or the guest's own: its names are known.
    Standard,
    /// A package of libraries: its members are not known here, and it may be passed on as a value.
    Package,
}

const fn module(name: &'static str, from: CodePreset) -> Module {
    Module {
        name,
        from,
        only: &[],
        whole_from: CodePreset::Strict,
        never: &[],
        star: false,
        parent: false,
        kind: Kind::Standard,
    }
}

const fn standard(name: &'static str) -> Module {
    module(name, CodePreset::Standard)
}

const fn data(name: &'static str) -> Module {
    module(name, CodePreset::Data)
}

const fn package(name: &'static str) -> Module {
    Module { kind: Kind::Package, ..module(name, CodePreset::Data) }
}

impl Module {
    const fn star(self) -> Self {
        Self { star: true, ..self }
    }

    const fn parent(self) -> Self {
        Self { parent: true, ..self }
    }

    const fn never(self, never: &'static [&'static str]) -> Self {
        Self { never, ..self }
    }

    const fn only(self, only: &'static [&'static str], whole_from: CodePreset) -> Self {
        Self { only, whole_from, ..self }
    }

    /// Returns true if a member is the module's own and may be used.
    pub(crate) fn has(&self, member: &str, preset: CodePreset) -> bool {
        if self.never.contains(&member) {
            return false;
        }
        self.only.is_empty() || preset >= self.whole_from || self.only.contains(&member)
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
    pub(crate) fn few(&self, preset: CodePreset) -> Option<&'static [&'static str]> {
        (!self.only.is_empty() && preset < self.whole_from && self.only.len() <= 3)
            .then_some(self.only)
    }
}

/// Members that are named like a module but are not one.
const OWN_NAMES: &[(&str, &str)] =
    &[("datetime", "time"), ("shutil", "copy"), ("xml.etree.ElementTree", "ElementTree")];

/// Every module on a list. Sorted by name.
pub(crate) const MODULES: &[Module] = &[
    package("PIL"),
    standard("__future__"),
    standard("abc").never(&["ABCMeta"]),
    package("altair"),
    data("argparse"),
    standard("array"),
    data("asyncio").never(ASYNCIO_INNER).parent(),
    data("asyncio.coroutines"),
    data("asyncio.events"),
    data("asyncio.exceptions"),
    data("asyncio.futures"),
    data("asyncio.locks"),
    data("asyncio.queues"),
    data("asyncio.runners"),
    data("asyncio.streams"),
    data("asyncio.taskgroups"),
    data("asyncio.tasks"),
    data("asyncio.threads"),
    data("asyncio.timeouts"),
    data("atexit").only(&["register", "unregister"], CodePreset::Open),
    standard("base64").never(&["main"]),
    standard("binascii"),
    standard("bisect").star(),
    package("bs4"),
    data("bz2"),
    standard("calendar").never(&["main"]),
    standard("cmath").star(),
    standard("code_api").only(&["filtering", "reranking", "search"], CodePreset::Open).parent(),
    standard("code_api.filtering"),
    standard("code_api.reranking"),
    standard("code_api.search"),
    data("codecs"),
    standard("collections").star().parent(),
    standard("collections.abc").star().never(&["FunctionType"]),
    data("colorsys"),
    data("concurrent").only(&["futures"], CodePreset::Open).parent(),
    // Code runs have no child processes.
    data("concurrent.futures").never(&["ProcessPoolExecutor", "process", "thread"]),
    data("configparser"),
    standard("contextlib"),
    data("contextvars"),
    standard("copy"),
    standard("csv"),
    package("cv2"),
    package("cycler"),
    // Makes a class from values, like `type` with three arguments.
    standard("dataclasses").never(&["FunctionType", "make_dataclass"]),
    standard("datetime").star(),
    package("dateutil"),
    standard("decimal").star(),
    standard("difflib"),
    // `global_enum` writes into any module.
    standard("enum").never(&["EnumMeta", "EnumType", "bltns", "global_enum"]),
    data("errno"),
    data("filecmp"),
    data("fnmatch"),
    standard("fractions").star(),
    // `singledispatch` evaluates annotations that are text, as `typing.get_type_hints` does; `update_wrapper` reads any
    // attribute, and so does `wraps`, which is judged by its arguments.
    standard("functools").never(&["singledispatch", "singledispatchmethod", "update_wrapper"]),
    data("glob"),
    data("graphlib"),
    data("gzip"),
    standard("hashlib"),
    standard("heapq").star(),
    data("hmac"),
    data("html").parent(),
    data("html.entities"),
    data("html.parser"),
    package("imageio"),
    standard("io").only(&["BytesIO", "StringIO"], CodePreset::Data),
    data("ipaddress"),
    standard("itertools").star(),
    standard("json").never(&["tool"]).parent(),
    standard("json.decoder"),
    standard("json.encoder"),
    standard("json.scanner"),
    data("keyword"),
    data("locale"),
    // `logging.config` calls any object that a dict names.
    data("logging").never(&["config"]).parent(),
    data("logging.handlers"),
    package("lxml"),
    data("lzma"),
    standard("math").star(),
    package("matplotlib"),
    data("mimetypes"),
    package("mpl_toolkits"),
    package("mpmath"),
    package("networkx"),
    standard("numbers"),
    package("numpy").star(),
    package("openpyxl"),
    // attrgetter and methodcaller are judged by the names they are called with.
    data("operator"),
    data("os").only(OS, CodePreset::Open).parent(),
    data("os.path"),
    package("pandas"),
    data("pathlib"),
    package("patsy"),
    data("platform"),
    package("plotly"),
    package("polars"),
    data("posixpath"),
    standard("pprint"),
    package("pyarrow"),
    package("pylab").star(),
    package("pytz"),
    data("queue"),
    data("quopri"),
    standard("random").star(),
    standard("re"),
    package("regex"),
    standard("ringfence").only(&["progress"], CodePreset::Open),
    data("sched"),
    package("scipy"),
    package("seaborn"),
    data("secrets"),
    package("shapely"),
    data("shlex"),
    // Copies, moves and removes files, which `open` and `pathlib` can do as well.
    data("shutil"),
    package("skimage"),
    package("sklearn"),
    data("sqlite3").never(&["dbapi2", "dump", "test"]),
    data("stat"),
    standard("statistics").star(),
    package("statsmodels"),
    // `Formatter().get_field("0.__class__", …)` reads any attribute.
    standard("string").never(&["Formatter", "templatelib"]),
    data("stringprep"),
    standard("struct"),
    package("sympy").star(),
    data("sys").only(SYS, CodePreset::Open),
    package("tabulate"),
    data("tarfile"),
    data("tempfile"),
    standard("textwrap"),
    data("threading").never(&[
        "setprofile",
        "setprofile_all_threads",
        "settrace",
        "settrace_all_threads",
    ]),
    standard("time"),
    data("timeit").only(&["default_timer"], CodePreset::Open),
    data("tomllib"),
    package("tqdm"),
    data("traceback").never(&["walk_stack", "walk_tb"]),
    data("types").only(TYPES, CodePreset::Open),
    standard("typing").never(&[
        "ForwardRef",
        "evaluate_forward_ref",
        "get_type_hints",
        "stdlib_re",
    ]),
    package("tzdata"),
    standard("unicodedata"),
    data("urllib").only(&["parse"], CodePreset::Open).parent(),
    data("urllib.parse"),
    standard("uuid").never(&["main"]),
    data("warnings"),
    data("wave"),
    data("weakref"),
    package("xarray"),
    package("xlrd"),
    package("xlsxwriter"),
    data("xml").never(&["parsers"]).parent(),
    data("xml.dom").only(&["minidom"], CodePreset::Open).parent(),
    data("xml.dom.minidom").never(&["domreg"]),
    data("xml.etree").only(&["ElementTree"], CodePreset::Open).parent(),
    data("xml.etree.ElementTree").never(&["ElementPath"]),
    data("xml.sax").never(&["expatreader"]).parent(),
    data("xml.sax.handler"),
    data("xml.sax.saxutils"),
    data("xml.sax.xmlreader"),
    data("zipfile"),
    data("zlib"),
    standard("zoneinfo"),
];

/// Parts of `asyncio` that start processes or show the event loop from inside.
const ASYNCIO_INNER: &[&str] = &[
    "SubprocessProtocol",
    "SubprocessTransport",
    "base_events",
    "base_futures",
    "base_subprocess",
    "base_tasks",
    "constants",
    "create_subprocess_exec",
    "create_subprocess_shell",
    "format_helpers",
    "log",
    "mixins",
    "proactor_events",
    "protocols",
    "selector_events",
    "sslproto",
    "staggered",
    "subprocess",
    "transports",
    "trsock",
    "unix_events",
    "windows_events",
    "windows_utils",
];

/// Members of `os` besides `os.path`: files and directories, which `open` and `pathlib` reach as well, and constants.
const OS: &[&str] = &[
    "DirEntry",
    "F_OK",
    "PathLike",
    "R_OK",
    "SEEK_CUR",
    "SEEK_END",
    "SEEK_SET",
    "W_OK",
    "X_OK",
    "access",
    "altsep",
    "chdir",
    "chmod",
    "close",
    "cpu_count",
    "curdir",
    "devnull",
    "environ",
    "error",
    "extsep",
    "fdopen",
    "fsdecode",
    "fsencode",
    "fspath",
    "fstat",
    "fsync",
    "get_terminal_size",
    "getcwd",
    "getenv",
    "getpid",
    "getuid",
    "linesep",
    "link",
    "listdir",
    "lstat",
    "makedirs",
    "mkdir",
    "name",
    "pardir",
    "path",
    "pathsep",
    "process_cpu_count",
    "read",
    "readlink",
    "remove",
    "removedirs",
    "rename",
    "renames",
    "replace",
    "rmdir",
    "scandir",
    "sep",
    "stat",
    "stat_result",
    "symlink",
    "truncate",
    "unlink",
    "urandom",
    "utime",
    "walk",
    "write",
];

/// Members of `sys`: streams, arguments and facts. Not `modules`, hooks, frames, traces or loaders of code.
const SYS: &[&str] = &[
    "__stderr__",
    "__stdin__",
    "__stdout__",
    "api_version",
    "argv",
    "base_prefix",
    "builtin_module_names",
    "byteorder",
    "copyright",
    "dont_write_bytecode",
    "exc_info",
    "exception",
    "executable",
    "exit",
    "flags",
    "float_info",
    "float_repr_style",
    "get_int_max_str_digits",
    "getdefaultencoding",
    "getfilesystemencoding",
    "getrecursionlimit",
    "getrefcount",
    "getsizeof",
    "getswitchinterval",
    "hash_info",
    "hexversion",
    "implementation",
    "int_info",
    "intern",
    "is_finalizing",
    "maxsize",
    "maxunicode",
    "orig_argv",
    "path",
    "platform",
    "prefix",
    "ps1",
    "set_int_max_str_digits",
    "setrecursionlimit",
    "setswitchinterval",
    "stderr",
    "stdin",
    "stdlib_module_names",
    "stdout",
    "thread_info",
    "version",
    "version_info",
    "warnoptions",
];

/// Members of `types`: containers and the types of plain values. Not the makers of code, functions, classes or modules.
const TYPES: &[&str] = &[
    "DynamicClassAttribute",
    "EllipsisType",
    "GenericAlias",
    "GetSetDescriptorType",
    "MappingProxyType",
    "NoneType",
    "NotImplementedType",
    "SimpleNamespace",
    "UnionType",
];

/// The modules a preset may import, by their dotted names. `open` has no list and `strict` an empty one.
pub fn importable(preset: CodePreset) -> impl Iterator<Item = &'static str> {
    let listed = (CodePreset::Standard..=CodePreset::Data).contains(&preset);
    MODULES.iter().filter(move |module| listed && module.from <= preset).map(|module| module.name)
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
    let allowed = |name: &str| listed(name).filter(|module| module.from <= preset);
    // A library's submodules are as its package; of the standard library each is listed by itself.
    let top = path.split_once('.').map_or(path, |(top, _)| top);
    allowed(path)
        .or_else(|| allowed(top).filter(|module| module.kind == Kind::Package))
        .map_or(Known::No, Known::Listed)
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
        for list in [REACHES_OUT, STANDARD_LIBRARY, OS, SYS, TYPES] {
            assert!(list.windows(2).all(|pair| pair[0] < pair[1]), "{list:?}");
        }
        assert!(MODULES.windows(2).all(|pair| pair[0].name < pair[1].name));
        for module in MODULES.iter().filter(|module| module.kind == Kind::Standard) {
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
        let data = "os.path pathlib io sys tempfile sqlite3 asyncio threading concurrent.futures logging \
            argparse zipfile gzip numpy pandas";
        for name in data.split_whitespace() {
            assert!(matches!(find(name, CodePreset::Data, &[]), Known::Listed(_)), "{name}");
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
