# expect: ok; needs pandas
import pandas as pd

data = [
    ("2024-Q1", "web", "A", 120), ("2024-Q1", "shop", "A", 80),
    ("2024-Q2", "web", "B", 95), ("2024-Q2", "shop", "A", 60),
    ("2024-Q2", "web", "A", 130), ("2024-Q1", "web", "B", 70),
]
df = pd.DataFrame(data, columns=["quarter", "channel", "product", "units"])
pivot = pd.pivot_table(
    df, index="channel", columns="quarter", values="units", aggfunc="sum", fill_value=0, margins=True
)
print(pivot)

long = pivot.drop(columns="All").reset_index().melt(id_vars="channel", value_name="units")
print(long[long["channel"] != "All"].to_string(index=False))
df.query("units > 90 and channel == 'web'")
