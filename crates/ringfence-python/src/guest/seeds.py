"""Follows `calls.py` in the same text: no two workers draw the same random numbers.

The generators that modules share keep their state in 624 words, which the kernel can fill. Seeding one by its module
takes a worker up to a millisecond and copies 160 pages. The state found here is compared with the state that the
module reports; if they differ, the module's own seeding is used.
"""
import ctypes

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
    """Seeds the generators again: some by calls in a list, the others by `draw`."""

    def __init__(self, calls):
        self.others = []
        for name, state_of in ("random", state_of_random), ("numpy.random", state_of_numpy):
            module = sys.modules.get(name)
            if not module:
                continue
            module.seed()
            try:
                address = state_of(module)
            except Exception:
                address = None
            if address:
                calls.call("getrandom", address, 4 * N_WORDS, 0)
            else:
                self.others.append(module)

    def draw(self):
        for module in self.others:
            module.seed()
