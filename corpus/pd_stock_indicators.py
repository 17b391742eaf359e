# presets: data,open
# needs: numpy,pandas
import numpy as np
import pandas as pd

rng = np.random.default_rng(10)
dates = pd.bdate_range("2024-01-01", periods=90)
close = pd.Series(100 + np.cumsum(np.where(np.arange(90) // 15 % 2 == 0, 1.0, -0.8)), index=dates)

df = pd.DataFrame({"close": close})
df["sma5"] = df["close"].rolling(5).mean()
df["sma20"] = df["close"].rolling(20).mean()
df["ema"] = df["close"].ewm(span=10, adjust=False).mean()
df["ret"] = df["close"].pct_change()
df["position"] = (df["sma5"] > df["sma20"]).astype(int)
df["signal"] = df["position"].diff().fillna(0).astype(int)

print(df.loc[df["signal"] != 0, ["close", "signal"]].round(2).to_string())
delta = df["close"].diff()
gain = delta.clip(lower=0).rolling(14).mean()
loss = -delta.clip(upper=0).rolling(14).mean()
rsi = 100 - 100 / (1 + gain / loss)
print("rsi range:", round(float(rsi.min()), 1), round(float(rsi.max()), 1))
strategy = (1 + df["ret"] * df["position"].shift().fillna(0)).prod() - 1
hold = df["close"].iloc[-1] / df["close"].iloc[0] - 1
print(f"strategy {strategy:.2%}, hold {hold:.2%}")
drawdown = (df["close"] / df["close"].cummax() - 1).min()
print(f"max drawdown {drawdown:.2%}")
upper = df["sma20"] + 2 * df["close"].rolling(20).std()
print("above the upper band:", int((df["close"] > upper).sum()), "days")
print(df["close"].resample("MS").last().round(1).tolist())
