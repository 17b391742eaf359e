# expect: ok
from datetime import date, timedelta

HOLIDAYS = {date(2024, 5, 1), date(2024, 5, 9), date(2024, 5, 20)}


def is_working_day(day):
    return day.weekday() < 5 and day not in HOLIDAYS


def add_working_days(start, n):
    day = start
    while n:
        day += timedelta(days=1)
        if is_working_day(day):
            n -= 1
    return day


def easter(year):
    a, b, c = year % 19, year // 100, year % 100
    d = (19 * a + b - b // 4 - (b - (b + 8) // 25 + 1) // 3 + 15) % 30
    e = (32 + 2 * (b % 4) + 2 * (c // 4) - d - c % 4) % 7
    f = d + e - 7 * ((a + 11 * d + 22 * e) // 451) + 114
    return date(year, f // 31, f % 31 + 1)


may = [date(2024, 5, 1) + timedelta(days=i) for i in range(31)]
print("working days in May:", sum(map(is_working_day, may)))
print(add_working_days(date(2024, 4, 30), 10), [easter(y).isoformat() for y in (2023, 2024, 2025)])
fridays = [d for d in (date(2024, m, 13) for m in range(1, 13)) if d.weekday() == 4]
print("Friday 13th:", *fridays)
