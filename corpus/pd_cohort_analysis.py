# presets: data,open
# needs: numpy,pandas
import pandas as pd

visits = pd.DataFrame(
    [(u, d) for u, days in {
        "u1": ["2024-01-03", "2024-02-10", "2024-03-05"],
        "u2": ["2024-01-20", "2024-03-15"],
        "u3": ["2024-02-01", "2024-02-14", "2024-03-09"],
        "u4": ["2024-02-27"],
        "u5": ["2024-03-30", "2024-03-31"],
    }.items() for d in days],
    columns=["user", "date"],
)
visits["date"] = pd.to_datetime(visits["date"])
visits["month"] = visits["date"].dt.year * 12 + visits["date"].dt.month
visits["cohort"] = visits.groupby("user")["month"].transform("min")
visits["age"] = visits["month"] - visits["cohort"]

active = visits.groupby(["cohort", "age"])["user"].nunique().unstack(fill_value=0)
sizes = active[0]
retention = (active.div(sizes, axis=0) * 100).round(0).astype(int)
for cohort, row in retention.iterrows():
    year, month = divmod(cohort - 1, 12)
    print(f"{year}-{month + 1:02d} (n={sizes[cohort]}):", " ".join(f"{v:>3}%" for v in row))

gap = visits.sort_values(["user", "date"]).groupby("user")["date"].diff().dt.days
print("mean gap in days:", round(float(gap.mean()), 2))
last = visits.groupby("user")["date"].max()
print("churned before March:", last[last < "2024-03-01"].index.tolist())
print("visits per user:", visits["user"].value_counts().sort_index().to_dict())
