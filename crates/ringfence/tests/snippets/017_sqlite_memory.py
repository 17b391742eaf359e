# expect: ok
import sqlite3

conn = sqlite3.connect(":memory:")
conn.row_factory = sqlite3.Row
conn.execute("CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT, author TEXT, year INTEGER)")
conn.executemany(
    "INSERT INTO books (title, author, year) VALUES (?, ?, ?)",
    [("Emma", "Austen", 1815), ("Persuasion", "Austen", 1817), ("Middlemarch", "Eliot", 1871)],
)
conn.commit()

query = "SELECT author, COUNT(*) AS n, MIN(year) AS first FROM books GROUP BY author ORDER BY n DESC"
for row in conn.execute(query):
    print(f"{row['author']}: {row['n']} book(s), first in {row['first']}")

cursor = conn.execute("UPDATE books SET year = year + 1 WHERE author = ?", ("Eliot",))
print("rows changed:", cursor.rowcount)
conn.close()
