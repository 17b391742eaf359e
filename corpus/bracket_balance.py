# presets: standard,data,open
PAIRS = {")": "(", "]": "[", "}": "{", "⟩": "⟨"}


def check(text):
    stack = []
    for i, ch in enumerate(text):
        if ch in PAIRS.values():
            stack.append((ch, i))
        elif ch in PAIRS:
            if not stack:
                return f"unexpected {ch!r} at {i}"
            opening, at = stack.pop()
            if opening != PAIRS[ch]:
                return f"{opening!r} at {at} closed by {ch!r} at {i}"
    if stack:
        return f"{stack[-1][0]!r} at {stack[-1][1]} never closed"
    return "balanced"


for text in ["", "()", "([]{})", "(]", "((", "a(b[c]d)e}", "⟨x, y⟩", "print('hi'))"]:
    print(f"{text:<14} {check(text)}")
print(sum(check(t) == "balanced" for t in ("(())", "()()", "(()", "[(])")), "of 4 balanced")
