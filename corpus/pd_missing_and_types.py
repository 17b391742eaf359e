# presets: data,open
# needs: numpy,pandas
import numpy as np
import pandas as pd

df = pd.DataFrame(
    {
        "a": [1, np.nan, 3, np.nan, 5],
        "b": ["x", None, "z", "x", "y"],
        "c": pd.array([1, 2, None, 4, 5], dtype="Int64"),
        "d": [True, False, True, True, False],
    }
)
print(df.isna().sum().tolist(), int(df.isna().any(axis=1).sum()))
print(df["a"].ffill().tolist(), df["a"].bfill().tolist(), df["a"].interpolate().tolist())
print(df.dropna().index.tolist(), df.dropna(thresh=3).shape, df["b"].fillna("?").tolist())
print(int(df["c"].sum()), df["c"].isna().tolist())
cat = df["b"].astype("category")
print(cat.cat.categories.tolist(), cat.cat.codes.tolist())
ordered = pd.Categorical(["low", "high", "mid", "low"], categories=["low", "mid", "high"], ordered=True)
print(pd.Series(ordered).sort_values().tolist(), str(ordered.max()))
print(df.groupby("b", dropna=False).size().sort_values().tolist())
df.loc[df["d"], "a"] = df["a"] * 10
print(df["a"].round(1).fillna(-1).tolist())
df.iloc[0, 0] = -5
print(df.at[0, "a"], df.iat[2, 0], df.loc[1:2, "d"].tolist())
print(pd.to_numeric(pd.Series(["1", "2.5", "x"]), errors="coerce").fillna(0).tolist())
print(df["a"].between(0, 40).tolist(), df["b"].isin(["x", "y"]).tolist())
print(df.sort_values(["d", "a"], na_position="first").index.tolist())
try:
    df["missing"]
except KeyError as e:
    print("KeyError", e)
print(df.drop(columns=["c", "d"]).shape, df.replace({"b": {"x": "ex"}})["b"].fillna("-").tolist())
