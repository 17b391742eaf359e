# expect: ok
import sqlite3
from contextlib import closing

DB = "bank.db"

with closing(sqlite3.connect(DB)) as db:
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE account (name TEXT PRIMARY KEY, balance INTEGER CHECK (balance >= 0))")
    with db:
        db.executemany("INSERT INTO account VALUES (?, ?)", [("alice", 100), ("bob", 20)])


def transfer(source, target, amount):
    with closing(sqlite3.connect(DB)) as db, db:
        db.execute("UPDATE account SET balance = balance + ? WHERE name = ?", (amount, target))
        db.execute("UPDATE account SET balance = balance - ? WHERE name = ?", (amount, source))


transfer("alice", "bob", 30)
try:
    transfer("bob", "alice", 500)
except sqlite3.IntegrityError as e:
    print("Transfer failed:", e)

with closing(sqlite3.connect(DB)) as db:
    print(db.execute("SELECT * FROM account ORDER BY name").fetchall())
