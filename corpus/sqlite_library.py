# presets: data,open
import sqlite3

db = sqlite3.connect(":memory:")
db.row_factory = sqlite3.Row
db.executescript("""
CREATE TABLE author (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE book (
    id INTEGER PRIMARY KEY,
    title TEXT NOT NULL,
    year INTEGER CHECK (year > 0),
    author_id INTEGER REFERENCES author(id)
);
""")

BOOKS = [("Le Guin", "The Dispossessed", 1974), ("Le Guin", "The Left Hand of Darkness", 1969),
         ("Lem", "Solaris", 1961), ("Borges", "Ficciones", 1944), ("Lem", "Cyberiada", 1965)]
with db:
    for author, title, year in BOOKS:
        db.execute("INSERT OR IGNORE INTO author (name) VALUES (?)", (author,))
        db.execute("INSERT INTO book (title, year, author_id) SELECT ?, ?, id FROM author WHERE name = ?", (title, year, author))

query = """
SELECT a.name, COUNT(*) AS books, MIN(b.year) AS first, GROUP_CONCAT(b.title, ' / ') AS titles
FROM book b JOIN author a ON a.id = b.author_id
GROUP BY a.id ORDER BY books DESC, a.name
"""
for row in db.execute(query):
    print(f"{row['name']:<8} {row['books']} since {row['first']}: {row['titles']}")

try:
    with db:
        db.execute("UPDATE book SET year = year + 1")
        db.execute("INSERT INTO book (title, year) VALUES ('bad', -1)")
except sqlite3.IntegrityError as e:
    print("rolled back:", str(e).split(":")[0])
print(db.execute("SELECT SUM(year) FROM book").fetchone()[0])
db.create_function("initials", 1, lambda s: "".join(w[0] for w in s.split()))
print([r[0] for r in db.execute("SELECT initials(title) FROM book ORDER BY id")])
print(db.execute("SELECT title FROM book WHERE title LIKE ? ORDER BY 1", ("%ar%",)).fetchall()[0][0])
db.close()
