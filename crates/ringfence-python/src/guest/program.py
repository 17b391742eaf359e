"""Runs inside the fence: one program, or each program of a worker.

It holds no policy. What it says on descriptor 3 the host checks and does not believe. Arguments: this text, the host's
configuration as JSON and, where it does not follow in the same text, `lazy.py`. `zygote.py`, when it follows, makes workers;
without it the program is the process's only one.

Frames on the channel   host: F file · C code · J go, with code · B begin      here: R ready · E failed · G begun · P progress · D done
"""
import _thread
import atexit
import builtins
import os
import sys
import time

NAME = "main.py"
VALUE_CHARS_MAX = 32_768
MESSAGE_CHARS_MAX = 8_192
NOTE_CHARS_MAX = 200
DENIALS_MAX = 50
FRAME_BYTES_MAX = 1 << 18
REPORT_BYTES_MAX = 1 << 17

# Taken now: a program may put something else in their place. What is defined below looks names up in the copy.
leave, fork, usual = os._exit, os.fork, dict(vars(builtins))
__builtins__ = usual
streams = sys.stdout, sys.stderr


class Channel:
    """Descriptor 3: a frame is a packet."""

    def send(self, frame, write=os.write):
        write(3, frame)

    def receive(self, read=os.read):
        return read(3, FRAME_BYTES_MAX), ()


def lazy(name):
    """A function of `lazy.py`, which is compiled when the first of them is needed: it takes as long as a short program."""
    if name not in globals():
        exec(compile(rest[0], "guest", "exec"), globals())
    return globals()[name]


def serve(channel, namespace, otherwise=None):
    code, opened = b"", None
    while True:
        frame, fds = channel.receive()
        kind = frame[:1]
        if kind == b"C":
            code += frame[1:]
        elif kind == b"F":
            opened = lazy("write_file")(channel, opened, frame)
        elif kind == b"J":
            if opened:
                opened[1].close()
                opened = None
            go(channel, namespace, frame, code)
            code = b""
        elif otherwise is None or not otherwise(frame, fds):
            leave(0)


def go(channel, namespace, frame, code, leave=leave, at_exit=atexit._run_exitfuncs):
    """Runs what an order to go asks for, and says how it ended."""
    flags, name, n_arguments, rest = frame[1:].split(b"\0", 3)
    *arguments, rest = rest.split(b"\0", int(n_arguments))
    name, value, keep = name.decode() or NAME, b"v" in flags, b"k" in flags
    program = compiled(code + rest, name, value)
    # Whoever writes down that it begins does so meanwhile.
    if b"w" in flags and channel.receive()[0] != b"B":
        leave(0)
    # From here on the program runs; whatever is said next may be said by it.
    channel.send(b"G")
    if not keep:
        sys.argv = [NAME] + [argument.decode() for argument in arguments]
    done = run(program, namespace, name, keep)
    if keep:
        flush()
    else:
        finish(at_exit)
    report(channel, done)
    if not keep:
        leave(done["exit"] & 0xFF)
    del denials[:]
    seen.clear()


def report(channel, done):
    try:
        channel.send(last_words(done))
    except OSError:
        # The program closed the channel; its exit code is all there is to say.
        pass


def last_words(done):
    done["cpu_s"] = time.process_time()
    done["rss_kb"] = peak_kb()
    done["denials"] = denials[:]
    # What does not fit into one packet is left out, the longest first.
    for spare in (None, "denials", "value", "exception"):
        if spare:
            done[spare] = [] if spare == "denials" else None
        try:
            frame = b"D" + encode(done).encode()
            if len(frame) <= REPORT_BYTES_MAX:
                return frame
        except Exception:
            pass
    return b"D" + encode({"exit": done["exit"], "value": None, "exception": None}).encode()


def peak_kb():
    """The most memory there was, where the host does not count it itself."""
    return 0


def fresh_namespace():
    module = type(sys)("__main__")
    sys.modules["__main__"] = module
    module.__dict__["__builtins__"] = sys.modules["builtins"]
    return module.__dict__


def compiled(source, name, wants_value):
    """The program, what its last expression is if that is wanted, and why it is none."""
    try:
        text = source.decode()
        # A byte order mark. The codec that leaves it out is one more module to load.
        text = text[1:] if text[:1] == "\ufeff" else text
        sources[name] = text
        if not wants_value:
            return compile(text, name, "exec", dont_inherit=True), None, None
        return *(parted(text, name) or lazy("parted_as_tree")(text, name)), None
    except BaseException as error:
        return None, None, error.with_traceback(None)


def parted(text, name):
    """The program and its last expression, where that is a line of its own.

    If what is before a line that begins at its margin is a whole program, the line begins a statement. That is seen by compiling
    both. A tree of objects takes longer than all the rest of a short run.
    """
    start = text.rfind("\n", 0, len(text.rstrip())) + 1
    if "\r" in text or text[start : start + 1] in "\t\f #)]}" or text[:start].endswith("\\\n"):
        return None
    try:
        last = compile("\n" * text.count("\n", 0, start) + text[start:], name, "eval", dont_inherit=True)
        return compile(text[:start], name, "exec", dont_inherit=True), last
    except Exception:
        return None


def run(program, namespace, name, keep):
    """Runs what was compiled. Returns how it ended, for the host."""
    done = {"exit": 0, "value": None, "exception": None}
    main, last, error = program
    try:
        if error is not None:
            raise error
        exec(main, namespace)
        if last is not None:
            value = eval(last, namespace)
            if value is not None:
                if keep:
                    namespace["_"] = value
                done["value"] = bounded(repr(value), VALUE_CHARS_MAX)
    except SystemExit as error:
        if error.code is None:
            done["exit"] = 0
        elif isinstance(error.code, int):
            # As the interpreter does with what is no C int.
            code = int(error.code)
            done["exit"] = code & 0xFF if -(1 << 31) <= code < 1 << 31 else 255
        else:
            print(error.code, file=sys.stderr)
            done["exit"] = 1
    except BaseException as error:
        done["exit"] = 1
        # As much as can be said even where there is no memory to say it in.
        done["exception"] = {"type": type(error).__qualname__, "message": "", "line": None}
        try:
            done["exception"] = lazy("describe")(error, name)
        except BaseException:
            pass
    return done


def finish(at_exit):
    """What an interpreter does at its end: threads, exit handlers, open figures, buffers."""
    try:
        threading = sys.modules.get("threading")
        if threading and _thread._count():
            threading._shutdown()
        if "matplotlib.pyplot" in sys.modules:
            lazy("save_figures")(sys.modules["matplotlib.pyplot"])
        at_exit()
    except BaseException as error:
        if not isinstance(error, SystemExit):
            lazy("describe")(error, NAME)
    flush()


def flush():
    for stream in {sys.stdout, sys.stderr, *streams}:
        try:
            stream.flush()
        except BaseException:
            pass


def bounded(text, most):
    if len(text) <= most:
        return text
    return "%s… [%d characters dropped]" % (text[:most], len(text) - most)


def encode(value):
    """JSON of what is said here: texts, numbers, None, lists of them, dicts whose keys are plain words."""
    if value is None:
        return "null"
    if isinstance(value, str):
        # Most say no text at all, and loading it takes a while.
        from _json import encode_basestring_ascii as quote

        # A lone surrogate is no text to anybody else.
        return quote(value.encode("utf-8", "replace").decode())
    if isinstance(value, dict):
        return "{%s}" % ",".join(['"%s":%s' % (k, encode(v)) for k, v in value.items()])
    if isinstance(value, list):
        return "[%s]" % ",".join([encode(item) for item in value])
    return repr(value)


sources = {}
denials = []
seen = set()
# What is looked at of all that the interpreter says it does, and what is told of it.
watched = {"open": "file"}
for event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty"):
    watched[event] = "child_process"
for event in ("socket.__new__", "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto"):
    watched[event] = "network"


def watch(event, args):
    if event in watched:
        try:
            lazy("tried")(watched[event], args)
        except Exception:
            pass


def offer(send):
    """A module `ringfence`, by which a program tells whoever waits for it how far it is."""

    def progress(done, total=None, message=""):
        said = str(done) if total is None else "%s of %s" % (done, total)
        said = "%s: %s" % (said, message) if message else said
        send(b"P" + bounded(said, NOTE_CHARS_MAX).encode("utf-8", "replace"))

    module = type(sys)("ringfence", "What a program behind the fence can say to those outside.")
    module.progress = progress
    sys.modules["ringfence"] = module


def literal(text):
    """What the host says, which is JSON: with three names defined, a Python expression."""
    return eval(text, {"__builtins__": {}, "true": True, "false": False, "null": None})


def alone():
    """The only program of this process: the fence stood before the interpreter did."""
    for stream in streams:
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    namespace = fresh_namespace()
    sys.addaudithook(watch)
    # Whoever waits for one program alone hears of it when it has ended.
    offer(bool)
    channel = Channel()
    channel.send(b"R")
    serve(channel, namespace)


def find_packages():
    """What `site` does for a program, without executing what packages ask it to."""
    import _sitebuiltins

    sys.path.extend(config["packages"])
    if config["environment"]:
        sys.prefix = sys.exec_prefix = config["environment"]
    at_end = "Ctrl-D (i.e. EOF)"
    builtins.quit, builtins.exit = (_sitebuiltins.Quitter(name, at_end) for name in ("quit", "exit"))
    builtins.help = _sitebuiltins._Helper()
    builtins.copyright = _sitebuiltins._Printer("copyright", sys.copyright)
    builtins.credits = _sitebuiltins._Printer("credits", "See www.python.org for more information.")
    builtins.license = _sitebuiltins._Printer("license", "See https://www.python.org/psf/license/")


config, rest = literal(sys.argv[2]), sys.argv[3:]
sys.argv = [NAME]
find_packages()
usual.update(vars(builtins))
if "setup" not in config:
    alone()
