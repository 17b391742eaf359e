# presets: standard,data,open
from collections import defaultdict


class Graph:
    def __init__(self, edges, directed=False):
        self.adj = defaultdict(list)
        for a, b in edges:
            self.adj[a].append(b)
            if directed:
                self.adj[b]
            else:
                self.adj[b].append(a)

    def components(self):
        seen = set()
        for start in sorted(self.adj):
            if start in seen:
                continue
            stack, component = [start], []
            while stack:
                node = stack.pop()
                if node in seen:
                    continue
                seen.add(node)
                component.append(node)
                stack.extend(self.adj[node])
            yield sorted(component)

    def find_cycle(self):
        WHITE, GREY, BLACK = range(3)
        colour = defaultdict(int)
        path = []

        def visit(node):
            colour[node] = GREY
            path.append(node)
            for nxt in self.adj[node]:
                if colour[nxt] == GREY:
                    return path[path.index(nxt) :] + [nxt]
                if colour[nxt] == WHITE and (found := visit(nxt)):
                    return found
            path.pop()
            colour[node] = BLACK
            return None

        return next((c for n in sorted(self.adj) if colour[n] == WHITE and (c := visit(n))), None)

    def bipartite(self):
        side = {}
        for start in sorted(self.adj):
            stack = [(start, side.get(start, 0))]
            while stack:
                node, s = stack.pop()
                if node in side:
                    if side[node] != s:
                        return None
                    continue
                side[node] = s
                stack.extend((n, 1 - s) for n in self.adj[node])
        return [sorted(n for n in side if side[n] == s) for s in (0, 1)]


print(list(Graph([(1, 2), (2, 3), (4, 5), (6, 6)]).components()))
print(Graph([("a", "b"), ("b", "c"), ("c", "d"), ("d", "b")], directed=True).find_cycle())
print(Graph([("a", "b"), ("a", "c"), ("b", "d")], directed=True).find_cycle())
print(Graph([(1, 2), (2, 3), (3, 4), (4, 1)]).bipartite(), Graph([(1, 2), (2, 3), (3, 1)]).bipartite())
