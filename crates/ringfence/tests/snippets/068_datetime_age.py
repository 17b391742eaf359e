# expect: ok
from datetime import date, datetime, timedelta


def age(born, today):
    return today.year - born.year - ((today.month, today.day) < (born.month, born.day))


today = date(2024, 6, 15)
for text in ("1990-06-15", "1990-06-16", "2000-02-29"):
    born = datetime.strptime(text, "%Y-%m-%d").date()
    print(text, "->", age(born, today), born.strftime("%A, %d %B %Y"))

start = datetime(2024, 2, 27, 22, 30)
end = start + timedelta(days=2, hours=3, minutes=45)
print(end.isoformat(), (end - start).total_seconds() / 3600)
print("week", end.isocalendar()[1], "day", end.timetuple().tm_yday)
print((date(2024, 12, 25) - today).days, "days to Christmas")
