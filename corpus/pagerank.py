# presets: standard,data,open
LINKS = {
    "home": ["about", "products", "blog"],
    "about": ["home"],
    "products": ["home", "cart"],
    "blog": ["home", "post1", "post2"],
    "post1": ["blog", "products"],
    "post2": ["blog"],
    "cart": [],
}


def pagerank(links, damping=0.85, rounds=100, eps=1e-10):
    n = len(links)
    rank = {page: 1 / n for page in links}
    for iteration in range(1, rounds + 1):
        dangling = sum(rank[p] for p, out in links.items() if not out)
        new = {p: (1 - damping) / n + damping * dangling / n for p in links}
        for page, out in links.items():
            for target in out:
                new[target] += damping * rank[page] / len(out)
        if max(abs(new[p] - rank[p]) for p in links) < eps:
            return new, iteration
        rank = new
    return rank, rounds


rank, iterations = pagerank(LINKS)
print("sum of ranks:", round(sum(rank.values()), 9))
for page, value in sorted(rank.items(), key=lambda kv: -kv[1]):
    print(f"{page:<10}{value:.5f} {'▇' * round(value * 60)}")
assert iterations < 100
no_damping, _ = pagerank(LINKS, damping=0.0)
print({p: round(v, 4) for p, v in no_damping.items()})
