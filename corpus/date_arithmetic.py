# presets: standard,data,open
from datetime import date, datetime, timedelta, timezone

start = date(2024, 1, 31)


def add_months(d, n):
    month = d.month - 1 + n
    year, month = d.year + month // 12, month % 12 + 1
    for day in (d.day, 30, 29, 28):
        try:
            return date(year, month, day)
        except ValueError:
            pass
    raise AssertionError


for n in (1, 2, 13, -2):
    print(f"{start} {n:+} months = {add_months(start, n)}")


def business_days(a, b):
    return sum(1 for i in range((b - a).days) if (a + timedelta(i)).weekday() < 5)


print("business days in Feb 2024:", business_days(date(2024, 2, 1), date(2024, 3, 1)))
print("ISO calendar of 2024-12-30:", tuple(date(2024, 12, 30).isocalendar()))
utc = datetime(2024, 3, 10, 6, 30, tzinfo=timezone.utc)
est = utc.astimezone(timezone(timedelta(hours=-5), "EST"))
print(utc.isoformat(), "=", est.strftime("%Y-%m-%d %H:%M %Z"))
parsed = datetime.strptime("07 Nov 2023 18:45", "%d %b %Y %H:%M")
print(parsed, parsed.strftime("%A, week %V, day %j"))
delta = datetime(2025, 1, 1) - parsed
print(f"{delta.days} days and {delta.seconds // 3600} hours until 2025; {delta.total_seconds():.0f} s")
fridays = [d for d in (date(2024, m, 13) for m in range(1, 13)) if d.weekday() == 4]
print("Friday the 13th in 2024:", [d.isoformat() for d in fridays])
start + timedelta(weeks=52)
