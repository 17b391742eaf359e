# expect: STOPPED ENOSPC|EDQUOT or status=killed or status=timeout
# Make 500,000 empty files.
import errno
import os


def attack():
    for number in range(500_000):
        if number % 1000 == 0:
            os.mkdir(f"d{number // 1000}")
        os.close(os.open(f"d{number // 1000}/{number}", os.O_CREAT | os.O_WRONLY))
    return f"{number + 1} files"


try:
    print("ESCAPED", attack())
except OSError as error:
    print("STOPPED", errno.errorcode.get(error.errno, error.errno))
