# expect: ok
class Settings:
    theme = "light"
    font_size = 12

    def __init__(self, **overrides):
        for key, value in overrides.items():
            if not hasattr(self, key):
                raise AttributeError(f"unknown setting: {key}")
            setattr(self, key, type(getattr(self, key))(value))

    def __setattr__(self, name, value):
        print(f"set {name} = {value!r}")
        super().__setattr__(name, value)

    def reset(self):
        for name in list(vars(self)):
            delattr(self, name)


s = Settings(font_size="14", theme="dark")
print(s.theme, s.font_size)
s.reset()
print(s.theme, s.font_size)
try:
    Settings(color="red")
except AttributeError as e:
    print(e)
