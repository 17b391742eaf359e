# presets: standard,data,open
import io
import json
from collections import defaultdict
from datetime import datetime

STREAM = io.StringIO("""\
{"ts": "2024-06-01T08:00:00", "sensor": "a", "value": 20.5}
{"ts": "2024-06-01T08:05:00", "sensor": "b", "value": 18.0}
{"ts": "2024-06-01T08:10:00", "sensor": "a", "value": 21.0}
not json at all
{"ts": "2024-06-01T08:15:00", "sensor": "a", "value": null}
{"ts": "2024-06-01T09:30:00", "sensor": "b", "value": 25.25}
{"ts": "2024-06-01T09:31:00", "value": 1}
""")


def read(stream):
    for number, line in enumerate(stream, 1):
        try:
            record = json.loads(line)
            record["ts"] = datetime.fromisoformat(record["ts"])
            if record["value"] is None:
                raise ValueError("value is null")
            record["sensor"]
        except json.JSONDecodeError as e:
            print(f"skip line {number}: bad JSON at column {e.colno}")
        except (KeyError, ValueError) as e:
            print(f"skip line {number}: {type(e).__name__} {e}")
        else:
            yield record


series = defaultdict(list)
for record in read(STREAM):
    series[record["sensor"]].append((record["ts"], record["value"]))

for sensor, points in sorted(series.items()):
    (t0, v0), (t1, v1) = points[0], points[-1]
    hours = (t1 - t0).total_seconds() / 3600
    print(f"{sensor}: {len(points)} points over {hours:.2f} h, slope {(v1 - v0) / hours:+.2f}/h")
