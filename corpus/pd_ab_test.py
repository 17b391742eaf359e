# presets: data,open
# needs: numpy,pandas
"""Evaluate an A/B test: conversion rates, a z-test and a permutation test."""
import math

import numpy as np
import pandas as pd

rng = np.random.default_rng(77)
n = 4000
df = pd.DataFrame({"variant": np.where(np.arange(n) % 2 == 0, "A", "B")})
df["converted"] = rng.random(n) < np.where(df["variant"] == "A", 0.10, 0.15)
df["amount"] = np.where(df["converted"], rng.gamma(2.0, 20.0, n).round(2), 0.0)

table = df.groupby("variant").agg(users=("converted", "size"), conversions=("converted", "sum"))
table["rate"] = table["conversions"] / table["users"]
print(table["users"].to_dict(), "B better:", bool(table.loc["B", "rate"] > table.loc["A", "rate"]))

pooled = table["conversions"].sum() / table["users"].sum()
se = math.sqrt(pooled * (1 - pooled) * (1 / table["users"]).sum())
z = (table.loc["B", "rate"] - table.loc["A", "rate"]) / se
p = math.erfc(abs(z) / math.sqrt(2))
print("significant at 1%:", p < 0.01)

observed = table.loc["B", "rate"] - table.loc["A", "rate"]
conv = df["converted"].to_numpy()
is_b = (df["variant"] == "B").to_numpy()
extreme = 0
for _ in range(500):
    shuffled = rng.permutation(is_b)
    extreme += conv[shuffled].mean() - conv[~shuffled].mean() >= observed
print("permutation p below 0.02:", (extreme + 1) / 501 < 0.02)
spend = df[df["converted"]].groupby("variant")["amount"].median()
print("medians plausible:", bool(spend.between(20, 50).all()))
