# presets: standard,data,open
from collections import deque

MAZE = """
#################
#S..#.......#...#
##.##.#####.#.#.#
#.....#...#...#.#
#.#####.#.#####.#
#.#.....#.......#
#.#.###########.#
#...#..........E#
#################
""".strip().splitlines()


def find(symbol):
    for r, row in enumerate(MAZE):
        for c, ch in enumerate(row):
            if ch == symbol:
                return r, c
    raise ValueError(symbol)


def solve(start, end):
    queue = deque([start])
    parent = {start: None}
    while queue:
        cur = queue.popleft()
        if cur == end:
            path = []
            while cur is not None:
                path.append(cur)
                cur = parent[cur]
            return path[::-1]
        r, c = cur
        for dr, dc in ((0, 1), (1, 0), (0, -1), (-1, 0)):
            nxt = (r + dr, c + dc)
            if MAZE[nxt[0]][nxt[1]] != "#" and nxt not in parent:
                parent[nxt] = cur
                queue.append(nxt)
    return None


path = solve(find("S"), find("E"))
if path is None:
    print("no way out")
else:
    print("steps:", len(path) - 1)
    grid = [list(row) for row in MAZE]
    for r, c in path[1:-1]:
        grid[r][c] = "·"
    print("\n".join("".join(row) for row in grid))
