# expect: ok
import pickle
import shelve
import threading


class Job:
    def __init__(self, title):
        self.title = title
        self.lock = threading.Lock()

    def __getstate__(self):
        state = self.__dict__.copy()
        del state["lock"]
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.lock = threading.Lock()


class Temperature:
    def __init__(self, celsius):
        self.celsius = celsius

    def __reduce__(self):
        return (self.__class__, (self.celsius,))


job = pickle.loads(pickle.dumps(Job("backup")))
print(job.title, job.lock.acquire(blocking=False))
print(pickle.loads(pickle.dumps(Temperature(21))).celsius)

with shelve.open("jobs") as db:
    db["first"] = job.title
    db["numbers"] = [1, 2, 3]
with shelve.open("jobs") as db:
    print(sorted(db.keys()), db["numbers"])
