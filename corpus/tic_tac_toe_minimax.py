# presets: standard,data,open
from functools import lru_cache

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def winner(board):
    for a, b, c in LINES:
        if board[a] != " " and board[a] == board[b] == board[c]:
            return board[a]
    return "draw" if " " not in board else None


@lru_cache(maxsize=None)
def minimax(board, player):
    """Return (score for X, best move)."""
    won = winner(board)
    if won:
        return {"X": 1, "O": -1, "draw": 0}[won], None
    best = None
    for i, ch in enumerate(board):
        if ch == " ":
            score, _ = minimax(board[:i] + player + board[i + 1 :], "O" if player == "X" else "X")
            if best is None or (score > best[0] if player == "X" else score < best[0]):
                best = (score, i)
    return best


def show(board):
    print("\n-+-+-\n".join("|".join(board[r : r + 3]) for r in (0, 3, 6)))
    print()


board, player = " " * 9, "X"
while not winner(board):
    _, move = minimax(board, player)
    board = board[:move] + player + board[move + 1 :]
    player = "O" if player == "X" else "X"
show(board)
print("result:", winner(board))
print("positions searched:", minimax.cache_info().currsize)
score, move = minimax("XX OO    ", "O")
print("O to move wins at", move, "score", score)
