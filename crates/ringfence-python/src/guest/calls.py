"""Follows `lazy.py` in the same text: system calls as data, laid out in memory before a fork and made after it."""
import binascii
import ctypes
import struct

# A row is its kind and seven words: number and arguments of a call, or a result's number and the address to store it.
MUST, MAY_FAIL, STORE_INT, STORE_WORD = range(4)
# Buffers that results are stored into are small; together they fit on few pages.
SMALL, SMALL_ALL = 256, 2048
ROW = struct.Struct("@8q")
SOL_SOCKET, SCM_RIGHTS = 1, 1


class CallFailed(Exception):
    pass


class Result:
    """An argument known only when the calls are made: the entry of `results` with this number."""

    def __init__(self, number):
        self.number = number


class Calls:
    """A list of calls, with room for their results after the given ones."""

    def __init__(self, run, numbers, n_given=0):
        self.run, self.numbers, self.n_given, self.n_results = run, numbers, n_given, n_given
        self.rows, self.names, self.kept, self.of_host = [], [], [], []
        self.small, self.n_kept = ctypes.create_string_buffer(SMALL_ALL), 0

    def call(self, name, *args, number=None, may_fail=False):
        """Adds a call; returns the number of its result."""
        words = [MAY_FAIL if may_fail else MUST, self.numbers[name] if number is None else number]
        row = len(self.rows) + sum(isinstance(arg, Result) for arg in args)
        for arg in args:
            if isinstance(arg, Result):
                self.store(STORE_WORD, arg, row * ROW.size + len(words) * 8)
            words.append(0 if isinstance(arg, Result) else arg)
        self.rows.append(words)
        self.names.append(name)
        self.n_results += 1
        return self.n_results - 1

    def call_of_host(self, call):
        """Adds a call in the host's layout; it can use results of earlier ones."""
        args = []
        for spec in call["args"]:
            if isinstance(spec, int):
                args.append(spec)
            elif "bytes" in spec:
                address = self.keep(binascii.a2b_base64(spec["bytes"]))
                if "points_to" in spec:
                    pointed = self.keep(binascii.a2b_base64(spec["points_to"]))
                    ctypes.c_void_p.from_address(address + spec["at"]).value = pointed
                elif "result" in spec:
                    self.store(STORE_INT, self.of_host[spec["result"]], address + spec["at"])
                args.append(address)
            else:
                args.append(self.of_host[spec["result"]])
        number = self.call(call["name"], *args, number=call["nr"], may_fail=call["may_fail"])
        self.of_host.append(Result(number))

    def send(self, frame, fds=(), with_number=None):
        """Adds the sending of a frame, with results as descriptors, and optionally a result as its last four bytes."""
        data = self.keep(frame)
        if with_number:
            self.store(STORE_INT, with_number, data + len(frame) - 4)
        vector = self.keep(struct.pack("@PN", data, len(frame)))
        rights = struct.pack("@Nii%di0P" % len(fds), 16 + 4 * len(fds), SOL_SOCKET, SCM_RIGHTS, *[0] * len(fds))
        control = self.keep(rights)
        for number, fd in enumerate(fds):
            self.store(STORE_INT, fd, control + 16 + 4 * number)
        message = self.keep(struct.pack("@PIPNPNi0P", 0, 0, vector, 1, control, len(rights), 0))
        self.call("sendmsg", 3, message, 0)

    def keep(self, data):
        """Copies data to memory that stays; returns its address."""
        if len(data) > SMALL or self.n_kept + len(data) > SMALL_ALL:
            self.kept.append(ctypes.create_string_buffer(data, len(data)))
            return ctypes.addressof(self.kept[-1])
        address = ctypes.addressof(self.small) + self.n_kept
        ctypes.memmove(address, data, len(data))
        self.n_kept += -(-len(data) // 8) * 8
        return address

    def store(self, kind, result, where):
        self.rows.append([kind, result.number, where])
        self.names.append(None)

    def lay_out(self):
        """Finishes the list: no call can be added afterwards."""
        self.table = ctypes.create_string_buffer(len(self.rows) * ROW.size)
        self.results = (ctypes.c_long * self.n_results)()
        address = ctypes.addressof(self.table)
        for number, words in enumerate(self.rows):
            if words[0] == STORE_WORD:
                words[2] += address
            words = [word - (1 << 64) if word >> 63 == 1 else word for word in words]
            ROW.pack_into(self.table, number * ROW.size, *words, *[0] * (8 - len(words)))
        results = ctypes.addressof(self.results)
        self.made_by = address, len(self.rows), results + 8 * self.n_given, results
        return self

    def make(self):
        """Makes the calls, in order, and puts their return values into `results`."""
        left = self.run(*self.made_by)
        if left:
            made = self.names[: len(self.names) - left + 1]
            failed = self.results[self.n_given + sum(name is not None for name in made) - 1]
            raise CallFailed("%s: %s" % (made[-1], os.strerror(-failed)))


def run_rows(address, n_rows, at, base):
    """Makes the calls in these rows one by one; returns the number of rows left after a failure."""
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
