# expect: ok
import calendar
from datetime import date

print(calendar.month(2024, 2))
print("leap year:", calendar.isleap(2024), "days:", calendar.monthrange(2024, 2)[1])

cal = calendar.Calendar(firstweekday=calendar.MONDAY)
mondays = [d for d in cal.itermonthdates(2024, 9) if d.month == 9 and d.weekday() == calendar.MONDAY]
print("Mondays:", [d.day for d in mondays])


def nth_weekday(year, month, weekday, n):
    days = [week[weekday] for week in calendar.monthcalendar(year, month) if week[weekday]]
    return date(year, month, days[n - 1])


print("Thanksgiving:", nth_weekday(2024, 11, calendar.THURSDAY, 4))
print(list(calendar.day_abbr), calendar.month_name[7], calendar.timegm((2024, 1, 1, 0, 0, 0)))
html = calendar.HTMLCalendar().formatmonth(2024, 2)
print(html.count("<tr"), "rows of HTML")
