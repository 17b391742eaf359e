# presets: standard,data,open
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque, namedtuple

Point = namedtuple("Point", "x y z", defaults=[0])
p = Point(1, 2)
print(p, p._replace(z=9), p._asdict())

window = deque(maxlen=3)
for n in range(6):
    window.append(n)
    print(list(window), end=" ")
print()

inventory = Counter(apples=3, pears=1)
inventory.update(["apples", "plums"])
inventory.subtract({"pears": 2})
print(inventory["apples"], inventory["pears"], inventory["kiwis"])
print(sorted((inventory + Counter(pears=5)).items()))

index = defaultdict(set)
for doc, words in enumerate(["red fish", "blue fish", "red bird"]):
    for word in words.split():
        index[word].add(doc)
print({w: sorted(docs) for w, docs in sorted(index.items())})

defaults = {"color": "auto", "verbose": False}
user = {"color": "never"}
settings = ChainMap({}, user, defaults)
settings["verbose"] = True
print(settings["color"], settings["verbose"], defaults["verbose"])

lru = OrderedDict()
for key in "abcab":
    lru[key] = lru.pop(key, 0) + 1
    if len(lru) > 2:
        print("evict", lru.popitem(last=False))
print(list(lru.items()))
