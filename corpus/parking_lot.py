# presets: standard,data,open
from dataclasses import dataclass
from enum import IntEnum
from typing import Dict, List, Optional


class Size(IntEnum):
    MOTORBIKE = 1
    CAR = 2
    VAN = 3


@dataclass(frozen=True)
class Vehicle:
    plate: str
    size: Size


class Spot:
    def __init__(self, number: int, size: Size):
        self.number = number
        self.size = size
        self.vehicle: Optional[Vehicle] = None

    def fits(self, v: Vehicle) -> bool:
        return self.vehicle is None and self.size >= v.size


class ParkingLot:
    RATES = {Size.MOTORBIKE: 1, Size.CAR: 3, Size.VAN: 5}

    def __init__(self, layout: List[Size]):
        self.spots = [Spot(i, s) for i, s in enumerate(layout, 1)]
        self.tickets: Dict[str, tuple] = {}
        self.revenue = 0

    def park(self, v: Vehicle, hour: int) -> bool:
        fitting = [s for s in self.spots if s.fits(v)]
        if not fitting:
            return False
        spot = min(fitting, key=lambda s: (s.size, s.number))
        spot.vehicle = v
        self.tickets[v.plate] = (spot, hour)
        return True

    def leave(self, plate: str, hour: int) -> int:
        spot, since = self.tickets.pop(plate)
        fee = max(1, hour - since) * self.RATES[spot.size]
        spot.vehicle = None
        self.revenue += fee
        return fee

    def __str__(self) -> str:
        return " ".join(f"[{s.vehicle.plate if s.vehicle else s.size.name[0].lower()}]" for s in self.spots)


lot = ParkingLot([Size.MOTORBIKE, Size.CAR, Size.CAR, Size.VAN])
arrivals = [("M-1", Size.MOTORBIKE), ("C-1", Size.CAR), ("V-1", Size.VAN), ("M-2", Size.MOTORBIKE), ("C-2", Size.CAR)]
for hour, (plate, size) in enumerate(arrivals, 8):
    ok = lot.park(Vehicle(plate, size), hour)
    print(f"{hour:02d}:00 {plate} {'parked' if ok else 'turned away':<12} {lot}")
for plate, hour in [("C-1", 12), ("V-1", 20), ("M-2", 11)]:
    print(plate, "pays", lot.leave(plate, hour))
print(lot, "revenue", lot.revenue)
