# presets: data,open
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from queue import Queue


def digits(n):
    return sum(map(int, str(2**n)))


with ThreadPoolExecutor(max_workers=4) as pool:
    print(list(pool.map(digits, [10, 100, 500, 1000])))
    futures = {pool.submit(digits, n): n for n in (15, 25, 35)}
    print(sorted((futures[f], f.result()) for f in as_completed(futures)))
    broken = pool.submit(int, "x")
    print(type(broken.exception()).__name__)

counter, lock = 0, threading.Lock()


def add(times):
    global counter
    for _ in range(times):
        with lock:
            counter += 1


threads = [threading.Thread(target=add, args=(1000,), name=f"t{i}") for i in range(5)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("counter:", counter)

inbox, outbox = Queue(), Queue()


def echo():
    for item in iter(inbox.get, None):
        outbox.put(item.upper())


t = threading.Thread(target=echo, daemon=True)
t.start()
for word in ("alpha", "beta", None):
    inbox.put(word)
t.join(timeout=5)
print(outbox.get(), outbox.get(), t.is_alive())
barrier = threading.Barrier(3)
seen = []
group = [threading.Thread(target=lambda i=i: (barrier.wait(), seen.append(i))) for i in range(3)]
[t.start() for t in group]
[t.join() for t in group]
print(sorted(seen))
