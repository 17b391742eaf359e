# presets: data,open
# needs: numpy
"""Price a European call by simulation and by the Black–Scholes formula."""
import math

import numpy as np


def black_scholes(s, k, r, sigma, t):
    d1 = (math.log(s / k) + (r + sigma**2 / 2) * t) / (sigma * math.sqrt(t))
    d2 = d1 - sigma * math.sqrt(t)
    n = lambda x: (1 + math.erf(x / math.sqrt(2))) / 2
    return s * n(d1) - k * math.exp(-r * t) * n(d2)


def simulate(s, k, r, sigma, t, paths, rng):
    z = rng.standard_normal(paths // 2)
    z = np.concatenate([z, -z])
    final = s * np.exp((r - sigma**2 / 2) * t + sigma * math.sqrt(t) * z)
    payoff = math.exp(-r * t) * np.maximum(final - k, 0)
    return payoff.mean(), payoff.std() / math.sqrt(paths)


rng = np.random.default_rng(2024)
print(f"{'strike':>7}{'exact':>9}{'ok':>5}")
for strike in (80, 90, 100, 110, 120):
    exact = black_scholes(100, strike, 0.03, 0.2, 1.0)
    estimate, error = simulate(100, strike, 0.03, 0.2, 1.0, 100_000, rng)
    print(f"{strike:>7}{exact:>9.4f}{'yes' if abs(estimate - exact) < 4 * error else 'no':>5}")

steps = rng.normal(0.0005, 0.01, (200, 250))
paths = 100 * np.cumprod(1 + steps, axis=1)
drawdown = 1 - paths / np.maximum.accumulate(paths, axis=1)
print("paths:", paths.shape, "every drawdown in [0, 1):", bool(((drawdown >= 0) & (drawdown < 1)).all()))
