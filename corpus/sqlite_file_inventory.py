# presets: data,open
import os
import sqlite3
from contextlib import closing

PATH = "inventory.db"


def connect():
    con = sqlite3.connect(PATH)
    con.execute("PRAGMA foreign_keys = ON")
    return con


with closing(connect()) as con, con:
    con.execute("CREATE TABLE stock (sku TEXT PRIMARY KEY, qty INTEGER NOT NULL CHECK (qty >= 0))")
    con.execute("CREATE TABLE movement (n INTEGER PRIMARY KEY AUTOINCREMENT, sku TEXT REFERENCES stock, delta INTEGER)")
    con.executemany("INSERT INTO stock VALUES (?, ?)", [("bolt", 100), ("nut", 80), ("gear", 3)])


def move(sku, delta):
    with closing(connect()) as con:
        try:
            with con:
                con.execute("INSERT INTO movement (sku, delta) VALUES (?, ?)", (sku, delta))
                con.execute("UPDATE stock SET qty = qty + ? WHERE sku = ?", (delta, sku))
            return "ok"
        except sqlite3.IntegrityError as e:
            return f"refused ({str(e).split()[0]})"


for sku, delta in [("bolt", -30), ("gear", -5), ("nut", 20), ("cog", 1), ("gear", -3)]:
    print(f"{sku:<5} {delta:+4} {move(sku, delta)}")

with closing(connect()) as con:
    for sku, qty, moves in con.execute("SELECT s.sku, qty, COUNT(m.n) FROM stock s LEFT JOIN movement m USING (sku) GROUP BY s.sku ORDER BY s.sku"):
        print(sku, qty, moves)
    print(con.execute("PRAGMA integrity_check").fetchone())
print(os.path.exists(PATH), os.path.getsize(PATH) % 4096)
