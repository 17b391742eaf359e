"""Functions that few programs need: follows `program.py` in the same text, or is compiled by `lazy` there."""


def write_file(channel, opened, frame):
    """Writes a chunk to the open file, or opens the next one. Returns the file that is open then."""
    name, _, chunk = frame[1:].partition(b"\0")
    try:
        if opened is None or opened[0] != name:
            if opened:
                opened[1].close()
            path = os.fsdecode(name)
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            opened = name, open(path, "wb", buffering=0)
        opened[1].write(chunk)
        return opened
    except OSError as error:
        channel.send(b"E" + str(error).encode("utf-8", "replace"))
        leave(125)


def parted_as_tree(text, name):
    import _ast

    tree = compile(text, name, "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
    last = None
    if tree.body and isinstance(tree.body[-1], _ast.Expr):
        last = compile(_ast.Expression(tree.body.pop().value), name, "eval", dont_inherit=True)
    return compile(tree, name, "exec", dont_inherit=True), last


# Both mean that the run's files would take more than its disk limit.
EFBIG, ENOSPC = 27, 28


def describe(error, name):
    """Prints the traceback, without the guest's own frames, and returns a description of the exception."""
    vars(builtins).update(usual)
    kind = type(error)
    qualified = kind.__qualname__
    if kind.__module__ not in ("builtins", "__main__"):
        qualified = "%s.%s" % (kind.__module__, qualified)
    try:
        message = bounded(str(error), MESSAGE_CHARS_MAX)
    except BaseException:
        message = ""
    if isinstance(error, ModuleNotFoundError) and isinstance(error.name, str):
        deny("module_missing", error.name.partition(".")[0])
    elif isinstance(error, OSError) and error.errno in (EFBIG, ENOSPC):
        deny("disk_limit", error.filename if isinstance(error.filename, str) else "a write")
    elif kind is RuntimeError and message == "can't start new thread":
        deny("pids_limit", "a thread")
    line, trace = None, error.__traceback__
    trace = trace.tb_next if trace else None
    while trace:
        if trace.tb_frame.f_code.co_filename == name:
            line = trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename == name:
        line = error.lineno
    if type(line) is not int or not 0 < line < 1 << 31:
        line = None
    try:
        import linecache
        import traceback

        for source, text in sources.items():
            # As the interpreter reads a file: lines end at line feeds, the last one too.
            linecache.cache[source] = len(text), None, [line + "\n" for line in text.split("\n")], source
        first = error.__traceback__.tb_next if error.__traceback__ else None
        text = "".join(traceback.format_exception(kind, error, first))
        sys.stderr.write(bounded(text, 1 << 20))
    except BaseException:
        # No memory or no stack left to format it.
        try:
            os.write(2, qualified.encode() + b"\n")
        except OSError:
            pass
    return {"type": qualified, "message": message, "line": line}


def save_figures(pyplot):
    """Saves open figures that changed since they were drawn; the others are in a file already."""
    numbers = pyplot.get_fignums()
    current = pyplot.gcf().number if numbers else None
    for number in numbers:
        figure = pyplot.figure(number)
        if figure.stale:
            # In a session, earlier cells may have left pictures of the same number.
            while os.path.exists("figure-%d.png" % number):
                number += 1
            figure.savefig("figure-%d.png" % number)
    if numbers:
        # The next cell goes on with the figure that this one drew last.
        pyplot.figure(current)


writable, AF_UNIX = ("/workspace", "/tmp", "/dev/shm", "/dev/null"), 1


def tried(rule, args):
    """Records an attempt that the fence refuses."""
    if rule == "file":
        return tried_file(args[0], args[2])
    first = args[0] if args else ""
    if rule == "network":
        # socketpair() raises the same event and is allowed; a forbidden socket raises an error anyway.
        if not isinstance(first, str) and args[1:2] == (AF_UNIX,):
            return
        first = args[1] if len(args) > 1 and isinstance(args[1], (tuple, str)) else ""
    if isinstance(first, bytes):
        first = os.fsdecode(first)
    deny(rule, first if isinstance(first, str) else repr(first)[:200], is_own(rule))


def tried_file(path, flags):
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not isinstance(path, str):
        return
    full = os.path.normpath(os.path.join("/workspace", path))
    if full.startswith(writable):
        return
    # Printing a traceback searches for its source lines in every directory of modules.
    if os.path.basename(full) == NAME and os.path.dirname(full) in sys.path:
        return
    if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        deny("read_only", full, is_own("file"))
    elif not os.path.lexists(full):
        deny("not_visible", full, is_own("file"))


# Modules through which a program starts processes and opens files itself.
PASSING = (
    "asyncio", "codecs", "concurrent", "fileinput", "genericpath", "glob", "gzip", "io", "linecache", "multiprocessing",
    "os", "pathlib", "posixpath", "pty", "runpy", "shutil", "subprocess", "tempfile", "threading", "tokenize", "zipfile",
)


def is_own(rule):
    """True if the program itself tries something, and not a library of its own accord or while it is imported."""
    frame = sys._getframe(1)
    while frame:
        module = frame.f_globals.get("__name__")
        if module == "importlib._bootstrap":
            return False
        if module == "__main__":
            return True
        if rule != "network" and isinstance(module, str) and module.partition(".")[0] not in PASSING and module != "guest":
            # A module of the program's own is in its directory.
            where = frame.f_globals.get("__file__")
            return not isinstance(where, str) or where.startswith(writable)
        frame = frame.f_back
    return True


def deny(rule, subject, own=True):
    if (rule, subject) not in seen and len(denials) < DENIALS_MAX:
        seen.add((rule, subject))
        denials.append((rule, bounded(subject, 500), own))
