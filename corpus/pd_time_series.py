# presets: data,open
# needs: numpy,pandas
import numpy as np
import pandas as pd

days = pd.date_range("2024-01-01", periods=120, freq="D")
values = 50 + 10 * np.sin(np.arange(120) * 2 * np.pi / 30) + np.arange(120) * 0.1
s = pd.Series(values.round(3), index=days)

print(s.head(3).to_dict() != {}, s.index[0].date(), s.index[-1].date())
monthly = s.groupby(s.index.to_period("M")).agg(["mean", "min", "max"]).round(2)
print(monthly.to_string())
print("weekly means:", s.resample("W").mean().round(2).tolist()[:4])
rolling = s.rolling(7).mean()
print("first full window:", rolling.first_valid_index().date(), round(float(rolling.iloc[6]), 3))
print("change over 30 days:", round(float(s.diff(30).iloc[-1]), 3), "pct:", round(float(s.pct_change().abs().max()), 4))
print("February:", len(s.loc["2024-02"]), "Mondays:", int((s.index.day_of_week == 0).sum()))
gaps = s[s.index.day % 10 != 0]
filled = gaps.reindex(days).interpolate()
print("missing days:", 120 - len(gaps), "largest error:", round(float((filled - s).abs().max()), 2))
stamp = pd.Timestamp("2024-03-31 01:30", tz="UTC").tz_convert("Europe/Berlin")
print(stamp.isoformat(), (stamp - pd.Timedelta(hours=1)).strftime("%H:%M %Z"))
print([d.strftime("%d %b") for d in pd.bdate_range("2024-05-01", periods=4)])
peak = s.idxmax()
print("peak:", peak.strftime("%Y-%m-%d"), round(float(s.max()), 2))
