# expect: ok; needs matplotlib; needs numpy
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

x = np.linspace(0, 2 * np.pi, 200)
fig, ax = plt.subplots(figsize=(6, 4))
ax.plot(x, np.sin(x), label="sin(x)")
ax.plot(x, np.cos(x), "--", label="cos(x)")
ax.set_xlabel("x")
ax.set_title("Sine and cosine")
ax.legend()
fig.savefig("waves.png", dpi=100, bbox_inches="tight")
plt.close(fig)

with open("waves.png", "rb") as f:
    print("PNG written:", f.read(8) == b"\x89PNG\r\n\x1a\n")
