# presets: standard,data,open
def table(rows, headers, align=None):
    cells = [[str(h) for h in headers]] + [[f"{v:,.2f}" if isinstance(v, float) else str(v) for v in r] for r in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headers))]
    align = align or ["<"] * len(headers)

    def line(left, mid, right):
        return left + mid.join("─" * (w + 2) for w in widths) + right

    def render(row, aligns):
        return "│" + "│".join(f" {c:{a}{w}} " for c, a, w in zip(row, aligns, widths)) + "│"

    out = [line("┌", "┬", "┐"), render(cells[0], ["^"] * len(widths)), line("├", "┼", "┤")]
    out += [render(row, align) for row in cells[1:]]
    out.append(line("└", "┴", "┘"))
    return "\n".join(out)


data = [
    ("Mercury", 57.9, 0.055, 0),
    ("Venus", 108.2, 0.815, 0),
    ("Earth", 149.6, 1.0, 1),
    ("Mars", 227.9, 0.107, 2),
    ("Jupiter", 778.6, 317.8, 95),
    ("Saturn", 1433.5, 95.2, 146),
]
print(table(data, ["Planet", "Distance", "Mass", "Moons"], ["<", ">", ">", ">"]))
print()
print(table(sorted(data, key=lambda r: -r[2])[:2], ["Heaviest", "km·10⁶", "Earths", "Moons"]))
