"""Follows `program.py` in the same text: a process that makes workers, each a fork of it that fences itself.

What a worker does to itself is a list of system calls that the host laid out.

Frames on the zygote's channel   host: S spawn (4 descriptors), Sh in a hurry · W<pid> wait      zygote: Z ready · P<pid> · X<pid> <status>
More on a worker's channel       host: K fork                                      worker: W workspace · L listener
"""
import _signal
import _socket
import ctypes
import gc
import resource
import struct

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.syscall.argtypes = None
# Keeps the interpreter's lock: in a fork of a process with one thread everything is then as it was.
held = ctypes.PyDLL(None, use_errno=True)


# Runs after which the interpreter has adapted the code of a run, here once and not in every worker.
REHEARSALS = 12

# What every program does.
WARM_UP = b"import sys\nx = [0]\nprint(end='')\n"


class Passing:
    """Descriptor 3, with descriptors in its frames."""

    # One for all: of what is not written no worker has a copy.
    room = bytearray(FRAME_BYTES_MAX)

    def __init__(self):
        self.socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, 3)

    def send(self, frame, fds=()):
        if fds:
            rights = struct.pack("%di" % len(fds), *fds)
            self.socket.sendmsg([frame], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
        else:
            self.socket.send(frame)

    def receive(self, n_fds=1):
        length, ancillary, _, _ = self.socket.recvmsg_into([self.room], _socket.CMSG_SPACE(4 * n_fds))
        fds = []
        for level, kind, data in ancillary:
            if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
                fds.extend(struct.unpack("%di" % (len(data) // 4), data))
        return bytes(memoryview(self.room)[:length]), fds


def peak_kb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def zygote():
    channel = Passing()
    run = runner(bytes.fromhex(config["calls"]))
    setup = Calls(config["setup"], run)
    plan = setup, Calls(config["seal"], run, before=setup)
    offer(channel.send)
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
        for code in config["practice"].encode(), WARM_UP:
            for _ in range(REHEARSALS):
                rehearse(builtins, code)
        gc.collect()
        gc.freeze()
        if config["pack"] and len(os.listdir("/proc/self/task")) == 1:
            pack(bytes.fromhex(config["pack"]))
    channel.send(b"Z" + encode({"missing": missing}).encode())
    while True:
        frame, fds = channel.receive(4)
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
                channel.send(b"N" + os.strerror(ctypes.get_errno()).encode())
                continue
            pid = fork_alone()
            if pid == 0:
                try:
                    worker(channel, fds, plan, in_a_hurry=frame == b"Sh")
                finally:
                    leave(125)
            errno = ctypes.get_errno()
            libc.syscall(setns, own_pids, new_pids)
            for fd in fds:
                os.close(fd)
            if pid < 0:
                channel.send(b"N" + os.strerror(errno).encode())
                continue
            pidfd = os.pidfd_open(pid)
            channel.send(b"P%d" % pid, [pidfd])
            os.close(pidfd)
        elif frame[:1] == b"W":
            pid = int(frame[1:])
            try:
                status, used = ended.pop(pid, None) or os.wait4(pid, 0)[1:]
            except ChildProcessError:
                channel.send(b"N no such worker")
                continue
            cpu_ms = (used.ru_utime + used.ru_stime) * 1000
            channel.send(b"X%d %d %d %d" % (pid, status, cpu_ms, used.ru_maxrss))


def fork_alone():
    """Forks this process, whose only thread this is: what an interpreter sets right after a fork, and the locks it makes
    anew, nobody else can have touched. `libc` does its part. Seeds are drawn anew."""
    if _thread._count():
        return -1
    pid = held.fork()
    if pid == 0 and "random" in sys.modules:
        sys.modules["random"].seed()
    return pid


def worker(channel, fds, plan, in_a_hurry):
    for number, fd in enumerate(fds):
        os.dup2(fd, number, inheritable=False)
    try:
        setup, seal = plan
        results = (ctypes.c_long * (setup.n_calls + seal.n_calls))()
        setup.make(results)
        channel.send(b"W", [results[call] for call in config["given_calls"]])
        seal.make(results)
        if config["listener"]:
            channel.send(b"L", [results[-1]])
            os.close(results[-1])
    except (CallFailed, OSError) as error:
        channel.send(b"E" + str(error).encode("utf-8", "replace"))
        return
    if "numpy" in sys.modules and "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    namespace = fresh_namespace()
    sys.addaudithook(watch)
    # Where a program waits for this worker, what it would touch it may as well touch itself.
    if config["preload"] and not in_a_hurry:
        rehearse(namespace["__builtins__"], WARM_UP)
    if config["listener"]:
        _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)
    channel.send(b"R")
    serve(channel, namespace, lambda frame, fds: checkpoint(channel, frame, fds))


class Nobody:
    """A channel that nobody listens to."""

    def send(self, frame):
        pass

    def receive(self):
        return b"B", ()


def rehearse(builtins, code):
    """Touches what a run will touch, so that the run need not. Exit and exit handlers are the run's own."""
    apart = {"__builtins__": builtins, "__name__": "__main__"}
    go(Nobody(), apart, b"Jvw\0\x000\0" + code, b"", leave=bool, at_exit=bool)
    sources.clear()


def checkpoint(channel, frame, fds):
    """Forks, when the host asks; the child goes on with the channel it was given."""
    if frame[:1] != b"K" or len(fds) != 1:
        return False
    flush()
    try:
        pid = fork()
    except OSError as error:
        os.close(fds[0])
        channel.send(b"N" + str(error).encode())
        return True
    if pid == 0:
        os.dup2(fds[0], 3, inheritable=False)
        os.close(fds[0])
        del denials[:]
        seen.clear()
    else:
        os.close(fds[0])
        pidfd = os.pidfd_open(pid)
        channel.send(b"P%d" % pid, [pidfd])
        os.close(pidfd)
    return True


zygote()
