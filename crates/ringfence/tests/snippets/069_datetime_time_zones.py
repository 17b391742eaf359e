# expect: ok
from datetime import datetime, timedelta, timezone

try:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError
except ImportError:
    ZoneInfo = None

utc = datetime(2024, 3, 30, 23, 0, tzinfo=timezone.utc)
print(utc.isoformat(), int(utc.timestamp()))
print(utc.astimezone(timezone(timedelta(hours=5, minutes=30))).strftime("%d %b %H:%M %z"))

if ZoneInfo:
    try:
        berlin = ZoneInfo("Europe/Berlin")
        for hours in (0, 2, 4):
            local = (utc + timedelta(hours=hours)).astimezone(berlin)
            print(local.isoformat(), local.tzname())
    except ZoneInfoNotFoundError as e:
        print("No time zone data:", e)
print(datetime.fromisoformat("2024-01-05T10:00:00+02:00").utcoffset())
