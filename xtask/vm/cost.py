"""Counts what one start costs beside bubblewrap, interleaved: CPU time, page faults and switches of all its processes.

Emulated time is no measure; the counts and the ratio of two CPU times in one machine are. Then the same start beside other
runs' leaves, of living and of dead processes, in each cgroup directory that is an argument; creating them needs root.
`RINGFENCE=PATH` names another binary, `ROUNDS=N` the number of starts.
"""
import os, statistics, subprocess, sys

ROUNDS = int(os.environ.get("ROUNDS", "20"))
RINGFENCE = os.environ.get("RINGFENCE", "ringfence")
BWRAP = "bwrap --unshare-all --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --die-with-parent true".split()
QUIET = [(os.POSIX_SPAWN_OPEN, n, "/dev/null", os.O_RDWR, 0) for n in (0, 1, 2)]


def once(argv):
    pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=QUIET)
    _, status, used = os.wait4(pid, 0)
    if status:
        sys.exit("%s: status %#x" % (" ".join(argv), status))
    return (used.ru_utime + used.ru_stime) * 1000, used.ru_minflt, used.ru_nvcsw + used.ru_nivcsw


def compare(title, contenders):
    samples = {name: [] for name in contenders}
    for name, argv in contenders.items():
        once(argv)
    for _ in range(ROUNDS):
        for name, argv in contenders.items():
            samples[name].append(once(argv))
    for name, rows in samples.items():
        cpu, faults, switches = (statistics.median(column) for column in zip(*rows))
        print("%-28s %-10s cpu %7.2f ms  faults %5d  switches %4d" % (title, name, cpu, faults, switches))


start = [RINGFENCE, "run", "--", "true"]
compare("start", {"ringfence": start, "bwrap": BWRAP})
for parent in sys.argv[1:]:
    for n in (100, 1000, 10000):
        made = []
        for i in range(n):
            # One in ten belongs to a process that is gone.
            pid, ticks = (os.getpid(), 1 << 40) if i % 10 else (0x7FFFFFFF, 1)
            made.append("%s/ringfence-%d-%d-%d" % (parent, pid, ticks, i))
            os.mkdir(made[-1])
        compare("%d other leaves" % n, {"ringfence": start})
        for leaf in made:
            try:
                os.rmdir(leaf)
            except FileNotFoundError:
                pass
