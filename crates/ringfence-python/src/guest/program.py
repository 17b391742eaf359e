"""Runs inside the fence: one program, or each program of a worker.

It holds no policy. The host checks everything sent on descriptor 3 and trusts none of it. Arguments: this text, the
host's configuration as JSON, `api.py` and, unless it follows in the same text, `lazy.py`. `zygote.py`, if it follows,
makes workers; without it the program is the only one of this process.

Frames  host: F file · C code · J go, with code · B begin · A answer
        guest: R ready · E failed · G begun, after files · P progress · q part of a call · Q call · D done
"""
import _thread
import atexit
import builtins
import os
import sys
import time

NAME = "main.py"
WORKSPACE = "/workspace"
VALUE_CHARS_MAX = 32_768
MESSAGE_CHARS_MAX = 8_192
NOTE_CHARS_MAX = 200
DENIALS_MAX = 50
FRAME_BYTES_MAX = 1 << 18
REPORT_BYTES_MAX = 1 << 17
CALL_BYTES_MAX, CALL_PART_BYTES = 1 << 24, 1 << 16

# Saved now, because a program may replace them. The functions below look names up in this copy.
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
    """A function of `lazy.py`, compiled when first needed: compiling takes as long as a short program."""
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
            had_files = opened is not None
            if opened:
                opened[1].close()
                opened = None
            go(channel, namespace, frame, code, had_files)
            code = b""
        elif otherwise is None or not otherwise(frame, fds):
            leave(0)


def go(channel, namespace, frame, code, had_files, leave=leave, at_exit=atexit._run_exitfuncs):
    """Runs the program of a `J` frame, and reports its end."""
    flags, name, n_arguments, rest = frame[1:].split(b"\0", 3)
    *arguments, rest = rest.split(b"\0", int(n_arguments))
    name, value, keep = name.decode() or NAME, b"v" in flags, b"k" in flags
    program = compiled(code + rest, name, value)
    # The host records the start meanwhile.
    if b"w" in flags and channel.receive()[0] != b"B":
        leave(0)
    if had_files:
        # From here on the program runs, and may send any frame itself.
        channel.send(b"G")
    if b"m" in flags and WORKSPACE not in sys.path:
        # As `python` does. Compiled modules would be files that the program made.
        sys.path.insert(0, WORKSPACE)
        sys.dont_write_bytecode = True
    may_call[0] = True
    if not keep:
        sys.argv = [name] + [argument.decode() for argument in arguments]
        if name[:1] == "/":
            sys.path.insert(0, os.path.dirname(name))
        namespace["__file__"], namespace["__loader__"] = name, Loader(name)
    done = run(program, namespace, name, keep)
    if keep:
        save_open_figures()
        flush()
    elif not finish(at_exit) and not done["exit"]:
        # As the interpreter does if it cannot write its last output.
        done["exit"] = 120
    # The call of a thread that goes on is answered first: between two cells no other thread may read the channel.
    with calling:
        may_call[0] = False
    report(channel, done)
    if not keep:
        leave(done["exit"] & 0xFF)
    del denials[:]
    seen.clear()


def report(channel, done):
    try:
        channel.send(last_words(done))
    except OSError:
        # The program closed the channel; its exit code is the only report.
        pass


def last_words(done):
    done["cpu_s"] = time.process_time()
    done["rss_kb"] = peak_kb()
    # A library that tried something and went on without it did not need it.
    failed = done["exit"] or done["exception"]
    done["denials"] = [{"rule": rule, "subject": subject} for rule, subject, own in denials if own or failed]
    # Leave out fields until the report fits into one packet, the longest first.
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
    """Peak memory, unless the host measures it itself."""
    return 0


class Loader:
    """Where `traceback` and `inspect` find the source of the program."""

    def __init__(self, name):
        self.name = name

    def get_source(self, _):
        return sources.get(self.name)


def fresh_namespace():
    module = type(sys)("__main__")
    sys.modules["__main__"] = module
    module.__dict__["__builtins__"] = sys.modules["builtins"]
    return module.__dict__


def compiled(source, name, wants_value):
    """The compiled program, its last expression if wanted, and the error if it does not compile."""
    try:
        text = source.decode()
        # Strip the byte order mark. The codec that does so is one more module to load.
        text = text[1:] if text[:1] == "\ufeff" else text
        sources[name] = text
        if not wants_value:
            return compile(text, name, "exec", dont_inherit=True), None, None
        return *(parted(text, name) or lazy("parted_as_tree")(text, name)), None
    except BaseException as error:
        return None, None, error.with_traceback(None)


def parted(text, name):
    """The program and its last expression, if that is a line of its own. `None` for a program that is nothing else.

    If the text before an unindented line is a whole program, the line begins a statement. Compiling both parts shows
    it. Building a tree of objects takes longer than all the rest of a short run.
    """
    start = text.rfind("\n", 0, len(text.rstrip())) + 1
    if "\r" in text or text[start : start + 1] in "\t\f #)]}" or text[:start].endswith("\\\n"):
        return None
    try:
        if not start:
            return None, compile(text, name, "eval", dont_inherit=True)
        last = compile("\n" * text.count("\n", 0, start) + text[start:], name, "eval", dont_inherit=True)
        return compile(text[:start], name, "exec", dont_inherit=True), last
    except Exception:
        return None


def run(program, namespace, name, keep):
    """Runs a compiled program. Returns its end, for the host."""
    done = {"exit": 0, "value": None, "exception": None}
    main, last, error = program
    try:
        if error is not None:
            raise error
        if main is not None:
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
            # As the interpreter does with a number that is not a C int.
            code = int(error.code)
            done["exit"] = code & 0xFF if -(1 << 31) <= code < 1 << 31 else 255
        else:
            print(error.code, file=sys.stderr)
            done["exit"] = 1
    except BaseException as error:
        # An interpreter that is interrupted ends by the signal, which a shell reports as 130.
        done["exit"] = 130 if isinstance(error, KeyboardInterrupt) and not keep else 1
        # A minimal description, in case there is no memory for more.
        done["exception"] = {"type": type(error).__qualname__, "message": "", "line": None}
        try:
            done["exception"] = lazy("describe")(error, name)
        except BaseException:
            pass
    return done


def finish(at_exit):
    """Does the interpreter's work at exit: threads, exit handlers, open figures, buffers."""
    try:
        threading = sys.modules.get("threading")
        if threading and _thread._count():
            threading._shutdown()
        save_open_figures()
        at_exit()
    except BaseException as error:
        if not isinstance(error, SystemExit):
            lazy("describe")(error, NAME)
    return flush()


def save_open_figures():
    if "matplotlib.pyplot" in sys.modules:
        try:
            lazy("save_figures")(sys.modules["matplotlib.pyplot"])
        except BaseException as error:
            # A full or read-only directory, or a figure that cannot be drawn; the program's own result stands.
            lazy("describe")(error, NAME)


def flush():
    """Writes buffered output; returns False if some of it cannot be written."""
    written = True
    for stream in {sys.stdout, sys.stderr, *streams}:
        try:
            if stream and not stream.closed:
                stream.flush()
        except OSError as error:
            written = False
            try:
                os.write(2, ("cannot write all of the output: %s\n" % error).encode())
            except OSError:
                pass
        except BaseException:
            pass
    return written


def bounded(text, most):
    if len(text) <= most:
        return text
    return "%s… [%d characters dropped]" % (text[:most], len(text) - most)


def encode(value):
    """Encodes reports as JSON: texts, numbers, None, lists of them, dicts with plain words as keys."""
    if value is None:
        return "null"
    if isinstance(value, str):
        # Imported here: most reports contain no text, and loading the module takes a while.
        from _json import encode_basestring_ascii as quote

        # A lone surrogate is not valid UTF-8.
        return quote(value.encode("utf-8", "replace").decode())
    if isinstance(value, dict):
        return "{%s}" % ",".join(['"%s":%s' % (k, encode(v)) for k, v in value.items()])
    if isinstance(value, list):
        return "[%s]" % ",".join([encode(item) for item in value])
    return repr(value)


sources = {}
denials = []
seen = set()
# The audit events that are watched, and the rule reported for each.
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


def offer(send, call):
    """Adds a module `ringfence`, by which a program reports its progress to the caller, and `code_api`."""

    def progress(done, total=None, message=""):
        said = str(done) if total is None else "%s of %s" % (done, total)
        said = "%s: %s" % (said, message) if message else said
        send(b"P" + bounded(said, NOTE_CHARS_MAX).encode("utf-8", "replace"))

    module = type(sys)("ringfence", "What a program behind the fence can say to those outside.")
    module.progress = progress
    sys.modules["ringfence"] = module
    # The last to be asked: no other import takes longer for it.
    sys.meta_path.append(Api(call))


class Api:
    """Finds the module `code_api`, whose functions are calls to the host."""

    def __init__(self, call):
        self.call = call

    def find_spec(self, name, path=None, target=None):
        if name == "code_api":
            return type(sys.__spec__)(name, self, is_package=True)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module._call = self.call(module)
        exec(compile(api, "code_api", "exec"), module.__dict__)


# Held during a call to the host, and whether one may be made: only while a program runs.
calling, may_call = _thread.allocate_lock(), [False]


def calls_to(channel):
    """Makes the function by which `code_api` asks the host: one call at a time."""
    number = [0]

    def for_module(module):
        import json

        def call(service, arguments):
            body = json.dumps(arguments).encode()
            if len(body) > CALL_BYTES_MAX:
                raise ValueError("the arguments are %d bytes long, of %d at most" % (len(body), CALL_BYTES_MAX))
            with calling:
                if not may_call[0]:
                    raise module.CallError("the program that makes this call has ended", "ended")
                number[0] += 1
                *before, last = [body[at : at + CALL_PART_BYTES] for at in range(0, len(body), CALL_PART_BYTES)]
                for part in before:
                    channel.send(b"q" + part)
                channel.send(b"Q%d %s\n" % (number[0], service.encode()) + last)
                wanted = b"%d" % number[0]
                while True:
                    frame, fds = channel.receive()
                    head, _, answer = frame.partition(b"\n")
                    if not frame:
                        raise module.CallError("the host is gone")
                    if head[:1] == b"A" and head[1:].split(b" ")[0] == wanted:
                        break
                    for fd in fds:
                        os.close(fd)
                # The host takes a large result back when the next call begins.
                for fd in fds:
                    with open(fd, "rb") as large:
                        answer = large.read()
            answer = json.loads(answer)
            if head.endswith(b" ok"):
                return answer
            kind = module.BudgetExceeded if answer["code"] == "call_budget" else module.CallError
            raise kind(answer["message"], answer["code"])

        return call

    return for_module


def no_calls(module):
    def call(service, arguments):
        raise module.CallError("code_api answers in a session of a server or of `ringfence repl`, not here", "no_session")

    return call


def literal(text):
    """Parses the host's configuration, which is JSON: with three names defined, a Python expression."""
    return eval(text, {"__builtins__": {}, "true": True, "false": False, "null": None})


def alone():
    """Runs the only program of this process: the fence was built before the interpreter started."""
    for stream in streams:
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    namespace = fresh_namespace()
    sys.addaudithook(watch)
    # The caller of a one-shot program is notified only at its end, so progress is dropped.
    offer(bool, no_calls)
    channel = Channel()
    channel.send(b"R")
    serve(channel, namespace)


def find_packages():
    """Does the work of `site`, without executing code that packages ask it to."""
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


config, api, rest = literal(sys.argv[2]), sys.argv[3], sys.argv[4:]
sys.argv = [NAME]
find_packages()
usual.update(vars(builtins))
if "setup" not in config:
    if config["processes"]:
        watched = {event: rule for event, rule in watched.items() if rule != "child_process"}
    alone()
