# presets: data,open
# needs: numpy,pandas
import io

import pandas as pd

RAW = """Name , Age,City,Joined,Score
 alice ,34,Paris,2023-01-15,88.5
BOB,,london,2023-02-30,n/a
Chloé,29,PARIS,2022-11-03,91
alice,34,Paris,2023-01-15,88.5
dan,abc,,2021-07-19,75.25
"""

df = pd.read_csv(io.StringIO(RAW), skipinitialspace=True)
df.columns = df.columns.str.strip().str.lower()
df["name"] = df["name"].str.strip().str.title()
df["city"] = df["city"].str.title().fillna("Unknown")
df["age"] = pd.to_numeric(df["age"], errors="coerce")
df["score"] = pd.to_numeric(df["score"], errors="coerce")
df["joined"] = pd.to_datetime(df["joined"], errors="coerce")

print("missing:", df.isna().sum().to_dict())
before = len(df)
df = df.drop_duplicates()
print("duplicates removed:", before - len(df))
df["age"] = df["age"].fillna(df["age"].median()).astype(int)
df["score"] = df["score"].fillna(df["score"].mean().round(2))
df["year"] = df["joined"].dt.strftime("%Y").fillna("-")
print(df[["name", "age", "city", "score", "year"]].to_string(index=False))
df.to_csv("clean.csv", index=False)
again = pd.read_csv("clean.csv", parse_dates=["joined"])
print(again.shape, int(again["joined"].notna().sum()))
print(again["city"].value_counts().sort_index().to_dict())
