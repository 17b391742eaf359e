# expect: ok
import heapq

GRAPH = {
    "A": {"B": 7, "C": 3},
    "B": {"D": 2},
    "C": {"B": 1, "D": 8},
    "D": {"E": 4},
    "E": {},
}


def dijkstra(graph, start):
    distance, previous = {start: 0}, {}
    queue = [(0, start)]
    while queue:
        d, node = heapq.heappop(queue)
        if d > distance[node]:
            continue
        for neighbour, weight in graph[node].items():
            if d + weight < distance.get(neighbour, float("inf")):
                distance[neighbour] = d + weight
                previous[neighbour] = node
                heapq.heappush(queue, (d + weight, neighbour))
    return distance, previous


distance, previous = dijkstra(GRAPH, "A")
path, node = ["E"], "E"
while node in previous:
    node = previous[node]
    path.append(node)
print(distance, " -> ".join(reversed(path)))
print(heapq.nsmallest(2, [5, 1, 4, 2]), list(heapq.merge([1, 4], [2, 3])))
