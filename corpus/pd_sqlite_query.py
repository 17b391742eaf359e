# presets: data,open
# needs: numpy,pandas
import sqlite3

import pandas as pd

con = sqlite3.connect("shop.db")
products = pd.DataFrame({"pid": [1, 2, 3], "name": ["tea", "pot", "mug"], "price": [4.5, 30.0, 8.0]})
sales = pd.DataFrame({"pid": [1, 1, 2, 3, 3, 3], "qty": [2, 1, 1, 4, 2, 1], "day": ["mon", "tue", "tue", "mon", "wed", "wed"]})
products.to_sql("products", con, index=False)
sales.to_sql("sales", con, index=False)

query = """
SELECT p.name, SUM(s.qty) AS sold, SUM(s.qty * p.price) AS revenue
FROM sales s JOIN products p USING (pid)
GROUP BY p.name
HAVING sold > ?
ORDER BY revenue DESC
"""
result = pd.read_sql(query, con, params=(1,))
print(result.to_string(index=False))

same = sales.merge(products, on="pid").assign(revenue=lambda d: d["qty"] * d["price"])
check = same.groupby("name")["revenue"].sum()
assert all(check[r.name_] == r.revenue for r in result.rename(columns={"name": "name_"}).itertuples())
by_day = same.groupby("day", sort=False)["revenue"].sum()
print(by_day.to_dict())
sales.iloc[:1].to_sql("sales", con, index=False, if_exists="append")
print(pd.read_sql("SELECT COUNT(*) AS n FROM sales", con)["n"].iloc[0])
print([r[0] for r in con.execute("SELECT name FROM sqlite_master ORDER BY name")])
con.close()
