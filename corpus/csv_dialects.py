# presets: standard,data,open
import csv
import io

semicolon = 'name;city;amount\n"Müller; Karl";Köln;"1.234,50"\nØrsted;Århus;99,00\n'
rows = list(csv.reader(io.StringIO(semicolon), delimiter=";"))
header, *body = rows


def number(text):
    return float(text.replace(".", "").replace(",", "."))


records = [dict(zip(header, row)) for row in body]
for r in records:
    r["amount"] = number(r["amount"])
    print(r)


class Pipe(csv.Dialect):
    delimiter = "|"
    quotechar = "'"
    lineterminator = "\n"
    quoting = csv.QUOTE_NONNUMERIC


out = io.StringIO()
writer = csv.DictWriter(out, fieldnames=header, dialect=Pipe)
writer.writeheader()
writer.writerows(records)
print(out.getvalue(), end="")

back = list(csv.DictReader(io.StringIO(out.getvalue()), dialect=Pipe))
assert back == records
print(sum(r["amount"] for r in back))

sniffed = csv.Sniffer().sniff("a\tb\tc\n1\t2\t3\n")
print(repr(sniffed.delimiter))
tricky = io.StringIO()
csv.writer(tricky, lineterminator="\n").writerow(['say "hi"', "two\nlines", "", None, 3.0])
print(repr(tricky.getvalue()), next(csv.reader(io.StringIO(tricky.getvalue()))))
