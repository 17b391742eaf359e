# expect: ok
import re
import string
from collections import Counter

TEXT = """It was the best of times, it was the worst of times, it was the age of wisdom,
it was the age of foolishness. Was it? It was!"""

words = re.findall(r"[a-z']+", TEXT.lower())
sentences = [s for s in re.split(r"[.!?]+", TEXT) if s.strip()]
counts = Counter(words)

print(f"{len(TEXT)} characters, {len(words)} words, {len(sentences)} sentences")
print(f"average word length {sum(map(len, words)) / len(words):.2f}")
print(f"distinct words {len(counts)} ({len(counts) / len(words):.0%})")
for word, n in counts.most_common(4):
    print(f"  {word:<6} {'*' * n}")
bigrams = Counter(zip(words, words[1:]))
print(bigrams.most_common(2))
letters = Counter(c for c in TEXT.lower() if c in string.ascii_lowercase)
print("unused letters:", "".join(sorted(set(string.ascii_lowercase) - set(letters))))
