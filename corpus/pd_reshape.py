# presets: data,open
# needs: numpy,pandas
import pandas as pd

wide = pd.DataFrame({"city": ["Oslo", "Rome"], "jan": [-4, 8], "apr": [5, 14], "jul": [17, 26]})
long = wide.melt(id_vars="city", var_name="month", value_name="temp")
print(long.to_string(index=False))
back = long.pivot(index="city", columns="month", values="temp")[["jan", "apr", "jul"]]
print(back.to_string())
stacked = back.stack()
print(stacked.loc[("Rome", "jul")], stacked.unstack(0).shape)

scores = pd.DataFrame({"who": list("abcab"), "subject": ["m", "m", "m", "p", "p"], "score": [90, 75, 60, 85, 95]})
print(pd.crosstab(scores["who"], scores["subject"]).to_string())
scores["grade"] = pd.cut(scores["score"], [0, 70, 85, 100], labels=["C", "B", "A"]).astype(str)
print(scores.to_string(index=False))
scores["rank"] = scores.groupby("subject")["score"].rank(ascending=False).astype(int)
scores["mean"] = scores.groupby("subject")["score"].transform("mean")
print(scores[["who", "subject", "rank", "mean"]].values.tolist())
tags = pd.DataFrame({"id": [1, 2], "tags": [["x", "y"], ["z"]]}).explode("tags")
print(tags.values.tolist())
print(pd.get_dummies(pd.Series(list("aba"))).astype(int).values.tolist())
multi = scores.set_index(["subject", "who"]).sort_index()
print(multi.loc["p", "score"].to_dict(), multi.xs("a", level="who")["score"].tolist())
print(pd.qcut(range(8), 4, labels=False).tolist())
