"""Follows `calls.py` in the same text: no two workers draw the same random numbers.

The generators that modules share keep their state in 624 words, which the kernel can fill. Seeding one as its module does takes
a worker up to a millisecond and copies of 160 pages. What is found here is compared with what the module says of itself; where
it differs, the module's own way is taken.
"""
import ctypes

N_WORDS = 624


def state_of_random(module):
    """Where its words are, if they are where they should be: behind an object's head and the position."""
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
    """Draws them anew: some by calls in a list, the others when asked to."""

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
