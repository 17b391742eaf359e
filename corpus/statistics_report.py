# presets: standard,data,open
import math
import statistics as st

temps = [21.5, 19.0, 22.3, 25.1, 24.8, 18.9, 20.0, 23.4, 22.3, 26.7, 17.2, 22.3, 21.1, 35.9]

print(f"n        {len(temps)}")
print(f"mean     {st.mean(temps):.3f}")
print(f"median   {st.median(temps):.3f}")
print(f"mode     {st.mode(temps)}")
print(f"stdev    {st.stdev(temps):.4f}")
print(f"pvar     {st.pvariance(temps):.4f}")
print(f"harmonic {st.harmonic_mean(temps):.4f}")
print(f"geometric {st.geometric_mean(temps):.4f}")

q1, q2, q3 = st.quantiles(temps, n=4, method="inclusive")
iqr = q3 - q1
print(f"quartiles {q1:.3f} {q2:.3f} {q3:.3f}  iqr {iqr:.3f}")
outliers = [t for t in temps if not q1 - 1.5 * iqr <= t <= q3 + 1.5 * iqr]
print("outliers:", outliers)

low, high = math.floor(min(temps)), math.ceil(max(temps))
width = 4
for left in range(low, high, width):
    n = sum(left <= t < left + width for t in temps)
    print(f"{left:>3}-{left + width:<3} {'█' * n}")

nd = st.NormalDist.from_samples(temps)
print(f"P(T > 30) under a normal model: {1 - nd.cdf(30):.4f}")
