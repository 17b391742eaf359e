# presets: standard,data,open
from abc import ABC, abstractmethod
from typing import List


class Command(ABC):
    @abstractmethod
    def do(self, text: str) -> str: ...

    @abstractmethod
    def undo(self, text: str) -> str: ...


class Insert(Command):
    def __init__(self, at: int, what: str):
        self.at, self.what = at, what

    def do(self, text):
        return text[: self.at] + self.what + text[self.at :]

    def undo(self, text):
        return text[: self.at] + text[self.at + len(self.what) :]


class Delete(Command):
    def __init__(self, at: int, length: int):
        self.at, self.length = at, length
        self.removed = ""

    def do(self, text):
        self.removed = text[self.at : self.at + self.length]
        return text[: self.at] + text[self.at + self.length :]

    def undo(self, text):
        return text[: self.at] + self.removed + text[self.at :]


class Editor:
    def __init__(self):
        self.text = ""
        self.done: List[Command] = []
        self.undone: List[Command] = []

    def run(self, command: Command):
        self.text = command.do(self.text)
        self.done.append(command)
        self.undone.clear()

    def undo(self):
        if self.done:
            command = self.done.pop()
            self.text = command.undo(self.text)
            self.undone.append(command)

    def redo(self):
        if self.undone:
            command = self.undone.pop()
            self.text = command.do(self.text)
            self.done.append(command)


editor = Editor()
states = [editor.text]
for command in [Insert(0, "Hello world"), Insert(5, ", dear"), Delete(0, 5), Insert(0, "Good bye"), Delete(8, 6)]:
    editor.run(command)
    states.append(editor.text)
    print(f"{type(command).__name__:<7}{editor.text!r}")
while editor.done:
    assert editor.text == states[len(editor.done)]
    editor.undo()
print("undone to", repr(editor.text))
for _ in range(3):
    editor.redo()
print("redone to", repr(editor.text))
