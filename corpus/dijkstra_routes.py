# presets: standard,data,open
import heapq
from collections import defaultdict

edges = [
    ("Berlin", "Hamburg", 289), ("Berlin", "Leipzig", 190), ("Leipzig", "München", 433),
    ("Hamburg", "Köln", 427), ("Köln", "Frankfurt", 190), ("Frankfurt", "München", 393),
    ("Leipzig", "Frankfurt", 395), ("Frankfurt", "Nürnberg", 225), ("Nürnberg", "München", 170),
]

graph = defaultdict(dict)
for a, b, km in edges:
    graph[a][b] = km
    graph[b][a] = km


def shortest(start, goal):
    queue = [(0, start, [start])]
    seen = set()
    while queue:
        dist, node, path = heapq.heappop(queue)
        if node == goal:
            return dist, path
        if node in seen:
            continue
        seen.add(node)
        for nxt, km in graph[node].items():
            if nxt not in seen:
                heapq.heappush(queue, (dist + km, nxt, path + [nxt]))
    return float("inf"), []


for goal in ("München", "Köln", "Nürnberg", "Berlin"):
    km, path = shortest("Berlin", goal)
    print(f"Berlin → {goal}: {km} km via {' → '.join(path)}")
print(shortest("Berlin", "Paris"))
