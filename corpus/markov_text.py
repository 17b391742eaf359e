# presets: standard,data,open
import random
from collections import defaultdict

CORPUS = """the cat sat on the mat and the dog sat on the rug while the cat watched the dog
and the dog watched the bird that sat on the branch above the mat and sang to the cat"""


def build(words, order=2):
    chain = defaultdict(list)
    for i in range(len(words) - order):
        chain[tuple(words[i : i + order])].append(words[i + order])
    return chain


def generate(chain, rng, length=15):
    state = rng.choice(sorted(chain))
    out = list(state)
    while len(out) < length and chain.get(state):
        nxt = rng.choice(chain[state])
        out.append(nxt)
        state = state[1:] + (nxt,)
    return " ".join(out)


words = CORPUS.split()
chain = build(words)
rng = random.Random(2024)
for i in range(4):
    print(f"{i + 1}. {generate(chain, rng).capitalize()}.")
print("states:", len(chain))
branching = sorted((k for k, v in chain.items() if len(set(v)) > 1), key=lambda k: (-len(chain[k]), k))
for state in branching[:3]:
    print(" ".join(state), "->", sorted(set(chain[state])))
