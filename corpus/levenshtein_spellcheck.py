# presets: standard,data,open
from difflib import SequenceMatcher, get_close_matches, unified_diff


def levenshtein(a, b):
    if len(a) < len(b):
        a, b = b, a
    previous = list(range(len(b) + 1))
    for i, ca in enumerate(a, 1):
        current = [i]
        for j, cb in enumerate(b, 1):
            current.append(min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (ca != cb)))
        previous = current
    return previous[-1]


DICTIONARY = ["accommodate", "necessary", "separate", "definitely", "receive", "occurrence", "rhythm", "weird"]
for typo in ["acommodate", "neccessary", "seperate", "definately", "recieve", "occurence", "rythm", "wierd"]:
    best = min(DICTIONARY, key=lambda w: (levenshtein(w, typo), w))
    ratio = SequenceMatcher(None, typo, best).ratio()
    print(f"{typo:<12} -> {best:<12} distance {levenshtein(typo, best)} ratio {ratio:.2f}")

print(get_close_matches("occured", DICTIONARY, n=2, cutoff=0.5))
old = "alpha\nbeta\ngamma\ndelta\n".splitlines(keepends=True)
new = "alpha\nbeta!\ngamma\nepsilon\n".splitlines(keepends=True)
print("".join(unified_diff(old, new, "before", "after")), end="")
