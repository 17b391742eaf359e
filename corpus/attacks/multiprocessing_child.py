# expect: STOPPED EPERM
# Start a worker process.
import errno
import multiprocessing
import os


def attack():
    worker = multiprocessing.get_context("fork").Process(target=os.getpid)
    worker.start()
    worker.join()
    return "a worker process"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
