# expect: ok; needs pandas
import pandas as pd

df = pd.DataFrame({
    "department": ["IT", "HR", "IT", "Sales", "HR", "Sales", "Sales"],
    "employee": ["Ann", "Bob", "Cid", "Dee", "Eve", "Fay", "Gus"],
    "salary": [5200, 3900, 6100, 4100, 4300, 3700, 4500],
})
summary = (
    df.groupby("department")["salary"]
    .agg(["count", "mean", "max"])
    .sort_values("mean", ascending=False)
)
print(summary.round(1))

df["above_average"] = df["salary"] > df.groupby("department")["salary"].transform("mean")
print(df[df["above_average"]])
summary.to_csv("summary.csv")
