# expect: ok; needs pandas
import pandas as pd

customers = pd.DataFrame({"id": [1, 2, 3, 4], "name": ["Ada", "Ben", "Cleo", "Dan"]})
orders = pd.DataFrame({
    "order_id": [100, 101, 102, 103],
    "customer_id": [1, 3, 1, 9],
    "amount": [25.0, 40.5, 12.25, 7.0],
})

merged = customers.merge(orders, left_on="id", right_on="customer_id", how="left", indicator=True)
print(merged[["name", "order_id", "amount", "_merge"]])

totals = merged.groupby("name")["amount"].sum()
print("Customers without orders:", list(totals[totals == 0].index))
orphans = orders[~orders["customer_id"].isin(customers["id"])]
print(f"{len(orphans)} order(s) without a customer")
