# expect: ok
class Base:
    def __repr__(self):
        fields = ", ".join(f"{k}={v!r}" for k, v in sorted(self.__dict__.items()))
        return f"{self.__class__.__name__}({fields})"

    def copy(self, **changes):
        new = self.__class__.__new__(self.__class__)
        new.__dict__.update(self.__dict__, **changes)
        return new


class User(Base):
    def __init__(self, name, age):
        self.name = name
        self.age = age


class Admin(User):
    level = 5


u = User("kim", 31)
print(u, u.copy(age=32))
a = Admin("lee", 40)
print(a, a.__class__.__mro__[1].__name__, a.__class__.__qualname__, a.__module__)
