# expect: ok
from collections import defaultdict, deque


def shortest_path(edges, start, goal):
    graph = defaultdict(list)
    for a, b in edges:
        graph[a].append(b)
        graph[b].append(a)
    queue, seen = deque([[start]]), {start}
    while queue:
        path = queue.popleft()
        if path[-1] == goal:
            return path
        for n in sorted(graph[path[-1]]):
            if n not in seen:
                seen.add(n)
                queue.append(path + [n])


def topological(tasks):
    order, state = [], {}

    def visit(task):
        if state.get(task) == "open":
            raise ValueError(f"cycle at {task}")
        if task not in state:
            state[task] = "open"
            for needed in tasks.get(task, ()):
                visit(needed)
            state[task] = "done"
            order.append(task)

    for task in tasks:
        visit(task)
    return order


print(shortest_path([(1, 2), (2, 3), (1, 4), (4, 5), (5, 3), (3, 6)], 1, 6))
print(topological({"deploy": ["test", "build"], "test": ["build"], "build": []}))
