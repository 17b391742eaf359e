# expect: ok
import threading


class Counter:
    def __init__(self):
        self.value = 0
        self._lock = threading.Lock()

    def increment(self):
        with self._lock:
            self.value += 1


def work(counter, n):
    for _ in range(n):
        counter.increment()


counter = Counter()
threads = [threading.Thread(target=work, args=(counter, 1000), name=f"worker-{i}") for i in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("Final value:", counter.value)
assert counter.value == 8000
print("Threads left:", threading.active_count())
