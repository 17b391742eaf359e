# presets: data,open
# needs: numpy,pandas
import pandas as pd

customers = pd.DataFrame({"cid": [1, 2, 3, 4], "name": ["Ana", "Bo", "Çelik", "Dee"]})
orders = pd.DataFrame({"oid": [10, 11, 12, 13, 14], "cid": [1, 2, 1, 9, 3], "total": [20.0, 5.5, 7.25, 99.0, 12.0]})

inner = customers.merge(orders, on="cid")
print(inner.to_string(index=False))
left = customers.merge(orders, on="cid", how="left", indicator=True)
print(left["_merge"].astype(str).value_counts().sort_index().to_dict())
print("without orders:", left.loc[left["_merge"] == "left_only", "name"].tolist())
outer = customers.merge(orders, on="cid", how="outer")
print(len(outer), int(outer["name"].isna().sum()))

spend = orders.groupby("cid")["total"].sum().rename("spend")
joined = customers.set_index("cid").join(spend).fillna({"spend": 0})
print(joined.sort_values("spend", ascending=False).to_string())

a = pd.DataFrame({"k": ["x", "y"], "v": [1, 2]})
b = pd.DataFrame({"k": ["y", "z"], "v": [3, 4]})
both = pd.concat([a, b], ignore_index=True)
print(both.to_dict("list"))
print(a.merge(b, on="k", suffixes=("_a", "_b")).to_dict("records"))
try:
    customers.merge(orders, on="cid", validate="one_to_one")
except pd.errors.MergeError:
    print("not one to one")
asof = pd.merge_asof(pd.DataFrame({"t": [1, 5, 10]}), pd.DataFrame({"t": [0, 4, 6], "p": [100, 101, 103]}), on="t")
print(asof["p"].tolist())
