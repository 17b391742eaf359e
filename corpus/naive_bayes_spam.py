# presets: standard,data,open
import math
import re
from collections import Counter

TRAIN = [
    ("spam", "win money now claim your free prize"),
    ("spam", "free offer click now limited money offer"),
    ("spam", "you win a free ticket claim now"),
    ("ham", "meeting moved to monday please confirm"),
    ("ham", "can you send the report before the meeting"),
    ("ham", "lunch on monday with the team"),
    ("ham", "your ticket for the train is attached"),
]


class NaiveBayes:
    def __init__(self):
        self.words = {}
        self.docs = Counter()

    @staticmethod
    def tokens(text):
        return re.findall(r"\w+", text.lower())

    def train(self, label, text):
        self.docs[label] += 1
        self.words.setdefault(label, Counter()).update(self.tokens(text))

    def scores(self, text):
        vocabulary = set().union(*self.words.values())
        total = sum(self.docs.values())
        out = {}
        for label, counts in self.words.items():
            size = sum(counts.values()) + len(vocabulary)
            out[label] = math.log(self.docs[label] / total) + sum(math.log((counts[t] + 1) / size) for t in self.tokens(text))
        return out

    def classify(self, text):
        scores = self.scores(text)
        best = max(scores, key=scores.get)
        weight = sum(math.exp(s - scores[best]) for s in scores.values())
        return best, 1 / weight


model = NaiveBayes()
for label, text in TRAIN:
    model.train(label, text)
for text in ("claim your free money", "please confirm the report", "free lunch on monday", "unknown words only"):
    label, p = model.classify(text)
    print(f"{text:<28} {label:<5} {p:.3f}")
