# expect: ok; needs pandas; needs numpy
import numpy as np
import pandas as pd

rng = np.random.default_rng(42)
index = pd.date_range("2024-01-01", periods=120, freq="D")
temperature = pd.Series(10 + 8 * np.sin(np.arange(120) / 20) + rng.normal(0, 1, 120), index=index)

monthly = temperature.resample("MS").agg(["mean", "min", "max"])
print(monthly.round(2))

rolling = temperature.rolling(window=7).mean()
hottest = rolling.idxmax()
print("Warmest week ends on", hottest.strftime("%Y-%m-%d"), f"({rolling.max():.2f})")
print("Days above 15:", int((temperature > 15).sum()))
