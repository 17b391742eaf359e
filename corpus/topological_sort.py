# presets: standard,data,open
from collections import defaultdict, deque


class CycleError(ValueError):
    pass


def topological(dependencies):
    indegree = defaultdict(int)
    dependents = defaultdict(list)
    nodes = set(dependencies)
    for task, needs in dependencies.items():
        for need in needs:
            nodes.add(need)
            dependents[need].append(task)
            indegree[task] += 1
    ready = deque(sorted(n for n in nodes if indegree[n] == 0))
    order = []
    while ready:
        node = ready.popleft()
        order.append(node)
        for d in sorted(dependents[node]):
            indegree[d] -= 1
            if indegree[d] == 0:
                ready.append(d)
    if len(order) != len(nodes):
        raise CycleError(f"cycle among {sorted(nodes - set(order))}")
    return order


build = {
    "app": ["lib", "config"],
    "lib": ["core", "utils"],
    "utils": ["core"],
    "tests": ["app", "fixtures"],
    "config": [],
    "fixtures": ["config"],
}
order = topological(build)
print(" < ".join(order))
position = {n: i for i, n in enumerate(order)}
assert all(position[d] < position[t] for t, deps in build.items() for d in deps)

build["core"] = ["tests"]
try:
    topological(build)
except CycleError as e:
    print("CycleError:", e)
