# expect: ok; needs matplotlib
import random

import matplotlib.pyplot as plt

random.seed(1)
heights = [random.gauss(170, 8) for _ in range(400)]
weights = [h - 100 + random.gauss(0, 6) for h in heights]

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3))
left.hist(heights, bins=20, color="steelblue", edgecolor="white")
left.set_title("Height (cm)")
right.scatter(heights, weights, s=8, alpha=0.6)
right.set_title("Height and weight")
plt.tight_layout()
plt.savefig("people.png")
plt.show()
