# expect: ok
class PluginMeta(type):
    registry = {}

    def __new__(mcs, name, bases, namespace, **kwargs):
        cls = super().__new__(mcs, name, bases, namespace)
        if bases:
            mcs.registry[kwargs.get("key", name.lower())] = cls
        return cls

    def __init__(cls, name, bases, namespace, **kwargs):
        super().__init__(name, bases, namespace)

    def __call__(cls, *args, **kwargs):
        print(f"Creating {cls.__name__}")
        return super().__call__(*args, **kwargs)


class Exporter(metaclass=PluginMeta):
    def export(self, data):
        raise NotImplementedError


class CsvExporter(Exporter, key="csv"):
    def export(self, data):
        return ",".join(map(str, data))


class LinesExporter(Exporter):
    def export(self, data):
        return "\n".join(map(str, data))


for key, cls in PluginMeta.registry.items():
    print(key, repr(cls().export([1, 2, 3])))
