# presets: standard,data,open
import heapq

GRID = [
    "S.........",
    "..######..",
    "..#....#..",
    "..#.##.#..",
    "....#..#..",
    "..###..#..",
    "......##..",
    "..........",
    "####.#####",
    ".........G",
]


def neighbours(pos):
    r, c = pos
    for dr in (-1, 0, 1):
        for dc in (-1, 0, 1):
            nr, nc = r + dr, c + dc
            if (dr or dc) and 0 <= nr < len(GRID) and 0 <= nc < len(GRID[0]) and GRID[nr][nc] != "#":
                yield (nr, nc), 14 if dr and dc else 10


def heuristic(a, b):
    dr, dc = abs(a[0] - b[0]), abs(a[1] - b[1])
    return 10 * max(dr, dc) + 4 * min(dr, dc)


def a_star(start, goal):
    frontier = [(heuristic(start, goal), 0, start)]
    came, cost = {start: None}, {start: 0}
    expanded = 0
    while frontier:
        _, g, cur = heapq.heappop(frontier)
        if cur == goal:
            path = []
            while cur:
                path.append(cur)
                cur = came[cur]
            return path[::-1], g, expanded
        if g > cost[cur]:
            continue
        expanded += 1
        for nxt, step in neighbours(cur):
            new = g + step
            if new < cost.get(nxt, 1 << 30):
                cost[nxt], came[nxt] = new, cur
                heapq.heappush(frontier, (new + heuristic(nxt, goal), new, nxt))
    return None, None, expanded


path, cost, expanded = a_star((0, 0), (9, 9))
print("cost", cost, "steps", len(path) - 1, "expanded", expanded)
cells = set(path)
for r, row in enumerate(GRID):
    print("".join("*" if (r, c) in cells and ch == "." else ch for c, ch in enumerate(row)))
