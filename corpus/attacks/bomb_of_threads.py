# expect: STOPPED no-more-threads or status=memory or status=killed
# Start 5,000 threads.
import errno
import threading


class Stopped(Exception):
    """Refused, in words instead of an errno."""


def attack():
    end, threads = threading.Event(), []
    threading.stack_size(64 << 10)
    try:
        for _ in range(5000):
            thread = threading.Thread(target=end.wait, daemon=True)
            thread.start()
            threads.append(thread)
    except RuntimeError:
        raise Stopped("no-more-threads") from None
    finally:
        end.set()
    return f"{len(threads)} threads"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
except Stopped as reason:
    print("STOPPED", reason)
