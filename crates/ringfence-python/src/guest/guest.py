"""Runs inside the fence: first as the zygote, then, forked from it, as each worker.

It holds no policy. What a worker does to itself is a list of system calls that the host laid out; what it says on
descriptor 3 the host checks and does not believe. Arguments: this text, and the host's configuration as JSON.

Frames on the zygote's channel   host: S spawn (4 descriptors) · W<pid> wait      zygote: Z ready · P<pid> · X<pid> <status>
Frames on a worker's channel     host: F file · C code · J go · K fork             worker: W workspace · R ready · D done · E failed
"""
import sys

NAME = "main.py"
VALUE_CHARS_MAX = 32_768
MESSAGE_CHARS_MAX = 8_192
DENIALS_MAX = 50
FRAME_BYTES_MAX = 1 << 18
REPORT_BYTES_MAX = 1 << 17


def main(config):
    # The small C modules behind the usual ones: a program that is started alone would pay more for the imports of
    # `json`, `socket` and `traceback` than for itself. Those are loaded when there is a use for them.
    import _signal, _socket, atexit, binascii, builtins, ctypes, gc, os, resource, struct, time  # noqa: E401
    from _json import encode_basestring_ascii as quote

    # Taken now: a program may put something else in their place.
    leave, fork, usual = os._exit, os.fork, dict(vars(builtins))
    streams = sys.stdout, sys.stderr
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    libc.syscall.argtypes = None

    class CallFailed(Exception):
        pass

    def prepare(calls):
        """Lays the arguments out in memory once, before the fork."""
        prepared = []
        for call in calls:
            args, patches = [ctypes.c_long(call["nr"])], []
            for spec in call["args"]:
                if isinstance(spec, int):
                    args.append(ctypes.c_ulong(spec))
                elif "bytes" in spec:
                    data = binascii.a2b_base64(spec["bytes"])
                    buffer = ctypes.create_string_buffer(data, len(data))
                    if "points_to" in spec:
                        target = binascii.a2b_base64(spec["points_to"])
                        target = ctypes.create_string_buffer(target, len(target))
                        buffer.target = target
                        struct.pack_into("@P", buffer, spec["at"], ctypes.addressof(target))
                    elif "result" in spec:
                        patches.append((buffer, spec["at"], spec["result"]))
                    args.append(buffer)
                else:
                    patches.append((None, len(args), spec["result"]))
                    args.append(ctypes.c_long(0))
            prepared.append((call["name"], args, patches, call["may_fail"]))
        return prepared

    def make(prepared, results):
        """Makes the calls, in order."""
        syscall = libc.syscall
        for name, args, patches, may_fail in prepared:
            for buffer, at, result in patches:
                if buffer is None:
                    args[at].value = results[result]
                else:
                    struct.pack_into("@i", buffer, at, results[result])
            value = syscall(*args)
            if value < 0 and not may_fail:
                raise CallFailed("%s: %s" % (name, os.strerror(ctypes.get_errno())))
            results.append(value)

    def open_channel():
        return _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, 3)

    def send(channel, frame, fds=()):
        if fds:
            rights = struct.pack("%di" % len(fds), *fds)
            channel.sendmsg([frame], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
        else:
            channel.send(frame)

    def receive(channel, n_fds):
        frame, ancillary, _, _ = channel.recvmsg(FRAME_BYTES_MAX, _socket.CMSG_SPACE(4 * n_fds))
        fds = []
        for level, kind, data in ancillary:
            if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
                fds.extend(struct.unpack("%di" % (len(data) // 4), data))
        return frame, fds

    def encode(value):
        """JSON of what is said below: texts, numbers, None, lists and dicts of them."""
        if value is None:
            return "null"
        if isinstance(value, str):
            # A lone surrogate is no text to anybody else.
            return quote(value.encode("utf-8", "replace").decode())
        if isinstance(value, dict):
            return "{%s}" % ",".join(["%s:%s" % (quote(k), encode(v)) for k, v in value.items()])
        if isinstance(value, list):
            return "[%s]" % ",".join([encode(item) for item in value])
        return repr(value)

    # ------------------------------------------------------------------------------------------------ the zygote

    def zygote():
        channel = open_channel()
        plan = prepare(config["setup"]), prepare(config["seal"])
        missing = []
        for name in config["preload"]:
            try:
                __import__(name)
            except Exception:
                missing.append(name)
        for stream in streams:
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
        own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        unshare, setns = config["unshare_and_setns"]
        new_pids = 0x20000000
        ended = {}
        # For one program alone, tidying up would take longer than it saves.
        if config["preload"]:
            gc.collect()
            gc.freeze()
        send(channel, b"Z" + encode({"missing": missing}).encode())
        while True:
            frame, fds = receive(channel, 4)
            if not frame:
                leave(0)
            while True:
                try:
                    pid, status, used = os.wait4(-1, os.WNOHANG)
                except ChildProcessError:
                    break
                if pid == 0:
                    break
                ended[pid] = status, used
                if len(ended) > 256:
                    del ended[next(iter(ended))]
            if frame[:1] == b"S" and len(fds) == 4:
                if libc.syscall(unshare, new_pids) < 0:
                    send(channel, b"N" + os.strerror(ctypes.get_errno()).encode())
                    continue
                try:
                    pid = fork()
                except OSError as error:
                    pid = -1
                    reason = str(error)
                if pid == 0:
                    try:
                        worker(fds, plan)
                    finally:
                        leave(125)
                libc.syscall(setns, own_pids, new_pids)
                for fd in fds:
                    os.close(fd)
                if pid < 0:
                    send(channel, b"N" + reason.encode())
                    continue
                pidfd = os.pidfd_open(pid)
                send(channel, b"P%d" % pid, [pidfd])
                os.close(pidfd)
            elif frame[:1] == b"W":
                pid = int(frame[1:])
                try:
                    status, used = ended.pop(pid, None) or os.wait4(pid, 0)[1:]
                except ChildProcessError:
                    send(channel, b"N no such worker")
                    continue
                cpu_ms = (used.ru_utime + used.ru_stime) * 1000
                send(channel, b"X%d %d %d %d" % (pid, status, cpu_ms, used.ru_maxrss))

    # ------------------------------------------------------------------------------------------------ a worker

    def worker(fds, plan):
        for number, fd in enumerate(fds):
            os.dup2(fd, number, inheritable=False)
        channel = open_channel()
        try:
            setup, seal = plan
            results = []
            make(setup, results)
            send(channel, b"W", [results[call] for call in config["given_calls"]])
            make(seal, results)
            if config["listener"]:
                send(channel, b"L", [results[-1]])
                os.close(results[-1])
        except (CallFailed, OSError) as error:
            send(channel, b"E" + str(error).encode("utf-8", "replace"))
            return
        if "numpy" in sys.modules and "numpy.random" in sys.modules:
            sys.modules["numpy.random"].seed()
        namespace = fresh_namespace()
        if config["preload"]:
            # Touches what a run will touch, so that the run need not.
            encode(run(b"import sys\nx = [0]\nprint(end='')\n", {"__builtins__": namespace["__builtins__"]}, {}))
        if config["listener"]:
            _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)
        sys.addaudithook(watch)
        send(channel, b"R")
        serve(channel, namespace)

    def serve(channel, namespace):
        code, opened = [], None
        while True:
            frame, fds = receive(channel, 1)
            kind = frame[:1]
            if kind == b"C":
                code.append(frame[1:])
            elif kind == b"F":
                name, _, chunk = frame[1:].partition(b"\0")
                try:
                    if opened is None or opened[0] != name:
                        if opened:
                            opened[1].close()
                        path = os.fsdecode(name)
                        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
                        opened = name, open(path, "wb", buffering=0)
                    opened[1].write(chunk)
                except OSError as error:
                    send(channel, b"E" + str(error).encode("utf-8", "replace"))
                    leave(125)
            elif kind == b"K" and len(fds) == 1:
                flush()
                try:
                    pid = fork()
                except OSError as error:
                    os.close(fds[0])
                    send(channel, b"N" + str(error).encode())
                    continue
                if pid == 0:
                    os.dup2(fds[0], 3, inheritable=False)
                    os.close(fds[0])
                    del denials[:]
                    seen.clear()
                else:
                    os.close(fds[0])
                    pidfd = os.pidfd_open(pid)
                    send(channel, b"P%d" % pid, [pidfd])
                    os.close(pidfd)
            elif kind == b"J":
                if opened:
                    opened[1].close()
                    opened = None
                job = literal(frame[1:].decode())
                source, code = b"".join(code), []
                if not job.get("keep"):
                    sys.argv = [NAME] + job.get("argv", [])
                    done = run(source, namespace, job)
                    finish()
                    report(channel, done)
                    leave(done["exit"] & 0xFF)
                done = run(source, namespace, job)
                vars(builtins).update(usual)
                flush()
                report(channel, done)
                del denials[:]
                seen.clear()
            else:
                leave(0)

    def report(channel, done):
        done["cpu_s"] = time.process_time()
        done["rss_kb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        done["denials"] = denials[:]
        # What does not fit into one packet is left out, the longest first.
        for spare in (None, "denials", "value", "exception"):
            if spare:
                done[spare] = [] if spare == "denials" else None
            try:
                frame = b"D" + encode(done).encode()
                if len(frame) <= REPORT_BYTES_MAX:
                    return send(channel, frame)
            except Exception:
                pass
        try:
            send(channel, b"D" + encode({"exit": done["exit"], "value": None, "exception": None}).encode())
        except OSError:
            # The program closed the channel; its exit code is all there is to say.
            pass

    def fresh_namespace():
        module = type(sys)("__main__")
        sys.modules["__main__"] = module
        module.__dict__["__builtins__"] = sys.modules["builtins"]
        return module.__dict__

    def run(source, namespace, job):
        """Runs code. Returns how it ended, for the host."""
        done = {"exit": 0, "value": None, "exception": None}
        try:
            name = job.get("name") or NAME
            text = source.decode("utf-8")
            sources[name] = text
            last = None
            if job.get("value"):
                import _ast

                text = compile(text, name, "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
                if text.body and isinstance(text.body[-1], _ast.Expr):
                    last = _ast.Expression(text.body.pop().value)
            exec(compile(text, name, "exec", dont_inherit=True), namespace)
            if last is not None:
                value = eval(compile(last, name, "eval", dont_inherit=True), namespace)
                if value is not None:
                    if job.get("keep"):
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
            try:
                done["exception"] = describe(error, job.get("name") or NAME)
            except BaseException:
                done["exception"] = {"type": "Exception", "message": "", "line": None}
        return done

    def describe(error, name):
        """Prints the traceback, without our own frames, and says what was raised."""
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
                linecache.cache[source] = len(text), None, text.splitlines(True), source
            first = error.__traceback__.tb_next if error.__traceback__ else None
            text = "".join(traceback.format_exception(kind, error, first))
            sys.stderr.write(bounded(text, 1 << 20))
        except BaseException:
            # No memory or no stack left to say it in.
            try:
                os.write(2, qualified.encode() + b"\n")
            except OSError:
                pass
        return {"type": qualified, "message": message, "line": line}

    def finish():
        """What an interpreter does at its end: threads, exit handlers, open figures, buffers."""
        vars(builtins).update(usual)
        try:
            threading = sys.modules.get("threading")
            if threading:
                threading._shutdown()
            pyplot = sys.modules.get("matplotlib.pyplot")
            if pyplot:
                for number in pyplot.get_fignums():
                    path = "figure-%d.png" % number
                    if not os.path.exists(path):
                        pyplot.figure(number).savefig(path)
            atexit._run_exitfuncs()
        except BaseException as error:
            if not isinstance(error, SystemExit):
                describe(error, NAME)
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

    # ------------------------------------------------------------------------------------------------ what was tried

    sources = {}
    denials = []
    seen = set()
    writable = ("/workspace", "/tmp", "/dev/shm", "/dev/null")

    def deny(rule, subject):
        if (rule, subject) not in seen and len(denials) < DENIALS_MAX:
            seen.add((rule, subject))
            denials.append({"rule": rule, "subject": bounded(subject, 500)})

    def watch_open(args):
        path, flags = args[0], args[2]
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str):
            return
        full = os.path.normpath(os.path.join("/workspace", path))
        if full.startswith(writable):
            return
        if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            deny("read_only", full)
        elif not os.path.lexists(full):
            deny("not_visible", full)

    def named(rule):
        def handler(args):
            first = args[0] if args else ""
            if rule == "network":
                first = args[1] if len(args) > 1 and isinstance(args[1], (tuple, str)) else ""
            deny(rule, first if isinstance(first, str) else repr(first)[:200])

        return handler

    handlers = {"open": watch_open}
    for event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty"):
        handlers[event] = named("child_process")
    for event in ("socket.__new__", "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto"):
        handlers[event] = named("network")

    def watch(event, args):
        handler = handlers.get(event)
        if handler:
            try:
                handler(args)
            except Exception:
                pass

    zygote()


def literal(text):
    """What the host says, which is JSON: with three names defined, a Python expression."""
    return eval(text, {"__builtins__": {}, "true": True, "false": False, "null": None})


def start():
    config = literal(sys.argv[2])
    sys.argv = [NAME]
    main(config)


start()
