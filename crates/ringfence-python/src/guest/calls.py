"""Follows `pack.py` in the same text: system calls as data, laid out in memory before the fork and made after it.

Where the host has code for this processor, a worker makes a list of them in one go. Made from here, each takes longer than the
call itself, and the worker a copy of every page that it passes an object of.
"""
import binascii
import ctypes
import struct

# A row is what it is and seven words: number and arguments of a call, or a result's number and where to store it.
MUST, MAY_FAIL, STORE_INT, STORE_WORD = range(4)
ROW = struct.Struct("@8q")


class CallFailed(Exception):
    pass


class Calls:
    """A list of calls; `before` is one that was made earlier, whose results it may use."""

    def __init__(self, calls, run, before=None):
        self.run, self.before = run, before
        self.first = before.first + before.n_calls if before else 0
        self.n_calls = len(calls)
        self.names, self.kept, rows, into_rows = [], [], [], []
        for call in calls:
            pending = []
            words = [MAY_FAIL if call["may_fail"] else MUST, call["nr"]]
            for spec in call["args"]:
                if isinstance(spec, int):
                    words.append(spec)
                elif "bytes" in spec:
                    buffer = self.keep(spec["bytes"])
                    if "points_to" in spec:
                        struct.pack_into("@P", buffer, spec["at"], ctypes.addressof(self.keep(spec["points_to"])))
                    elif "result" in spec:
                        self.store(rows, STORE_INT, spec["result"], ctypes.addressof(buffer) + spec["at"])
                    words.append(ctypes.addressof(buffer))
                else:
                    pending.append((len(rows), len(words)))
                    self.store(rows, STORE_WORD, spec["result"], 0)
                    words.append(0)
            into_rows += [(store, len(rows), word) for store, word in pending]
            rows.append(words)
            self.names.append(call["name"])
        self.rows = ctypes.create_string_buffer(len(rows) * ROW.size)
        self.address, self.n_rows = ctypes.addressof(self.rows), len(rows)
        for store, row, word in into_rows:
            rows[store][2] = self.address + row * ROW.size + word * 8
        for number, words in enumerate(rows):
            words = [word - (1 << 64) if word >> 63 == 1 else word for word in words]
            ROW.pack_into(self.rows, number * ROW.size, *words, *[0] * (8 - len(words)))

    def keep(self, encoded):
        data = binascii.a2b_base64(encoded)
        self.kept.append(ctypes.create_string_buffer(data, len(data)))
        return self.kept[-1]

    def store(self, rows, kind, result, address):
        rows.append([kind, result, address])
        self.names.append(None)

    def make(self, results):
        """Makes the calls, in order; what they return is in `results`, after what was there."""
        base = ctypes.addressof(results)
        left = self.run(self.address, self.n_rows, base + 8 * self.first, base)
        if left:
            made = self.names[: self.n_rows - left + 1]
            failed = results[self.first + sum(name is not None for name in made) - 1]
            raise CallFailed("%s: %s" % (made[-1], os.strerror(-failed)))


def runner(code):
    """What makes a list of calls: the host's code, or the same here."""
    if not code:
        return run_rows
    word = ctypes.c_ulong
    libc.mmap.argtypes, libc.mmap.restype = [word, word, ctypes.c_int, ctypes.c_int, ctypes.c_int, word], word
    libc.mprotect.argtypes = [word, word, ctypes.c_int]
    at = libc.mmap(0, PAGE, READ | WRITE, PRIVATE_ANONYMOUS, -1, 0)
    if at == word(-1).value:
        return run_rows
    ctypes.memmove(at, code, len(code))
    if libc.mprotect(at, PAGE, READ | EXECUTE):
        return run_rows
    return ctypes.PYFUNCTYPE(ctypes.c_long, word, ctypes.c_long, word, word)(at)


def run_rows(address, n_rows, at, base):
    """As the host's code does it: how many rows are left where one failed."""
    for number in range(n_rows):
        kind, *words = ROW.unpack(ctypes.string_at(address + number * ROW.size, ROW.size))
        if kind in (STORE_INT, STORE_WORD):
            result, where = words[:2]
            ctypes.memmove(where, base + 8 * result, 4 if kind == STORE_INT else 8)
            continue
        value = libc.syscall(*map(ctypes.c_long, words))
        value = -ctypes.get_errno() if value == -1 else value
        ctypes.memmove(at, ctypes.byref(ctypes.c_long(value)), 8)
        at += 8
        if value < 0 and kind == MUST:
            return n_rows - number
    return 0
