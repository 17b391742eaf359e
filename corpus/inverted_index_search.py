# presets: standard,data,open
import math
import re
from collections import Counter, defaultdict

DOCS = {
    1: "The quick brown fox jumps over the lazy dog",
    2: "A fast brown fox and a quick red fox met near the river",
    3: "The dog sleeps all day; the lazy dog never runs",
    4: "Rivers and lakes: where the heron fishes",
}


def tokens(text):
    for word in re.findall(r"[a-z]+", text.lower()):
        yield word[:-1] if word.endswith("s") and len(word) > 3 else word


index = defaultdict(Counter)
lengths = {}
for doc, text in DOCS.items():
    words = list(tokens(text))
    lengths[doc] = len(words)
    for word in words:
        index[word][doc] += 1


def search(query):
    scores = Counter()
    for word in tokens(query):
        postings = index.get(word)
        if not postings:
            continue
        idf = math.log(1 + len(DOCS) / len(postings))
        for doc, tf in postings.items():
            scores[doc] += tf / lengths[doc] * idf
    return sorted(scores.items(), key=lambda kv: (-kv[1], kv[0]))


def boolean(query):
    sets = [set(index[next(tokens(w))]) for w in query.split(" AND ")]
    return sorted(set.intersection(*sets))


for q in ("lazy dogs", "quick fox", "river heron", "unicorn"):
    print(f"{q!r}:", [(d, round(s, 4)) for d, s in search(q)])
print(boolean("brown AND fox"), boolean("the AND lazy AND dog"))
print("vocabulary:", len(index), "most widespread:", max(sorted(index), key=lambda w: len(index[w])))
