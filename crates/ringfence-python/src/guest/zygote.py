"""Follows `speedups.py` in the same text: a process that makes workers, each a fork of it that fences itself.

A worker fences itself by a list of system calls that the host laid out. Frames on the channels:
Zygote, from the host: S spawn (4 descriptors each; h for hurried or -; from the fourth byte on pids of dead workers) · W<pid> wait
Zygote, to the host: Z ready · P pids, fewer than asked for if a fork failed · X<pid> <status> <CPU ms> <peak KiB> · N<pid> unknown
Worker, in addition: from the host K fork (1 with one thread); to the host W workspace, mounts, pidfd · L listener · P pid · N failed
"""
import _io
import _signal
import _socket
import ctypes
import gc
import resource
import struct

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.syscall.argtypes = None
# Keeps the interpreter's lock: in a fork of a process with one thread all its state is then unchanged.
held = ctypes.PyDLL(None, use_errno=True)


# Runs after which the interpreter has specialized the code of a run, here once and not in every worker.
N_WARM_UPS = 12

# Work that every program does, and every one that uses pandas if that is loaded.
WARM_UP = b"""
import sys
x = [0]
pandas = sys.modules.get("pandas")
if pandas:
    pandas.DataFrame({'a': x})
print(end='')
"""


class Passing:
    """Descriptor 3, with descriptors in its frames."""

    # Shared by all: pages that a worker does not write are not copied.
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
    offer(channel.send, calls_to(channel))
    missing = []
    for name in config["preload"]:
        try:
            __import__(name)
        except Exception:
            missing.append(name)
    for stream in streams:
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    speedups = Speedups(config["speedups"])
    # For a single program, this would take longer than it saves.
    if config["preload"]:
        programs = WARM_UP, config["warm_up"].encode()
        # Work that is done only once is not part of every run.
        for each in list, speedups.gather:
            each(warm_up(builtins, code) for code in programs)
        for code in reversed(programs):
            for _ in range(N_WARM_UPS):
                warm_up(builtins, code)
    run = speedups.runner(bytes.fromhex(config["calls"]), config["numbers"])
    fence = Fence(run, speedups)
    around = Around(run, speedups.fork(fork), channel, fence.calls.results)
    forks = speedups.forks(bytes.fromhex(config["forks"]), fence.calls.results, around.own_pids, fork)
    if config["preload"]:
        gc.collect()
        speedups.close_gaps()
        gc.freeze()
        speedups.pack(bytes.fromhex(config["pack"]), fork)
    # Unused when a worker begins.
    namespace = fresh_namespace()
    sys.addaudithook(watch)
    channel.send(b"Z" + encode({"missing": missing, "speedups": speedups.active}).encode())
    take = forks.take if forks else lambda: (False, *channel.receive(N_FDS_MAX))
    while True:
        in_child, frame, fds = take()
        if not in_child and frame[:1] == b"S":
            in_child = around.fork_all(frame, fds)
        elif not in_child and frame[:1] == b"W":
            around.tell_end_of(int(frame[1:]))
        elif not in_child and not frame:
            leave(0)
        if in_child:
            try:
                worker(channel, fence, namespace, around.bare_fork, in_a_hurry=frame[1:2] == b"h")
            finally:
                leave(125)


class Around:
    """The zygote's calls before and after a fork, and at the end of a worker. Exit statuses are sent and not kept: the
    next worker is a copy of this process."""

    NEW_PIDS = 0x20000000

    def __init__(self, run, fork, channel, given):
        self.bare_fork, self.channel, self.given = fork, channel, given
        self.own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.before, self.after, self.wait = [Calls(run, config["numbers"], n) for n in (0, 0, 1)]
        self.before.call("unshare", self.NEW_PIDS)
        self.after.call("setns", self.own_pids, self.NEW_PIDS)
        self.wait.call("wait4", Result(0), 0, os.WNOHANG, 0, may_fail=True)
        for calls in self.before, self.after, self.wait:
            calls.lay_out()
        self.dying = []

    def fork_all(self, frame, fds):
        """Forks a worker for each four descriptors; returns True in a worker. `Forks` does the same."""
        self.reap([pid for pid, in struct.iter_unpack("@i", frame[4:])])
        pids = []
        try:
            for at in range(0, len(fds) - 3, 4):
                self.given[:4] = fds[at : at + 4]
                pid = self.fork()
                if pid == 0:
                    return True
                pids.append(pid)
        except (CallFailed, OSError):
            # The host sees that pids are missing.
            pass
        for fd in fds:
            os.close(fd)
        self.channel.send(b"P\0\0\0" + struct.pack("@%di" % len(pids), *pids))

    def fork(self):
        """Forks into a new pid namespace."""
        pid = None
        try:
            self.before.make()
            pid = self.bare_fork()
        finally:
            if pid != 0:
                self.after.make()
        return pid

    def reap(self, pids):
        """Reaps workers that the host has seen dead or dying."""
        pids, self.dying = self.dying + pids, []
        for pid in pids:
            self.wait.results[0] = pid
            self.wait.make()
            if self.wait.results[1] == 0:
                self.dying.append(pid)

    def tell_end_of(self, pid):
        """Sends the exit status, CPU time in milliseconds and peak memory in KiB of a worker."""
        try:
            _, status, used = os.wait4(pid, 0)
        except ChildProcessError:
            self.channel.send(b"N%d" % pid)
            return
        cpu_ms = int((used.ru_utime + used.ru_stime) * 1000)
        self.channel.send(b"X%d %d %d %d" % (pid, status, cpu_ms, used.ru_maxrss))


class Fence:
    """The calls by which a worker fences itself, from its descriptors and seeds to the filter."""

    def __init__(self, run, speedups):
        self.calls = calls = Calls(run, config["numbers"], 4)
        for number in range(4):
            calls.call("dup3", Result(number), number, os.O_CLOEXEC)
        self.seeds = Seeds(calls, in_place="seeds" in speedups.wanted)
        speedups.use("seeds", lambda: self.seeds.n_in_place)
        for call in config["setup"]:
            calls.call_of_host(call)
        # Of the first process of its own namespace, which the host checks.
        pidfd = Result(calls.call("pidfd_open", 1, 0))
        calls.send(b"W", [*[calls.of_host[number] for number in config["given_calls"]], pidfd])
        for call in config["seal"]:
            calls.call_of_host(call)
        if config["listener"]:
            listener = calls.of_host[-1]
            calls.send(b"L", [listener])
            calls.call("close", listener)
        calls.lay_out()


def worker(channel, fence, namespace, bare_fork, in_a_hurry):
    forget()
    try:
        fence.calls.make()
    except CallFailed as error:
        channel.send(b"E" + str(error).encode("utf-8", "replace"))
        return
    fence.seeds.draw()
    # If a program waits for this worker, it may as well touch the pages itself.
    if config["preload"] and not in_a_hurry:
        # Only here are modules of the run's directory found: what comes before is not fenced yet.
        warm_up(namespace["__builtins__"], WARM_UP, b"m" if config["own_modules"] else b"")
    if config["listener"]:
        _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)
    channel.send(b"R")
    serve(channel, namespace, lambda frame, fds: checkpoint(channel, frame, fds, bare_fork))


class NullChannel:
    """A channel without a peer, for warm-ups."""

    def send(self, frame):
        pass

    def receive(self):
        return b"B", ()


def warm_up(builtins, code, flags=b""):
    """Touches the pages that a run will touch, so that the run need not. Skips exit and exit handlers."""
    apart = {"__builtins__": builtins, "__name__": "__main__"}
    go(NullChannel(), apart, b"Jvw" + flags + b"\0\x000\0" + code, b"", had_files=False, leave=bool, at_exit=bool)
    sources.clear()


def forget():
    """Drops what was noted before this program, the fork that made its process among it."""
    if denials:
        del denials[:]
        seen.clear()


# Buffers of processes that this one was forked from. Their destructors would wait for locks that are never released.
replaced = []

# Saved now, because a program may replace them.
new_lock, frames, raw_file, buffered = _thread.allocate_lock, sys._current_frames, _io.FileIO, _io.BufferedWriter
n_threads = _thread._count


def replace_locks():
    """Replaces the locks that another thread may have held at the fork: of calls to the host, and of both streams."""
    global calling
    calling = new_lock()
    for fd, stream in enumerate(streams, 1):
        try:
            replaced.append(stream.buffer)
            buffer = buffered(raw_file(fd, "w", closefd=False))
            stream.__init__(buffer, encoding="utf-8", errors="backslashreplace", line_buffering=True)
        except Exception:
            # The program has closed or replaced it.
            pass


def fork_as_it_is():
    """Forks as `os.fork` does, except that random numbers go on: a session is one program in several processes."""
    try:
        generator = sys.modules["random"]._inst
        state = generator.getstate()
    except Exception:
        generator = None
    pid = fork()
    if pid == 0 and generator:
        generator.setstate(state)
    return pid


def checkpoint(channel, frame, fds, bare_fork):
    """Forks on the host's request; the child continues with the channel it was given."""
    if frame[:1] != b"K" or len(fds) != 1:
        return False
    flush()
    has_threads = len(frames()) > 1
    # Without another thread, also one that is about to end, the interpreter has nothing to repair in the child.
    alone = frame[1:] == b"1" and not has_threads and not n_threads() and bare_fork is not fork
    try:
        pid = bare_fork() if alone else fork_as_it_is()
    except (OSError, CallFailed) as error:
        os.close(fds[0])
        channel.send(b"N" + str(error).encode())
        return True
    if pid == 0:
        os.dup2(fds[0], 3, inheritable=False)
        os.close(fds[0])
        if has_threads:
            replace_locks()
        forget()
    else:
        os.close(fds[0])
        pidfd = os.pidfd_open(pid)
        channel.send(b"P%d" % pid, [pidfd])
        os.close(pidfd)
    return True


zygote()
