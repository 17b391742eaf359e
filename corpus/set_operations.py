# presets: standard,data,open
backend = {"ana", "bo", "cem", "dia"}
frontend = {"cem", "dia", "eli"}
oncall = frozenset({"bo", "eli"})


def show(label, s):
    print(f"{label:<22}{', '.join(sorted(s)) or '∅'}")


show("both", backend & frontend)
show("either", backend | frontend)
show("backend only", backend - frontend)
show("exactly one", backend ^ frontend)
show("free of duty", (backend | frontend) - oncall)
show("nobody", backend & frontend & oncall)
print(oncall <= backend | frontend, backend.isdisjoint({"zoe"}), {1, 2} < {1, 2}, {1} < {1, 2})

teams = {frozenset(backend): "backend", frozenset(frontend): "frontend"}
print(teams[frozenset(["eli", "dia", "cem"])])


def jaccard(a, b):
    return len(a & b) / len(a | b)


docs = {"d1": "a b c d", "d2": "b c d e", "d3": "x y z", "d4": "a b c d e"}
shingles = {k: set(v.split()) for k, v in docs.items()}
pairs = sorted(((jaccard(shingles[a], shingles[b]), a, b) for a in docs for b in docs if a < b), reverse=True)
for score, a, b in pairs[:4]:
    print(f"{a} {b} {score:.3f}")
seen, duplicates = set(), []
for n in [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]:
    (duplicates.append if n in seen else seen.add)(n)
print(duplicates, sorted(seen), list(dict.fromkeys("mississippi")))
