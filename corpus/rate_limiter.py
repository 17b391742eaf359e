# presets: standard,data,open
from collections import deque


class TokenBucket:
    def __init__(self, rate, burst):
        self.rate, self.burst = rate, burst
        self.tokens, self.last = burst, 0.0

    def allow(self, now, cost=1):
        self.tokens = min(self.burst, self.tokens + (now - self.last) * self.rate)
        self.last = now
        if self.tokens >= cost:
            self.tokens -= cost
            return True
        return False


class SlidingWindow:
    def __init__(self, limit, window):
        self.limit, self.window = limit, window
        self.hits = deque()

    def allow(self, now):
        while self.hits and self.hits[0] <= now - self.window:
            self.hits.popleft()
        if len(self.hits) < self.limit:
            self.hits.append(now)
            return True
        return False


times = [0, 0.1, 0.2, 0.3, 0.4, 1.0, 1.1, 1.5, 2.6, 2.7, 2.8, 5.0]
limiters = {"bucket 1/s burst 3": TokenBucket(1, 3), "window 3 per 1 s": SlidingWindow(3, 1.0)}
print(f"{'time':<20}" + "".join(f"{t:>5}" for t in times))
for name, limiter in limiters.items():
    answers = [limiter.allow(t) for t in times]
    print(f"{name:<20}" + "".join(f"{'✓' if a else '✗':>5}" for a in answers), sum(answers))
