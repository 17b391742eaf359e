# presets: data,open
import os
import pickle
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import date


@dataclass
class Task:
    title: str
    due: date
    subtasks: list = field(default_factory=list)


class Connection:
    def __init__(self, host):
        self.host = host
        self.handle = object()

    def __getstate__(self):
        return {"host": self.host}

    def __setstate__(self, state):
        self.__init__(state["host"] + " (restored)")


tasks = [Task("write", date(2024, 1, 2)), Task("ship", date(2024, 2, 3))]
tasks[1].subtasks.append(tasks[0])

with open("tasks.pkl", "wb") as f:
    pickle.dump(tasks, f, protocol=4)
    pickle.dump({"version": 3}, f, protocol=4)
with open("tasks.pkl", "rb") as f:
    loaded = pickle.load(f)
    print(pickle.load(f))
print(loaded == tasks, loaded[1].subtasks[0] is loaded[0], os.path.getsize("tasks.pkl") > 100)
print(pickle.loads(pickle.dumps(Connection("db1"))).host)
print(list(pickle.loads(pickle.dumps(OrderedDict(a=1, b=(2, {3})))).items()))
for thing in (lambda: 0, open("tasks.pkl", "rb")):
    try:
        pickle.dumps(thing)
    except (pickle.PicklingError, TypeError, AttributeError) as e:
        print("cannot pickle", type(thing).__name__)
try:
    pickle.loads(b"garbage")
except pickle.UnpicklingError:
    print("garbage refused")
