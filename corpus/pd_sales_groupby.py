# presets: data,open
# needs: numpy,pandas
import pandas as pd

df = pd.DataFrame(
    {
        "region": ["North", "South", "North", "East", "South", "East", "North"],
        "product": ["A", "A", "B", "A", "B", "B", "A"],
        "units": [10, 7, 3, 12, 5, 8, 6],
        "price": [2.5, 2.5, 10.0, 2.4, 9.5, 10.0, 2.6],
    }
)
df["revenue"] = df["units"] * df["price"]
print(df.to_string(index=False))
print()
summary = df.groupby("region").agg(units=("units", "sum"), revenue=("revenue", "sum"), orders=("product", "count"))
print(summary.sort_values("revenue", ascending=False).to_string())
print()
pivot = df.pivot_table(index="region", columns="product", values="revenue", aggfunc="sum", fill_value=0)
print(pivot.to_string(float_format="{:.1f}".format))
best = df.loc[df["revenue"].idxmax()]
print("best order:", best["region"], best["product"], float(best["revenue"]))
share = (df.groupby("product")["revenue"].sum() / df["revenue"].sum()).round(3)
print(share.to_dict())
print(df.query("units > 6 and product == 'A'")["region"].tolist())
