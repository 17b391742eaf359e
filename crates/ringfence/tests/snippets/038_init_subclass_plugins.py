# expect: ok
class Handler:
    handlers = {}

    def __init_subclass__(cls, /, extension=None, **kwargs):
        super().__init_subclass__(**kwargs)
        if extension:
            Handler.handlers[extension] = cls

    def handle(self, name):
        return f"{self.__class__.__name__} handles {name}"


class TextHandler(Handler, extension=".txt"):
    pass


class ImageHandler(Handler, extension=".png"):
    def handle(self, name):
        return super().handle(name) + " as a picture"


for name in ("notes.txt", "photo.png", "music.mp3"):
    extension = name[name.rfind("."):]
    cls = Handler.handlers.get(extension)
    print(cls().handle(name) if cls else f"no handler for {extension}")
print([c.__name__ for c in Handler.__subclasses__()])
