# expect: ok
counter = 0


def handle_start():
    return "starting"


def handle_stop():
    return "stopping"


def dispatch(action):
    function = globals().get(f"handle_{action}")
    return function() if callable(function) else f"no handler for {action}"


def template():
    name = "Ann"
    balance = 12.5
    return "{name} has {balance:.2f}".format(**locals())


print([dispatch(action) for action in ("start", "stop", "pause")])
print(template())
globals()["counter"] += 5
print(counter, "counter" in globals(), "counter" in locals())
print(sorted(n for n in globals() if n.startswith("handle_")))
print(__name__, [k for k in vars() if k == "counter"])
