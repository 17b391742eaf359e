# presets: standard,data,open
import random
from dataclasses import dataclass


@dataclass
class Trade:
    day: int
    side: str
    price: float
    shares: int


def prices(days, seed):
    rng = random.Random(seed)
    price, out = 100.0, []
    for _ in range(days):
        price *= 1 + rng.gauss(0.0004, 0.015)
        out.append(round(price, 2))
    return out


def sma(values, n):
    return [None if i + 1 < n else sum(values[i + 1 - n : i + 1]) / n for i in range(len(values))]


def backtest(series, fast=5, slow=20, cash=10_000.0):
    trades, shares = [], 0
    quick, slower = sma(series, fast), sma(series, slow)
    for day in range(1, len(series)):
        if slower[day - 1] is None:
            continue
        above = quick[day] > slower[day]
        was = quick[day - 1] > slower[day - 1]
        if above and not was and not shares:
            shares = int(cash // series[day])
            cash -= shares * series[day]
            trades.append(Trade(day, "BUY", series[day], shares))
        elif was and not above and shares:
            cash += shares * series[day]
            trades.append(Trade(day, "SELL", series[day], shares))
            shares = 0
    return cash + shares * series[-1], trades


series = prices(250, seed=5)
final, trades = backtest(series)
for t in trades[:6]:
    print(f"day {t.day:>3} {t.side:<4} {t.shares:>3} @ {t.price:.2f}")
print(f"{len(trades)} trades, final {final:.2f}, buy and hold {10_000 / series[0] * series[-1]:.2f}")
peak, worst = series[0], 0.0
for p in series:
    peak = max(peak, p)
    worst = max(worst, (peak - p) / peak)
print(f"maximum drawdown {worst:.2%}")
