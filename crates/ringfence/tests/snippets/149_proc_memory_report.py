# expect: error not visible
import os
import sys

try:
    import psutil
except ImportError:
    psutil = None


def read_table(path):
    table = {}
    with open(path) as f:
        for line in f:
            key, _, value = line.partition(":")
            table[key.strip()] = value.strip()
    return table


memory = read_table("/proc/meminfo")
status = read_table("/proc/self/status")
print("total memory known:", int(memory["MemTotal"].split()[0]) > 0)
print("own memory known:", int(status["VmRSS"].split()[0]) > 0, "threads:", status["Threads"])
print("cpu model known:", "processor" in read_table("/proc/cpuinfo"))
print("load known:", len(os.getloadavg()) == 3, "uptime known:", float(open("/proc/uptime").read().split()[0]) > 0)
print("command line known:", len(open("/proc/self/cmdline", "rb").read()) > 0)
print("open files known:", len(os.listdir("/proc/self/fd")) > 0)
print("psutil can be used:", psutil is None or psutil.virtual_memory().total > 0, file=sys.stderr)
