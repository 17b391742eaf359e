# expect: ok
import random

random.seed(2024)
deck = [f"{rank}{suit}" for suit in "CDHS" for rank in "23456789TJQKA"]
random.shuffle(deck)
hands = [sorted(deck[i * 5:(i + 1) * 5]) for i in range(3)]
for number, hand in enumerate(hands, 1):
    print(f"Player {number}: {' '.join(hand)}")

rolls = [random.randint(1, 6) for _ in range(6000)]
print({face: abs(rolls.count(face) - 1000) < 150 for face in range(1, 7)})
print(random.choices(["win", "lose"], weights=[1, 9], k=5))
print(random.sample(range(100), 3), round(random.uniform(0, 1), 3))

own = random.Random(7)
print(own.random() == random.Random(7).random(), 0 <= random.SystemRandom().random() < 1)
