import calendar
import csv
import io
import pprint
import time
from copy import copy, deepcopy
from datetime import date, datetime, timedelta
from io import BytesIO, StringIO
from zoneinfo import ZoneInfo

rows = list(csv.DictReader(StringIO("name,day\nada,2024-02-29\nbob,2023-12-31\n")))
out = io.StringIO()
writer = csv.writer(out, delimiter=";")
for row in rows:
    day = date.fromisoformat(row["day"])
    writer.writerow([row["name"], calendar.day_name[day.weekday()], (day + timedelta(weeks=1)).isoformat()])
print(out.getvalue(), end="")
started = time.perf_counter()
buffer = BytesIO(b"abc")
print(buffer.read(2), time.perf_counter() - started >= 0, datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC")).isoformat())
pprint.pprint({"rows": deepcopy(rows), "first": copy(rows[0])}, width=60)
print(time.strftime("%Y", time.gmtime(0)), date.today() > date.min)
