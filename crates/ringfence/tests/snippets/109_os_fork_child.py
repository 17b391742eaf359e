# expect: error no child processes
import os

pid = os.fork()
if pid == 0:
    print("child: hello from", os.getpid())
    os._exit(0)
_, status = os.waitpid(pid, 0)
print("parent: child ended with status", status)
