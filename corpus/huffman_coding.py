# presets: standard,data,open
import heapq
from collections import Counter


def build_codes(text):
    heap = [(count, i, ch) for i, (ch, count) in enumerate(sorted(Counter(text).items()))]
    heapq.heapify(heap)
    n = len(heap)
    while len(heap) > 1:
        a = heapq.heappop(heap)
        b = heapq.heappop(heap)
        heapq.heappush(heap, (a[0] + b[0], n, (a[2], b[2])))
        n += 1
    codes = {}

    def walk(node, prefix):
        if isinstance(node, tuple):
            walk(node[0], prefix + "0")
            walk(node[1], prefix + "1")
        else:
            codes[node] = prefix or "0"

    walk(heap[0][2], "")
    return codes


def decode(bits, codes):
    reverse = {v: k for k, v in codes.items()}
    out, cur = [], ""
    for b in bits:
        cur += b
        if cur in reverse:
            out.append(reverse[cur])
            cur = ""
    return "".join(out)


text = "she sells sea shells by the sea shore; the shells she sells are surely seashells"
codes = build_codes(text)
encoded = "".join(codes[c] for c in text)
assert decode(encoded, codes) == text
for ch, code in sorted(codes.items(), key=lambda kv: (len(kv[1]), kv[1]))[:8]:
    print(repr(ch), code)
print(f"{len(text) * 8} bits -> {len(encoded)} bits ({len(encoded) / len(text) / 8:.1%})")
print(encoded[:60] + "…")
