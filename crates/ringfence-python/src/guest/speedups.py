"""Follows `calls.py` in the same text: everything that only makes workers faster. A program sees the same without it.

The setting `worker_speedups` chooses: `off` nothing, `safe` what does not move the interpreter's memory or code, `full`
everything. Each part is checked in this interpreter before it is used; `active` names the parts in use.

calls  The host's code makes a whole list of system calls in one go. A call made from Python takes longer than the system
       call itself, and copies every page that holds an object passed to it.
seeds  The kernel fills the states of random number generators. Seeding one by its module takes a worker up to a
       millisecond and copies 160 pages.
heap   Free blocks between objects are taken, so that a run puts its own objects side by side, on few pages.
code   The code of functions that runs call is moved side by side: a worker copies each page with a count it changes.
fork   Skips the interpreter's own work after a fork, which a process with a single thread does not need.
loop   The host's code takes requests and forks workers. Each page that the zygote writes to between two forks is copied,
       and a loop in Python writes to dozens.
pages  The memory that workers share with the zygote is moved onto large pages: a fork and an exit visit a large page
       once, and small ones one by one.
"""
import ctypes
import gc
import struct
import sys

SAFE = "calls", "seeds", "heap"
LEVELS = {"off": (), "safe": SAFE, "full": (*SAFE, "code", "fork", "loop", "pages")}


# Exit code of a check that passed.
PASSED = 7


class Speedups:
    """The parts of one level, and those of them that passed their check."""

    def __init__(self, level):
        self.wanted, self.active = LEVELS[level], []

    def use(self, part, check):
        """Notes the part as active if it is wanted and its check returns something true, and returns that."""
        try:
            passed = part in self.wanted and check()
        except Exception:
            passed = None
        if passed and part not in self.active:
            self.active.append(part)
        return passed

    def runner(self, code, numbers):
        """The function that makes a list of calls: the host's code, or `run_rows`."""
        return self.use("calls", lambda: checked_runner(code, numbers)) or run_rows

    def fork(self, plain):
        """The function that forks this process."""
        return fork_alone if self.use("fork", lambda: answers(plain, fork_alone)) else plain

    def forks(self, code, given, own_pids, plain):
        """The loop that takes requests and forks workers; `None` if that is left to Python."""
        if self.use("loop", lambda: "fork" in self.active and code and checked_forks(code, own_pids, plain)):
            return Forks(code, given, own_pids, 3)

    def gather(self, warm_ups):
        """Runs the warm-ups, and moves the code of the functions that they call."""
        if not self.use("code", lambda: gather(warm_ups) or True):
            list(warm_ups)

    def close_gaps(self):
        self.use("heap", lambda: close_gaps() or True)

    def pack(self, code, plain):
        """Moves this process onto large pages, if a fork of it that does so goes on to compute and to fork."""
        def tried():
            alone = len(os.listdir("/proc/self/task")) == 1
            return code and alone and answers(plain, fork_alone, lambda: pack(code) > 0) and pack(code) > 0
        self.use("pages", tried)


def answers(plain, other, prepare=bool):
    """True if a fork of this process, once prepared, can itself fork with `other`, compute, allocate and exit."""
    def proof():
        numbers = [n * n for n in range(2000)]
        return sum(numbers) == 2664667000 and len({str(n): n for n in numbers}) == 2000

    return holds(plain, lambda: (prepare() or prepare is bool) and proof() and holds(other, proof))


def holds(fork, work):
    """True if the work returns something true in a fork of this process."""
    pid = fork()
    if pid == 0:
        try:
            leave(PASSED if work() else 1)
        finally:
            leave(1)
    return os.waitpid(pid, 0)[1] == PASSED << 8


def fork_alone():
    """Forks this process, which has a single thread: no other can have touched the state that an interpreter resets
    after a fork, or the locks it recreates. `libc` does its own part."""
    if _thread._count():
        raise CallFailed("fork: there are threads")
    pid = held.fork()
    if pid < 0:
        raise CallFailed("fork: %s" % os.strerror(ctypes.get_errno()))
    return pid


def checked_runner(code, numbers):
    """The host's code as a function, if it makes a list of calls as `run_rows` does."""
    at = room(PAGE) if code else 0
    if not at or not put_code(at, code):
        return None
    word = ctypes.c_ulong
    run = ctypes.PYFUNCTYPE(ctypes.c_long, word, ctypes.c_long, word, word)(at)
    found = []
    for each in run, run_rows:
        calls = Calls(each, numbers, n_given=1)
        calls.call("close", -1, may_fail=True)
        copied = calls.call("dup3", 3, Result(0), os.O_CLOEXEC)
        calls.call("close", Result(copied))
        calls.call("close", Result(copied))
        calls.lay_out()
        calls.results[0] = 20
        found.append((each(*calls.made_by), calls.results[:]))
    # The last call fails, and both report the row.
    return run if found[0] == found[1] and found[0][0] else None


# loop

# Places in the block of `Forks`.
VECTOR, FORK, CHANNEL, CONTROL, ANSWER, FRAME = 56, 72, 112, 128, 272, 320
N_FDS_MAX = 32


class Forks:
    """The host's code that takes requests and forks workers, on a page of its own, and its block on the next."""

    def __init__(self, code, given, own_pids, channel):
        at = room(2 * PAGE)
        if not put_code(at, code):
            raise MemoryError
        self.block = block = at + PAGE
        self.loop = ctypes.PYFUNCTYPE(ctypes.c_long, ctypes.c_ulong)(at)
        fork = ctypes.cast(held.fork, ctypes.c_void_p).value
        for where, layout, words in (
            (0, "@PIPNPNi0P", (0, 0, block + VECTOR, 1, block + CONTROL, 0, 0)),
            (VECTOR, "@PN", (block + FRAME, PAGE - FRAME)),
            (FORK, "@PPq", (fork, ctypes.addressof(given), own_pids)),
            (CHANNEL, "@q", (channel,)),
            (ANSWER, "@c", (b"P",)),
        ):
            packed = struct.pack(layout, *words)
            ctypes.memmove(block + where, packed, len(packed))

    def take(self):
        """Serves requests. Returns in a child, with True, the frame and nothing; and with a frame that is left to do."""
        length = self.loop(self.block)
        if length < 0:
            return False, b"", []
        frame = ctypes.string_at(self.block + FRAME, length or 2)
        if length == 0:
            return True, frame, []
        size, level, kind = struct.unpack("@Nii", ctypes.string_at(self.block + CONTROL, 16))
        n = (size - 16) // 4 if size > 16 and (level, kind) == (SOL_SOCKET, SCM_RIGHTS) else 0
        return False, frame, list(struct.unpack("@%di" % n, ctypes.string_at(self.block + CONTROL + 16, 4 * n)))


def checked_forks(code, own_pids, plain):
    """True if the host's code forks two children for a request, each with its descriptors, and names them."""
    def works():
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        given = (ctypes.c_long * 4)()
        forks = Forks(code, given, own_pids, theirs.fileno())
        rights = struct.pack("@8i", *[ours.fileno()] * 8)
        ours.sendmsg([b"S-\0\0"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
        ours.send(b"W1")
        in_child, frame, fds = forks.take()
        if in_child:
            leave(PASSED if os.getpid() == 1 and frame == b"S-" and min(given) > 2 and len({*given}) == 4 else 1)
        # Code that is wrong for this processor has sent nothing.
        born = ours.recv(64, _socket.MSG_DONTWAIT)
        pids = struct.unpack("@2i", born[4:])
        ends = [os.waitpid(pid, 0)[1] for pid in pids]
        return (born[:4], frame, fds, ends) == (b"P\0\0\0", b"W1", [], [PASSED << 8] * 2)

    return holds(plain, works)


# calls, pages: memory


PAGE, HUGE = 4096, 2 << 20
# Size of the area with the code, and after it the rows.
ASIDE = 16 * PAGE
PRIVATE_ANONYMOUS, MADV_HUGEPAGE = 0x22, 14
READ, WRITE, EXECUTE = 1, 2, 4


# Files that every run uses: the interpreter's.
with open("/proc/self/maps") as lines:
    FIRST = {line.split()[-1] for line in lines}


def mappings():
    """Yields each mapping of this process: start, end, rights, offset, name, and its fields in smaps, in KiB."""
    at = None
    with open("/proc/self/smaps") as lines:
        for line in lines:
            field = line.split()
            if field[0].endswith(":"):
                kib[field[0]] = field[1]
                continue
            if at:
                yield (*at, kib)
            start, _, end = field[0].partition("-")
            at, kib = (int(start, 16), int(end, 16), field[1], int(field[2], 16), field[5] if len(field) > 5 else ""), {}
    yield (*at, kib)


def join():
    """Joins adjacent mappings of a file that are never written into one, readable and executable: a fork and an exit
    visit each mapping. A program could make all of its memory executable anyway."""
    libc.mprotect.argtypes = [ctypes.c_ulong, ctypes.c_ulong, ctypes.c_int]
    found = []
    for start, end, rights, offset, name, kib in mappings():
        if name[:1] == "/" and rights in ("r--p", "r-xp") and kib["Anonymous:"] == "0":
            found.append((start, end, offset, name))
    for (start, middle, offset, name), (again, end, *rest) in zip(found, found[1:]):
        if again == middle and rest == [offset + middle - start, name]:
            libc.mprotect(start, end - start, READ | EXECUTE)


def ranges():
    """Private ranges of this process with most pages resident: address, length, protection."""
    chosen = []
    for start, end, rights, _, name, kib in mappings():
        usual = rights[0] == "r" and rights[3] == "p" and (name[:1] != "[" or name == "[heap]")
        # Most runs do not touch a library's code, and a fork and an exit skip pages that are on disk.
        usual = usual and (rights[1] == "w" or not name or name in FIRST)
        if usual and int(kib["Rss:"]) << 11 >= end - start:
            chosen.append((start, end - start, READ | WRITE * (rights[1] == "w") | EXECUTE * (rights[2] == "x")))
    return chosen


def is_huge(area):
    """True if the kernel gave large folios for the whole mapping that begins here."""
    return any(kib["AnonHugePages:"] == kib["Size:"] for start, *_, kib in mappings() if start == area)


def room(length):
    """Allocates private memory, readable and writable."""
    word = ctypes.c_ulong
    libc.mmap.argtypes, libc.mmap.restype = [word, word, ctypes.c_int, ctypes.c_int, ctypes.c_int, word], word
    at = libc.mmap(0, length, READ | WRITE, PRIVATE_ANONYMOUS, -1, 0)
    if at == word(-1).value:
        raise MemoryError
    return at


def put_code(at, code):
    """Copies code onto a page of such memory; True if it can be executed there."""
    libc.mprotect.argtypes = [ctypes.c_ulong, ctypes.c_ulong, ctypes.c_int]
    ctypes.memmove(at, code, len(code))
    return libc.mprotect(at, PAGE, READ | EXECUTE) == 0


def pack(code):
    """Moves this process onto large folios; returns the number of ranges moved."""
    word = ctypes.c_ulong
    libc.madvise.argtypes = [word, word, ctypes.c_int]
    libc.munmap.argtypes = [word, word]
    join()
    # Some more than now: the work until the move allocates memory too.
    length = (sum(size for _, size, _ in ranges()) // HUGE + 2) * HUGE
    raw = room(length + HUGE)
    area = -(-raw // HUGE) * HUGE
    if area > raw:
        libc.munmap(raw, area - raw)
    libc.munmap(area + length, raw + HUGE - area)
    aside = room(ASIDE)
    memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    # Copies from `rest` on are still in place; the range below was moved away and may be reused by now.
    rest = area
    try:
        libc.madvise(area, length, MADV_HUGEPAGE)
        for at in range(area, area + length, HUGE):
            ctypes.memset(at, 0, 1)
        if not is_huge(area):
            return 0
        if not put_code(aside, code):
            return 0
        move = ctypes.PYFUNCTYPE(ctypes.c_long, word, ctypes.c_long, ctypes.c_long)(aside)
        rows, at = [], area
        for address, size, protection in ranges():
            if address not in (area, aside):
                rows += address, size, at, protection
                at += size
        if at > area + length or len(rows) * 8 > ASIDE - PAGE:
            return 0
        ctypes.memmove(aside + PAGE, struct.pack("%dQ" % len(rows), *rows), len(rows) * 8)
        n_moved = move(aside + PAGE, len(rows) // 4, memory)
        rest += sum(rows[1 : 4 * max(n_moved, 0) : 4])
        return n_moved
    finally:
        os.close(memory)
        libc.munmap(rest, area + length - rest)
        libc.munmap(aside, ASIDE)


# seeds

N_WORDS = 624


def state_of_random(module):
    """Address of its words, if they are at the expected place: after an object's header and the position."""
    head = object.__basicsize__
    if type(module._inst).__basicsize__ < head + 4 * (N_WORDS + 1):
        return None
    found = (ctypes.c_uint32 * (N_WORDS + 1)).from_address(id(module._inst) + head)
    _, (*words, position), gauss = module.getstate()
    if gauss is not None or found[:] != [position, *words]:
        return None
    found[0] = N_WORDS
    return ctypes.addressof(found) + 4


def state_of_numpy(module):
    """The same for numpy's: the words, then the position."""
    generator = module.mtrand._rand._bit_generator
    kind, words, position, has_gauss, _ = module.get_state()
    if kind != "MT19937" or has_gauss:
        return None
    found = (ctypes.c_uint32 * (N_WORDS + 1)).from_address(generator.ctypes.state_address)
    if found[:] != [*words.tolist(), position]:
        return None
    found[N_WORDS] = N_WORDS
    return ctypes.addressof(found)


class Seeds:
    """Seeds the generators again, so that no two workers draw the same numbers: some by calls in a list, if `in_place`,
    the others by `draw`."""

    def __init__(self, calls, in_place):
        self.others, self.n_in_place = [], 0
        for name, state_of in ("random", state_of_random), ("numpy.random", state_of_numpy):
            module = sys.modules.get(name)
            if not module:
                continue
            module.seed()
            try:
                address = in_place and state_of(module)
            except Exception:
                address = None
            if address:
                calls.call("getrandom", address, 4 * N_WORDS, 0)
                self.n_in_place += 1
            else:
                self.others.append(module)

    def draw(self):
        for module in self.others:
            module.seed()


# heap, code

# Blocks of one size share a pool of pages. There is a size for every 16 bytes; the C library places larger ones.
POOL, HEAD = 16_384 if sys.version_info >= (3, 10) else 4_096, 48
POOLED, SINGLE = range(32, 513, 16), range(16_384, 512, -16)
# More than the gaps of an interpreter whose memory is laid out as described here.
POOLED_GAPS_MAX, SINGLE_GAPS_MAX = 32 << 20, 4 << 20

closed = []


def close_gaps():
    """Takes and keeps the free blocks between those in use: of each size, until the next ones follow each other."""
    left = POOLED_GAPS_MAX
    for size in POOLED:
        taken, pool, n = [], None, 0
        # Not quite a whole pool: the bookkeeping here takes some blocks too.
        while n < (POOL - HEAD) // size - max(2, 256 // size) and len(taken) * size < left:
            # An object of that size: bytes have a header of 33, a float is 24.
            taken.append(bytes(size - 33) if size > 32 else float(len(taken)))
            at = id(taken[-1]) // POOL
            n, pool = (n + 1 if at == pool else 1), at
        left -= size * (len(taken) - n)
        closed.append(taken[:-n])
    left = SINGLE_GAPS_MAX
    for size in SINGLE:
        taken, last, n = [], 0, 0
        while n < 4 and len(taken) * size < left:
            taken.append(bytes(size - 41))
            n, last = (n + 1 if id(taken[-1]) == last + size else 1), id(taken[-1])
        left -= size * (len(taken) - n)
        closed.append(taken[:-n])


def gather(warm_ups):
    """Moves the code of all functions called by the warm-ups into one place, in the order of their first calls."""
    ran = {}

    def note(frame, event, _):
        if event == "call":
            ran.setdefault(id(frame.f_code), frame.f_code)

    def moved(code):
        inner = [moved(each) if id(each) in ran else each for each in code.co_consts]
        return code.replace(co_consts=tuple(inner))

    sys.setprofile(note)
    try:
        list(warm_ups)
    finally:
        sys.setprofile(None)
    functions = {}
    for each in gc.get_objects():
        if type(each) is type(gather) and id(each.__code__) in ran:
            functions.setdefault(id(each.__code__), []).append(each)
    gc.collect()
    close_gaps()
    for number, code in ran.items():
        if number in functions:
            copy = moved(code)
            # An interpreter whose `replace` changes more than asked keeps its code.
            if copy != code:
                continue
            for function in functions[number]:
                function.__code__ = copy
