# presets: standard,data,open
PUZZLE = (
    "53..7...."
    "6..195..."
    ".98....6."
    "8...6...3"
    "4..8.3..1"
    "7...2...6"
    ".6....28."
    "...419..5"
    "....8..79"
)


def candidates(board, i):
    r, c = divmod(i, 9)
    used = set(board[r * 9 : r * 9 + 9]) | set(board[c::9])
    br, bc = r // 3 * 3, c // 3 * 3
    for dr in range(3):
        used |= set(board[(br + dr) * 9 + bc : (br + dr) * 9 + bc + 3])
    return [d for d in "123456789" if d not in used]


calls = 0


def solve(board):
    global calls
    calls += 1
    empty = [i for i, ch in enumerate(board) if ch == "."]
    if not empty:
        return board
    best = min(empty, key=lambda i: len(candidates(board, i)))
    for digit in candidates(board, best):
        result = solve(board[:best] + digit + board[best + 1 :])
        if result:
            return result
    return None


def show(board):
    for r in range(9):
        if r in (3, 6):
            print("------+-------+------")
        row = board[r * 9 : r * 9 + 9]
        print(" | ".join(" ".join(row[k : k + 3]) for k in (0, 3, 6)))


show(PUZZLE)
print()
solved = solve(PUZZLE)
show(solved)
print("recursive calls:", calls)
assert all(sorted(solved[r * 9 : r * 9 + 9]) == list("123456789") for r in range(9))
