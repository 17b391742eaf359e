import ctypes, errno, os, sys

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def syscall(name, *args):
    number = name if isinstance(name, int) else _NUMBERS[name]

    def word(arg):
        if arg is None:
            return ctypes.c_void_p(None)
        if isinstance(arg, int):
            return ctypes.c_long(ctypes.c_long(arg).value)
        if isinstance(arg, bytearray):
            return (ctypes.c_char * len(arg)).from_buffer(arg)
        if isinstance(arg, str):
            return os.fsencode(arg)
        return arg

    result = _libc.syscall(ctypes.c_long(number), *[word(a) for a in args])
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(name))
    return result


def _end(line):
    sys.stdout.flush()
    os.write(1, (line + "\n").encode())
    os._exit(0)


def escaped():
    _end("ESCAPED")


def stopped(error):
    if isinstance(error, OSError):
        error = errno.errorcode.get(error.errno, str(error.errno))
    _end("STOPPED " + str(error))


def absent(why):
    _end("ABSENT " + why)


def attempt(call):
    try:
        call()
    except OSError as error:
        stopped(error)
    escaped()


