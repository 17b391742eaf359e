# presets: standard,data,open
WIDTH, HEIGHT, LIMIT = 64, 22, 40
PALETTE = " .:-=+*#%@"


def escape(c):
    z = 0j
    for n in range(LIMIT):
        z = z * z + c
        if abs(z) > 2:
            return n
    return LIMIT


inside = 0
for row in range(HEIGHT):
    y = -1.2 + 2.4 * row / (HEIGHT - 1)
    line = ""
    for col in range(WIDTH):
        x = -2.1 + 3.0 * col / (WIDTH - 1)
        n = escape(complex(x, y))
        inside += n == LIMIT
        line += PALETTE[min(n * len(PALETTE) // LIMIT, len(PALETTE) - 1)]
    print(line.rstrip())
print(f"{inside} of {WIDTH * HEIGHT} points inside")
