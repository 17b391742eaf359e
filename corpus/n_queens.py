# presets: standard,data,open
def queens(n):
    solutions = []

    def place(row, cols, diag1, diag2, board):
        if row == n:
            solutions.append(tuple(board))
            return
        for col in range(n):
            if col in cols or row + col in diag1 or row - col in diag2:
                continue
            place(row + 1, cols | {col}, diag1 | {row + col}, diag2 | {row - col}, board + [col])

    place(0, frozenset(), frozenset(), frozenset(), [])
    return solutions


def draw(solution):
    for col in solution:
        print(" ".join("♛" if c == col else "·" for c in range(len(solution))))


for n in range(1, 8):
    print(f"{n} queens: {len(queens(n))} solutions")
all8 = queens(8)
print("8 queens:", len(all8))
draw(all8[0])


def symmetries(s):
    n = len(s)
    rotate = lambda q: tuple(n - 1 - q.index(i) for i in range(n))
    out = set()
    for q in (s, s[::-1]):
        for _ in range(4):
            out.add(q)
            q = rotate(q)
    return out


unique = []
seen = set()
for s in all8:
    if s not in seen:
        unique.append(s)
        seen |= symmetries(s)
print("unique up to symmetry:", len(unique))
