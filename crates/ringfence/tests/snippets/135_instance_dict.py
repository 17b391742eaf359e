# expect: ok
class AttrDict(dict):
    """A dict whose keys are attributes as well."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self

    def __missing__(self, key):
        return f"<no {key}>"


class Borg:
    _shared = {}

    def __init__(self):
        self.__dict__ = self._shared


class Lazy:
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        print("computing", name)
        value = self.__dict__[name] = len(name)
        return value


config = AttrDict(host="localhost", port=80)
config.debug = True
print(config, config.host, config["nothing"])
a, b = Borg(), Borg()
a.state = "running"
print(b.state, a is b, a.__dict__ is b.__dict__)
lazy = Lazy()
print(lazy.total, lazy.total, lazy.__dict__, sorted(Lazy.__dict__)[:2])
