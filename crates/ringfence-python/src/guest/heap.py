"""Follows `seeds.py` in the same text: places the objects that runs use side by side.

A worker copies every page that it changes, and it changes each object it uses, if only its reference count. Imports
leave such objects among many that no run touches, with gaps between them into which a run would put its own.
"""
import gc
import sys

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
            for function in functions[number]:
                function.__code__ = copy
