# presets: data,open
# needs: numpy,pandas
import numpy as np
import pandas as pd


def make(seed=3, n=200):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "dept": rng.choice(["eng", "ops", "sales"], n),
            "years": rng.integers(0, 20, n),
            "remote": rng.random(n) < 0.4,
        }
    )


df = make()
df["salary"] = 40_000 + df["years"] * 1_500 + df["dept"].map({"eng": 15_000, "ops": 5_000, "sales": 0})

print(df.shape, list(df.columns))
print(df["salary"].describe().round(0).astype(int)[["count", "min", "max"]].to_dict())
report = df.groupby("dept")["salary"].agg(["min", "max"])
print(report.to_string())
corr = df[["years", "salary"]].corr().iloc[0, 1]
print("correlation above 0.6:", bool(corr > 0.6))
df["band"] = np.select([df["salary"] < 50_000, df["salary"] < 65_000], ["low", "mid"], "high")
print(sorted(df["band"].unique().tolist()), int(df["band"].value_counts().sum()))
print("share adds up:", bool(np.isclose(df["dept"].value_counts(normalize=True).sum(), 1)))
top = df.nlargest(3, "salary")
print(top["dept"].unique().tolist(), int(top["years"].min()) >= 18)
print((df.groupby(["dept", "remote"]).size().unstack(fill_value=0).sum().sum()), "employees")
print(df.select_dtypes("number").columns.tolist(), int(df.memory_usage().sum()) > 1000)
if __name__ == "__main__":
    assert df.isna().sum().sum() == 0
    print("no missing values")
