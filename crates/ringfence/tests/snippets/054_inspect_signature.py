# expect: ok
import inspect


def connect(host, port=5432, *, timeout: float = 2.5, **options) -> bool:
    """Open a connection.

    Nothing happens in this example.
    """
    return True


class Service:
    def start(self): ...
    def stop(self): ...
    def _secret(self): ...


signature = inspect.signature(connect)
print(signature)
for name, parameter in signature.parameters.items():
    default = "required" if parameter.default is parameter.empty else parameter.default
    print(f"  {name:<8} {parameter.kind.name:<22} {default}")

bound = signature.bind("db", timeout=1.0, ssl=True)
bound.apply_defaults()
print(bound.arguments)
methods = inspect.getmembers(Service, predicate=inspect.isfunction)
print([name for name, _ in methods if not name.startswith("_")])
print(inspect.getdoc(connect).splitlines()[0], inspect.isgeneratorfunction(connect))
