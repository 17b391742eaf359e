# expect: STOPPED replaced or status=error
# Leave a stdout and a stderr behind whose every method fails.
import sys


class Hostile:
    def __getattribute__(self, name):
        raise SystemExit(99)


print("STOPPED replaced", flush=True)
sys.stdout = sys.__stdout__ = Hostile()
sys.stderr = sys.__stderr__ = Hostile()
sys.excepthook = Hostile()
