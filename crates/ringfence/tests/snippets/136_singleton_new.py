# expect: ok
import threading


class Singleton:
    _instance = None
    _lock = threading.Lock()

    def __new__(cls, *args, **kwargs):
        with cls._lock:
            if cls._instance is None:
                cls._instance = super().__new__(cls)
        return cls._instance


class SingletonMeta(type):
    _instances = {}

    def __call__(cls, *args, **kwargs):
        if cls not in cls._instances:
            cls._instances[cls] = super().__call__(*args, **kwargs)
        return cls._instances[cls]


class Database(metaclass=SingletonMeta):
    def __init__(self, name="main"):
        self.name = name


class Celsius(float):
    def __new__(cls, value):
        return super().__new__(cls, round(value, 1))


print(Singleton() is Singleton(), Database("a") is Database("b"), Database().name)
raw = object.__new__(Singleton)
print(raw is Singleton(), isinstance(raw, Singleton), Celsius(21.456))
