"""Follows `program.py` in the same text: puts what every worker inherits on pages that lie side by side.

A fork and an exit visit each page that a worker has in common with the zygote. Pages of one large folio they visit together,
and single pages, as an interpreter has them, one after another, each a miss in every cache. It is done between two instructions
of this process, by code from the host. Where the kernel has no large folios to give, everything stays as it is.
"""
import ctypes
import struct

PAGE, HUGE = 4096, 2 << 20
# Where the code is, and after it room for the rows.
ASIDE = 16 * PAGE
PRIVATE_ANONYMOUS, MADV_HUGEPAGE = 0x22, 14
READ, WRITE, EXECUTE = 1, 2, 4


# Files that every run uses: the interpreter's.
with open("/proc/self/maps") as lines:
    FIRST = {line.split()[-1] for line in lines}


def mappings():
    """Each mapping of this process: start, end, rights, offset, name, and by its names in smaps how much of it is what, in KiB."""
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
    """Makes one mapping of those of a file that follow each other and that nobody writes, to read and to execute: a fork and an
    exit visit each. A program could make all of its memory executable anyway."""
    libc.mprotect.argtypes = [ctypes.c_ulong, ctypes.c_ulong, ctypes.c_int]
    found = []
    for start, end, rights, offset, name, kib in mappings():
        if name[:1] == "/" and rights in ("r--p", "r-xp") and kib["Anonymous:"] == "0":
            found.append((start, end, offset, name))
    for (start, middle, offset, name), (again, end, *rest) in zip(found, found[1:]):
        if again == middle and rest == [offset + middle - start, name]:
            libc.mprotect(start, end - start, READ | EXECUTE)


def ranges():
    """Private ranges of this process most of whose pages are there: address, length, protection."""
    chosen = []
    for start, end, rights, _, name, kib in mappings():
        usual = rights[0] == "r" and rights[3] == "p" and (name[:1] != "[" or name == "[heap]")
        # A library's code most runs do not touch, and what is on disk a fork and an exit pass over.
        usual = usual and (rights[1] == "w" or not name or name in FIRST)
        if usual and int(kib["Rss:"]) << 11 >= end - start:
            chosen.append((start, end - start, READ | WRITE * (rights[1] == "w") | EXECUTE * (rights[2] == "x")))
    return chosen


def is_huge(area):
    """Whether the kernel gave large folios for all of what begins here."""
    return any(kib["AnonHugePages:"] == kib["Size:"] for start, *_, kib in mappings() if start == area)


def room(length):
    """Memory of this process's own, to read and write."""
    word = ctypes.c_ulong
    libc.mmap.argtypes, libc.mmap.restype = [word, word, ctypes.c_int, ctypes.c_int, ctypes.c_int, word], word
    at = libc.mmap(0, length, READ | WRITE, PRIVATE_ANONYMOUS, -1, 0)
    if at == word(-1).value:
        raise MemoryError
    return at


def put_code(at, code):
    """Puts code onto a page of such memory; whether it can be executed there."""
    libc.mprotect.argtypes = [ctypes.c_ulong, ctypes.c_ulong, ctypes.c_int]
    ctypes.memmove(at, code, len(code))
    return libc.mprotect(at, PAGE, READ | EXECUTE) == 0


def pack(code):
    """Moves this process onto large folios; says how many ranges were moved."""
    word = ctypes.c_ulong
    libc.madvise.argtypes = [word, word, ctypes.c_int]
    libc.munmap.argtypes = [word, word]
    join()
    # Some more than now: what happens until they are moved needs memory too.
    length = (sum(size for _, size, _ in ranges()) // HUGE + 2) * HUGE
    raw = room(length + HUGE)
    area = -(-raw // HUGE) * HUGE
    if area > raw:
        libc.munmap(raw, area - raw)
    libc.munmap(area + length, raw + HUGE - area)
    aside = room(ASIDE)
    memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    # From here on the copies are still where they were made; what was below may be somebody else's by now.
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
