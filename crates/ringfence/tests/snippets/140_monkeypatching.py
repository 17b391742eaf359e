# expect: ok
import builtins
import datetime
import json
import types


class Duck:
    def speak(self):
        return "quack"


def loud(self):
    return original(self).upper()


original = Duck.speak
Duck.speak = loud
donald = Duck()
donald.name = types.MethodType(lambda self: "Donald says " + self.speak(), donald)
print(donald.name())
Duck.speak = original

real_dumps = json.dumps
json.dumps = lambda obj, **kwargs: real_dumps(obj, sort_keys=True, **kwargs)
print(json.dumps({"b": 1, "a": 2}))
json.dumps = real_dumps

real_print = builtins.print
builtins.print = lambda *args, **kwargs: real_print("[log]", *args, **kwargs)
print("patched")
builtins.print = real_print
try:
    datetime.datetime.now = None
except TypeError as e:
    print("TypeError:", str(e)[:30])
