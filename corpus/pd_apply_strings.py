# presets: data,open
# needs: numpy,pandas
import pandas as pd

log = pd.Series(
    [
        "2024-05-01 10:00:01 INFO user=ana action=login",
        "2024-05-01 10:00:09 WARN user=bo action=upload size=120MB",
        "2024-05-01 10:01:30 ERROR user=ana action=upload size=900MB",
        "broken line",
        "2024-05-01 10:02:00 INFO user=øyvind action=logout",
    ]
)
parts = log.str.extract(r"^(?P<when>\S+ \S+) (?P<level>[A-Z]+) user=(?P<user>\w+) action=(?P<action>\w+)(?: size=(?P<mb>\d+)MB)?")
parts["when"] = pd.to_datetime(parts["when"])
parts["mb"] = pd.to_numeric(parts["mb"]).fillna(0).astype(int)
good = parts.dropna(subset=["when"])
print(len(good), "of", len(log), "parsed")
print(good[["level", "user", "action", "mb"]].to_string(index=False))
print(good.groupby("user")["mb"].sum().sort_index().to_dict())
print("seconds between:", good["when"].diff().dt.total_seconds().dropna().astype(int).tolist())
names = pd.Series(["  Ada Lovelace", "alan TURING ", "Grace  Hopper"])
tidy = names.str.strip().str.replace(r"\s+", " ", regex=True).str.title()
print(tidy.tolist(), tidy.str.split().str[-1].str.upper().tolist(), tidy.str.len().tolist())
print(tidy.str.contains("a", case=False).tolist(), tidy.str.get(0).str.cat(sep="-"))
frame = pd.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6]})
print(frame.apply(lambda row: row["a"] * row["b"], axis=1).tolist(), frame.apply("max").to_dict())
print(frame.assign(c=lambda d: d.a + d.b).rename(columns=str.upper).T.values.tolist())
print(tidy.map(lambda s: "".join(w[0] for w in s.split())).tolist())
