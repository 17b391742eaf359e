# presets: standard,data,open
from enum import Enum, auto


class State(Enum):
    IDLE = auto()
    CONNECTING = auto()
    CONNECTED = auto()
    FAILED = auto()

    @property
    def terminal(self):
        return self is State.FAILED


class Event(Enum):
    DIAL = "dial"
    ANSWER = "answer"
    TIMEOUT = "timeout"
    HANGUP = "hangup"


TRANSITIONS = {
    (State.IDLE, Event.DIAL): State.CONNECTING,
    (State.CONNECTING, Event.ANSWER): State.CONNECTED,
    (State.CONNECTING, Event.TIMEOUT): State.FAILED,
    (State.CONNECTED, Event.HANGUP): State.IDLE,
}


class Phone:
    def __init__(self):
        self.state = State.IDLE
        self.log = []

    def handle(self, event):
        new = TRANSITIONS.get((self.state, event))
        if new is None:
            self.log.append(f"ignored {event.value} while {self.state.name}")
            return
        self.log.append(f"{self.state.name} --{event.value}--> {new.name}")
        self.state = new


phone = Phone()
for word in "dial answer dial hangup hangup dial timeout dial".split():
    phone.handle(Event(word))
print("\n".join(phone.log))
print("final:", phone.state.name, "terminal:", phone.state.terminal)
print([s.name for s in State], Event["DIAL"].value)
try:
    Event("explode")
except ValueError as e:
    print("error:", e)
