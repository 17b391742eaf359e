# presets: standard,data,open
def popcount(n):
    count = 0
    while n:
        n &= n - 1
        count += 1
    return count


def reverse_bits(n, width=8):
    out = 0
    for _ in range(width):
        out = out << 1 | n & 1
        n >>= 1
    return out


def gray(n):
    return n ^ n >> 1


def single_number(nums):
    acc = 0
    for n in nums:
        acc ^= n
    return acc


class BitSet:
    def __init__(self, values=()):
        self.bits = 0
        for v in values:
            self.bits |= 1 << v

    def __contains__(self, v):
        return bool(self.bits >> v & 1)

    def __iter__(self):
        b = self.bits
        while b:
            low = b & -b
            yield low.bit_length() - 1
            b ^= low

    def __and__(self, other):
        out = BitSet()
        out.bits = self.bits & other.bits
        return out

    def __len__(self):
        return popcount(self.bits)


print([popcount(n) for n in range(16)])
print(f"{reverse_bits(0b00010110):08b}", f"{~5 & 0xFF:08b}", 1 << 10, -17 >> 2)
print([f"{gray(n):03b}" for n in range(8)])
print(single_number([4, 1, 2, 1, 2]))
evens, threes = BitSet(range(0, 60, 2)), BitSet(range(0, 60, 3))
both = evens & threes
print(list(both), len(both), 12 in both, 13 in both)
print((1023).to_bytes(2, "big"), int.from_bytes(b"\x03\xff", "little", signed=True), hex(0xDEAD ^ 0xBEEF))
