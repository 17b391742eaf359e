# presets: standard,data,open
import calendar
from datetime import date, timedelta

print(calendar.month(2024, 2))
cal = calendar.Calendar(firstweekday=calendar.MONDAY)
weeks = cal.monthdayscalendar(2024, 9)
print("first and third Monday of September:", weeks[1][0] if not weeks[0][0] else weeks[0][0], [w[0] for w in weeks if w[0]][2])
print("leap years 1996-2024:", [y for y in range(1996, 2025) if calendar.isleap(y)])
print("days in Feb 1900/2000:", calendar.monthrange(1900, 2)[1], calendar.monthrange(2000, 2)[1])


def easter(year):
    a, b, c = year % 19, year // 100, year % 100
    d, e = divmod(b, 4)
    g = (8 * b + 13) // 25
    h = (19 * a + b - d - g + 15) % 30
    i, k = divmod(c, 4)
    l = (32 + 2 * e + 2 * i - h - k) % 7
    m = (a + 11 * h + 19 * l) // 433
    n = (h + l - 7 * m + 90) // 25
    return date(year, n, (h + l - 7 * m + 33 * n + 19) % 32)


for year in (2023, 2024, 2025, 2038):
    day = easter(year)
    print(f"{year}: Easter {day:%d %B}, Ascension {day + timedelta(39):%d %B}, Pentecost {day + timedelta(49):%d %B}")
print(", ".join(calendar.day_abbr), "/", calendar.month_name[5])
