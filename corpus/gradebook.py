# presets: standard,data,open
from collections import defaultdict
from statistics import mean, median

RAW = """
Maja;Math;92
Maja;Physics;85
Noé;Math;78
Noé;Physics;91
Noé;Art;100
Olu;Math;64
Olu;Art;absent
Pia;Physics;88
Pia;Math;95
Pia;Art;73
"""

grades = defaultdict(dict)
problems = []
for line in RAW.strip().splitlines():
    student, subject, mark = line.split(";")
    try:
        grades[student][subject] = int(mark)
    except ValueError:
        problems.append(f"{student}/{subject}: {mark!r}")


def letter(avg):
    for limit, grade in ((90, "A"), (80, "B"), (70, "C"), (60, "D")):
        if avg >= limit:
            return grade
    return "F"


subjects = sorted({s for marks in grades.values() for s in marks})
print(f"{'':<8}" + "".join(f"{s:>9}" for s in subjects) + f"{'avg':>9}")
for student, marks in sorted(grades.items(), key=lambda kv: -mean(kv[1].values())):
    row = "".join(f"{marks.get(s, '–'):>9}" for s in subjects)
    avg = mean(marks.values())
    print(f"{student:<8}{row}{avg:>8.1f}{letter(avg)}")
for s in subjects:
    column = [m[s] for m in grades.values() if s in m]
    print(f"{s}: median {median(column)}, best {max(grades, key=lambda st: grades[st].get(s, -1))}")
print("problems:", problems)
