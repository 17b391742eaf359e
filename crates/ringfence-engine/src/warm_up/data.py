
import numpy as np
import pandas as pd

frame = pd.DataFrame({"name": ["a", "b", "a", "c"], "n": [1, 2, 3, 4], "x": [0.5, 1.5, 2.5, np.nan]})
frame["double"] = frame["n"] * 2
frame["n"].sum()
frame.groupby("name")["n"].agg(["sum", "mean"])
frame.sort_values("x").head(2)
frame[frame["n"] > 1].merge(frame, on="name")
frame.describe()
str(frame)
np.linspace(0, 1, 10).reshape(2, 5).mean(axis=0)
pd.to_datetime(pd.Series(["2024-01-01", "2024-02-01"])).dt.month.tolist()
