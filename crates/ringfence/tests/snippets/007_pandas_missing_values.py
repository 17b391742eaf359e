# expect: ok; needs pandas
from io import StringIO

import pandas as pd

raw = StringIO("""date,city,temp,humidity
2024-05-01,Oslo,11.5,
2024-05-01,Rome,,48
2024-05-02,Oslo,12.0,70
2024-05-02,Rome,24.5,n/a
2024-05-02,Rome,24.5,n/a
""")
df = pd.read_csv(raw, parse_dates=["date"], na_values=["n/a"])
print(df.isna().sum())

df = df.drop_duplicates()
df["temp"] = df["temp"].fillna(df["temp"].mean())
df["humidity"] = df.groupby("city")["humidity"].transform(lambda s: s.fillna(s.median()))
print(df.dtypes)
print(df.to_string(index=False))
