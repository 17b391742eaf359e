# presets: standard,data,open
"""A scripted text adventure: the commands are given, the engine answers."""

ROOMS = {
    "hall": {"text": "A dusty hall.", "exits": {"north": "library", "east": "kitchen"}, "items": ["lamp"]},
    "library": {"text": "Books everywhere.", "exits": {"south": "hall"}, "items": ["key", "scroll"]},
    "kitchen": {"text": "It smells of soup.", "exits": {"west": "hall", "down": "cellar"}, "items": []},
    "cellar": {"text": "A locked chest stands here.", "exits": {"up": "kitchen"}, "items": []},
}


class Game:
    def __init__(self):
        self.room = "hall"
        self.bag = set()
        self.won = False

    def look(self):
        room = ROOMS[self.room]
        seen = ", ".join(room["items"]) or "nothing"
        return f"[{self.room}] {room['text']} You see {seen}. Exits: {', '.join(sorted(room['exits']))}"

    def do(self, command):
        verb, _, noun = command.partition(" ")
        room = ROOMS[self.room]
        if verb == "look":
            return self.look()
        if verb == "go":
            if noun not in room["exits"]:
                return "You can't go that way."
            if room["exits"][noun] == "cellar" and "lamp" not in self.bag:
                return "It is too dark."
            self.room = room["exits"][noun]
            return self.look()
        if verb == "take":
            if noun not in room["items"]:
                return f"There is no {noun} here."
            room["items"].remove(noun)
            self.bag.add(noun)
            return f"Taken: {noun}."
        if verb == "open" and noun == "chest" and self.room == "cellar":
            if "key" not in self.bag:
                return "It is locked."
            self.won = True
            return "The chest opens. You win!"
        if verb == "bag":
            return "You carry: " + (", ".join(sorted(self.bag)) or "nothing")
        return f"I don't understand {command!r}."


game = Game()
script = "look;go east;go down;go west;take lamp;go north;take key;take sword;bag;dance;go south;go east;go down;open chest"
for command in script.split(";"):
    print(f"> {command}")
    print(game.do(command))
    if game.won:
        break
