"""Follows `program.py` in the same text: puts the memory that every worker inherits on pages that lie side by side.

A fork and an exit visit each page that a worker shares with the zygote. They visit the pages of a large folio together,
and single pages, as an interpreter has them, one by one, each a miss in every cache. The move is done between two
instructions of this process, by code from the host. If the kernel has no large folios, everything stays as it is.
"""
import ctypes
import struct

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
