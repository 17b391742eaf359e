# expect: ok
import statistics as st

scores = {"math": [88, 92, 79, 93, 85], "art": [75, 64, 98, 70, 81], "sport": [90, 90, 60, 85, 90]}
print(f"{'subject':<8}{'mean':>7}{'median':>8}{'stdev':>7}")
for subject, values in scores.items():
    print(f"{subject:<8}{st.mean(values):>7.2f}{st.median(values):>8.1f}{st.stdev(values):>7.2f}")

everything = [v for values in scores.values() for v in values]
print("mode:", st.mode(everything), "quartiles:", st.quantiles(everything, n=4))
print("geometric mean:", round(st.geometric_mean(everything), 3))
normal = st.NormalDist.from_samples(everything)
print("share above 90:", round(1 - normal.cdf(90), 3))
try:
    st.mean([])
except st.StatisticsError as e:
    print("Error:", e)
