# expect: ok
lines = ["apples 3", "pears 5", "plums 12"]
with open("fruit.txt", "w", encoding="utf-8") as f:
    f.write("\n".join(lines) + "\n")

total = 0
with open("fruit.txt", encoding="utf-8") as f:
    for number, line in enumerate(f, start=1):
        name, count = line.split()
        total += int(count)
        print(f"{number}: {name:<8}{count:>4}")

with open("fruit.txt", "a", encoding="utf-8") as f:
    f.write(f"total {total}\n")
print(open("fruit.txt").read())
