# presets: standard,data,open
from collections import Counter


def step(cells):
    neighbours = Counter(
        (r + dr, c + dc)
        for r, c in cells
        for dr in (-1, 0, 1)
        for dc in (-1, 0, 1)
        if (dr, dc) != (0, 0)
    )
    return {pos for pos, n in neighbours.items() if n == 3 or (n == 2 and pos in cells)}


def parse(text):
    return {(r, c) for r, line in enumerate(text.splitlines()) for c, ch in enumerate(line) if ch == "O"}


def render(cells, rows, cols):
    return "\n".join("".join("O" if (r, c) in cells else "." for c in range(cols)) for r in range(rows))


glider = parse(".O.\n..O\nOOO")
world = set(glider)
for generation in range(9):
    if generation % 4 == 0:
        print(f"generation {generation}, population {len(world)}")
        print(render(world, 7, 7))
    world = step(world)

blinker = parse("OOO")
assert step(step(blinker)) == blinker
r_pentomino = parse(".OO\nOO.\n.O.")
history = []
for _ in range(100):
    history.append(len(r_pentomino))
    r_pentomino = step(r_pentomino)
print("R-pentomino populations:", history[::10])
