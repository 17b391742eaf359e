# presets: standard,data,open
import heapq
from dataclasses import dataclass, field
from typing import Any, List


@dataclass(order=True)
class Job:
    priority: int
    sequence: int
    name: str = field(compare=False)
    burst: int = field(compare=False)
    remaining: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        self.remaining = self.burst


class Scheduler:
    def __init__(self, quantum: int = 3) -> None:
        self.quantum = quantum
        self.heap: List[Any] = []
        self.counter = 0
        self.clock = 0
        self.timeline: List[str] = []

    def submit(self, name: str, burst: int, priority: int = 5) -> None:
        heapq.heappush(self.heap, Job(priority, self.counter, name, burst))
        self.counter += 1

    def run(self) -> None:
        while self.heap:
            job = heapq.heappop(self.heap)
            slice_ = min(self.quantum, job.remaining)
            self.clock += slice_
            job.remaining -= slice_
            self.timeline.append(f"{job.name}×{slice_}")
            if job.remaining:
                job.priority += 1
                job.sequence = self.counter
                self.counter += 1
                heapq.heappush(self.heap, job)
            else:
                print(f"t={self.clock:>2} {job.name} done (burst {job.burst}, final priority {job.priority})")


s = Scheduler()
s.submit("backup", 7, priority=8)
s.submit("mail", 4, priority=3)
s.submit("index", 9, priority=4)
s.submit("alarm", 1, priority=0)
s.run()
print(" ".join(s.timeline))
assert s.clock == 21
