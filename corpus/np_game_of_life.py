# presets: data,open
# needs: numpy
import numpy as np


def step(board):
    neighbours = sum(
        np.roll(np.roll(board, dy, 0), dx, 1)
        for dy in (-1, 0, 1)
        for dx in (-1, 0, 1)
        if (dy, dx) != (0, 0)
    )
    return ((neighbours == 3) | (board & (neighbours == 2))).astype(np.uint8)


def show(board):
    print("\n".join("".join("█" if c else "·" for c in row) for row in board))


board = np.zeros((10, 20), dtype=np.uint8)
board[1:4, 1:4] = [[0, 1, 0], [0, 0, 1], [1, 1, 1]]
board[6, 12:15] = 1
show(board)
population = []
for _ in range(40):
    population.append(int(board.sum()))
    board = step(board)
print("population:", population[:10], "...", population[-1])
show(board)

rng = np.random.default_rng(7)
soup = (rng.random((64, 64)) < 0.3).astype(np.uint8)
start = int(soup.sum())
for _ in range(50):
    soup = step(soup)
print("soup shrinks:", start > int(soup.sum()) > 0)
