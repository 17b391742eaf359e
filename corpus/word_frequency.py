# presets: standard,data,open
import re
from collections import Counter

text = """
It was the best of times, it was the worst of times, it was the age of wisdom,
it was the age of foolishness, it was the epoch of belief, it was the epoch of
incredulity, it was the season of Light, it was the season of Darkness, it was
the spring of hope, it was the winter of despair.
"""

words = re.findall(r"[a-z']+", text.lower())
counts = Counter(words)

print(f"Total words: {len(words)}")
print(f"Unique words: {len(counts)}")
print()
print("Top 8 words")
print("-" * 30)
for word, n in sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))[:8]:
    bar = "#" * n
    print(f"{word:<10} {n:>3} {bar}")

stopwords = {"it", "was", "the", "of"}
content = Counter(w for w in words if w not in stopwords)
print()
print("Without stopwords:", sorted(content, key=lambda w: (-content[w], w))[:6])
lengths = Counter(map(len, words))
print("By length:", dict(sorted(lengths.items())))
