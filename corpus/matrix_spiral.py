# presets: standard,data,open
def spiral(rows, cols):
    grid = [[0] * cols for _ in range(rows)]
    r = c = 0
    dr, dc = 0, 1
    for n in range(1, rows * cols + 1):
        grid[r][c] = n
        nr, nc = r + dr, c + dc
        if not (0 <= nr < rows and 0 <= nc < cols) or grid[nr][nc]:
            dr, dc = dc, -dr
            nr, nc = r + dr, c + dc
        r, c = nr, nc
    return grid


def rotate(grid):
    return [list(row) for row in zip(*grid[::-1])]


def unspiral(grid):
    while grid:
        yield from grid[0]
        grid = [list(row) for row in zip(*grid[1:])][::-1]


def show(grid):
    width = len(str(max(map(max, grid))))
    for row in grid:
        print(" ".join(f"{v:>{width}}" for v in row))
    print()


show(spiral(4, 5))
show(rotate(spiral(3, 3)))
print(list(unspiral([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]])))
pascal = [[1]]
for _ in range(7):
    last = pascal[-1]
    pascal.append([1] + [a + b for a, b in zip(last, last[1:])] + [1])
for row in pascal:
    print(" ".join(map(str, row)).center(30).rstrip())
assert list(unspiral(spiral(6, 7))) == list(range(1, 43))
