# expect: ok
import pickle


class Player:
    def __init__(self, name, score):
        self.name = name
        self.score = score
        self.inventory = {"gold": 10}

    def __eq__(self, other):
        return vars(self) == vars(other)


players = [Player("ann", 120), Player("bob", 95)]
with open("save.pkl", "wb") as f:
    pickle.dump(players, f, protocol=pickle.HIGHEST_PROTOCOL)

with open("save.pkl", "rb") as f:
    loaded = pickle.load(f)

print("equal:", loaded == players, "same object:", loaded[0] is players[0])
try:
    pickle.dumps(lambda x: x)
except (pickle.PicklingError, AttributeError) as e:
    print("A lambda cannot be pickled:", type(e).__name__ in ("PicklingError", "AttributeError"))
