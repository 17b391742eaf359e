# presets: standard,data,open
class UnionFind:
    def __init__(self, items):
        self.parent = {x: x for x in items}
        self.rank = {x: 0 for x in self.parent}
        self.count = len(self.parent)

    def find(self, x):
        while self.parent[x] != x:
            self.parent[x] = self.parent[self.parent[x]]
            x = self.parent[x]
        return x

    def union(self, a, b):
        a, b = self.find(a), self.find(b)
        if a == b:
            return False
        if self.rank[a] < self.rank[b]:
            a, b = b, a
        self.parent[b] = a
        self.rank[a] += self.rank[a] == self.rank[b]
        self.count -= 1
        return True


edges = [
    (7, "A", "D"), (4, "A", "B"), (8, "B", "C"), (9, "B", "D"), (5, "B", "E"), (5, "C", "E"),
    (15, "D", "E"), (6, "D", "F"), (8, "E", "F"), (9, "E", "G"), (11, "F", "G"),
]

uf = UnionFind("ABCDEFG")
total = 0
for weight, a, b in sorted(edges):
    taken = uf.union(a, b)
    total += weight * taken
    print(f"{a}-{b} {weight:>2} {'take' if taken else 'skip'} components={uf.count}")
print("minimum spanning tree weight:", total)
total
