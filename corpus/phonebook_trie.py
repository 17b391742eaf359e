# presets: standard,data,open
class Trie:
    def __init__(self):
        self.children = {}
        self.value = None

    def __setitem__(self, key, value):
        node = self
        for ch in key.casefold():
            node = node.children.setdefault(ch, Trie())
        node.value = value

    def _find(self, prefix):
        node = self
        for ch in prefix.casefold():
            node = node.children.get(ch)
            if node is None:
                return None
        return node

    def __getitem__(self, key):
        node = self._find(key)
        if node is None or node.value is None:
            raise KeyError(key)
        return node.value

    def __contains__(self, key):
        try:
            self[key]
        except KeyError:
            return False
        return True

    def items(self, prefix=""):
        node = self._find(prefix)
        if node is None:
            return
        if node.value is not None:
            yield prefix.casefold(), node.value
        for ch in sorted(node.children):
            yield from self.items(prefix + ch)


book = Trie()
for name, number in [("Anna", "101"), ("Anton", "102"), ("Antonia", "103"), ("Bert", "201"), ("Ágnes", "301"), ("Benno", "202")]:
    book[name] = number

print(list(book.items("ant")))
print(list(book.items("B")))
print(book["ÁGNES"], "Anton" in book, "Ant" in book)
try:
    book["Zed"]
except KeyError as e:
    print("KeyError", e)
print(sum(1 for _ in book.items()), "entries;", [n for n, _ in book.items()])
