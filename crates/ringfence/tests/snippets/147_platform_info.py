# expect: ok
import getpass
import os
import platform
import socket
import sys

info = {
    "system": platform.system(),
    "release": platform.release(),
    "machine": platform.machine(),
    "processor": platform.processor() or "unknown",
    "python": platform.python_version(),
    "implementation": platform.python_implementation(),
    "cpus": os.cpu_count(),
    "usable cpus": len(os.sched_getaffinity(0)),
    "user": getpass.getuser(),
    "host": socket.gethostname(),
    "encoding": sys.getdefaultencoding(),
    "byte order": sys.byteorder,
}
for key, value in info.items():
    print(f"{key:<15}{value}")
print(platform.platform() != "", platform.uname().system, sys.platform, os.getpid() > 0)
print("executable:", os.path.basename(sys.executable) != "", sys.prefix != "", os.name)
