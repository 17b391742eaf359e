# expect: ok; needs pandas; needs matplotlib
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

df = pd.DataFrame(
    {"2023": [12, 15, 11, 18], "2024": [14, 13, 16, 21]},
    index=["Q1", "Q2", "Q3", "Q4"],
)
ax = df.plot(kind="bar", figsize=(6, 4), rot=0, title="Revenue by quarter")
ax.set_ylabel("million")
ax.grid(axis="y", alpha=0.3)
plt.tight_layout()
plt.savefig("revenue.png", dpi=80)
print("Saved revenue.png")
print("Growth:", ((df["2024"] / df["2023"] - 1) * 100).round(1).to_dict())
