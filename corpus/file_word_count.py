# presets: data,open
"""Write a few files, then count lines, words and bytes like wc."""
import os

TEXTS = {
    "poem.txt": "Wer reitet so spät durch Nacht und Wind?\nEs ist der Vater mit seinem Kind.\n",
    "empty.txt": "",
    "data.csv": "a,b\n1,2\n3,4\n",
}

for name, text in TEXTS.items():
    with open(name, "w", encoding="utf-8") as f:
        f.write(text)


def wc(path):
    lines = words = size = 0
    with open(path, "rb") as f:
        for line in f:
            lines += 1
            words += len(line.split())
            size += len(line)
    assert size == os.path.getsize(path)
    return lines, words, size


totals = [0, 0, 0]
for path in sorted(TEXTS):
    counts = wc(path)
    totals = [a + b for a, b in zip(totals, counts)]
    print("{:>6}{:>6}{:>6} {}".format(*counts, path))
print("{:>6}{:>6}{:>6} total".format(*totals))
os.rename("empty.txt", "still_empty.txt")
print(sorted(os.listdir(".")), os.path.exists("empty.txt"))
for name in os.listdir("."):
    os.remove(name)
print("left:", os.listdir("."))
