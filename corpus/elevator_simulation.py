# presets: standard,data,open
import random
from collections import deque
from dataclasses import dataclass, field


@dataclass
class Passenger:
    name: str
    origin: int
    target: int
    waited: int = 0


@dataclass
class Elevator:
    floors: int
    at: int = 0
    direction: int = 1
    inside: list = field(default_factory=list)
    delivered: list = field(default_factory=list)

    def step(self, waiting):
        for p in [p for p in self.inside if p.target == self.at]:
            self.inside.remove(p)
            self.delivered.append(p)
            print(f"  floor {self.at}: {p.name} leaves after {p.waited} ticks")
        queue = waiting[self.at]
        while queue and len(self.inside) < 3:
            p = queue.popleft()
            self.inside.append(p)
            print(f"  floor {self.at}: {p.name} enters, wants {p.target}")
        if self.at in (0, self.floors - 1):
            self.direction = 1 if self.at == 0 else -1
        self.at += self.direction
        for p in self.inside + [p for q in waiting for p in q]:
            p.waited += 1


rng = random.Random(99)
floors = 5
waiting = [deque() for _ in range(floors)]
for name in ["Ana", "Bo", "Cy", "Di", "Ed", "Flo"]:
    a, b = rng.sample(range(floors), 2)
    waiting[a].append(Passenger(name, a, b))

lift = Elevator(floors)
tick = 0
while len(lift.delivered) < 6 and tick < 100:
    lift.step(waiting)
    tick += 1
print("ticks:", tick, "mean wait:", sum(p.waited for p in lift.delivered) / 6)
