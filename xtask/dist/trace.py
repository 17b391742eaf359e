"""Which functions of a program run, in the order of their first instruction: trace.py PROGRAM UID ARGUMENT...

Steps through the program and what it forks, one instruction at a time, until something else is executed there.
Prints a line for each function, as the linker calls it. For x86-64; uses nm.
"""

import bisect
import ctypes
import os
import signal
import subprocess
import sys

TRACEME, PEEKUSER, CONT, SINGLESTEP, SETOPTIONS = 0, 3, 7, 9, 0x4200
# Forks, vforks, clones and execs are told of; whoever is traced ends with us.
OPTIONS = 0x02 | 0x04 | 0x08 | 0x10 | 0x100000
EVENT_EXEC = 4
WALL = 0x40000000
INSTRUCTION_POINTER = 16 * 8

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def functions(program):
    """Start, length and name of each, sorted."""
    listing = subprocess.run(["nm", "-S", "--defined-only", program], stdout=subprocess.PIPE, check=True, text=True)
    rows = (line.split() for line in listing.stdout.splitlines())
    return sorted((int(row[0], 16), int(row[1], 16), row[3]) for row in rows if len(row) == 4 and row[2] in "tTwW")


def start(program, uid, arguments):
    """The program, stopped before its first instruction."""
    pid = os.fork()
    if pid == 0:
        quiet = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(quiet, fd)
        if os.getuid() != uid:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        libc.ptrace(TRACEME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.execv(program, [program, *arguments])
    os.waitpid(pid, 0)
    libc.ptrace(SETOPTIONS, pid, None, OPTIONS)
    return pid


def instructions(program, uid, arguments):
    """Every address that was executed, in order of the first time."""
    seen, others = {}, set()
    first = start(program, uid, arguments)
    libc.ptrace(CONT, first, None, None)
    n_execs = 0
    while True:
        try:
            pid, status = os.waitpid(-1, WALL)
        except ChildProcessError:
            return seen
        if not os.WIFSTOPPED(status):
            continue
        reason, event = os.WSTOPSIG(status), status >> 16
        if event == EVENT_EXEC:
            n_execs += 1
            if n_execs > 1:
                others.add(pid)
        passed_on = None if reason in (signal.SIGTRAP, signal.SIGSTOP) else reason
        if pid not in others:
            at = libc.ptrace(PEEKUSER, pid, INSTRUCTION_POINTER, None)
            seen.setdefault(at, None)
        libc.ptrace(CONT if pid in others else SINGLESTEP, pid, None, passed_on)


def main():
    program, uid, arguments = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    known = functions(program)
    starts = [function[0] for function in known]
    names = {}
    for at in instructions(program, uid, arguments):
        here = bisect.bisect_right(starts, at) - 1
        if here >= 0 and at < known[here][0] + known[here][1]:
            names.setdefault(known[here][2], None)
    print("\n".join(names))


main()
