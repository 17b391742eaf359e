# presets: standard,data,open
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

CITIES = {
    "San Francisco": "America/Los_Angeles",
    "New York": "America/New_York",
    "London": "Europe/London",
    "Zürich": "Europe/Zurich",
    "Kolkata": "Asia/Kolkata",
    "Tokyo": "Asia/Tokyo",
}

meeting = datetime(2024, 3, 28, 16, 0, tzinfo=ZoneInfo("Europe/Zurich"))
for week in range(2):
    when = meeting + timedelta(weeks=week)
    print(f"{when:%Y-%m-%d %H:%M %Z} (UTC{when:%z})")
    for city, zone in CITIES.items():
        local = when.astimezone(ZoneInfo(zone))
        mark = "☀" if 8 <= local.hour < 18 else "☾"
        print(f"  {city:<14} {local:%a %H:%M} {local.tzname():<5} {mark}")

# The hour that does not exist, and the one that happens twice.
zurich = ZoneInfo("Europe/Zurich")
gap = datetime(2024, 3, 31, 2, 30, tzinfo=zurich)
back = gap.astimezone(ZoneInfo("UTC")).astimezone(zurich)
print("02:30 becomes", back.strftime("%H:%M"))
for fold in (0, 1):
    d = datetime(2024, 10, 27, 2, 30, tzinfo=zurich, fold=fold)
    print(f"fold={fold}: {d.isoformat()} {d.tzname()}")
print("same instant apart:", datetime(2024, 10, 27, 2, 30, tzinfo=zurich, fold=1).timestamp() - datetime(2024, 10, 27, 2, 30, tzinfo=zurich).timestamp())
