# presets: standard,data,open
from collections import namedtuple

Athlete = namedtuple("Athlete", "name country gold silver bronze")
athletes = [
    Athlete("Li", "CHN", 3, 1, 0),
    Athlete("Kim", "KOR", 3, 1, 2),
    Athlete("Díaz", "ESP", 0, 4, 1),
    Athlete("Ångström", "SWE", 3, 0, 5),
    Athlete("Moore", "USA", 3, 1, 2),
    Athlete("Öz", "TUR", 0, 0, 1),
]

ranking = sorted(athletes, key=lambda a: (-a.gold, -a.silver, -a.bronze, a.name))
place, previous = 0, None
for i, a in enumerate(ranking, 1):
    medals = (a.gold, a.silver, a.bronze)
    if medals != previous:
        place, previous = i, medals
    print(f"{place}. {a.name:<10}{a.country} {'🥇' * a.gold}{'🥈' * a.silver}{'🥉' * a.bronze}")

by_country = sorted(athletes, key=lambda a: a.country)
stable = sorted(by_country, key=lambda a: a.gold, reverse=True)
print([a.country for a in stable])

data = [5, None, 3, None, 1]
print(sorted(data, key=lambda x: (x is None, x or 0)))
strings = ["b10", "a2", "B1", "A10"]
print(sorted(strings), sorted(strings, key=str.lower), sorted(strings, key=lambda s: int(s[1:])))
d = {"x": 3, "y": 1, "z": 2}
print(dict(sorted(d.items(), key=lambda kv: kv[1])), sorted(d, key=d.get, reverse=True))
pairs = [(1, "b"), (0, "c"), (1, "a")]
pairs.sort()
print(pairs, pairs == sorted(pairs))
