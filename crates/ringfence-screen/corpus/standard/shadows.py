"""Names that only look dangerous."""
import re
import json
import math

open_count = 0
evaluate = {"eval": "eval(1)", "__class__": "a key"}
input_rows = [[1, 2], [3, 4]]


class Model:
    training = True

    def eval(self):
        self.training = False
        return self

    def compile(self, optimizer="sgd", loss=None):
        self.optimizer = optimizer
        return self

    def open(self):
        global open_count
        open_count += 1
        return self

    def forward(self, input):
        return [sum(row) for row in input]

    @property
    def type(self):
        return "model"

    def vars(self):
        return {"a": 1}


def filter(rows, type=None, format="json", license="MIT", help=""):
    if type is not None:
        rows = [row for row in rows if row.get("type") == type]
    return json.dumps(rows) if format == "json" else format.join(map(str, rows)) + license + help


def process(input, vars=(), dir="."):
    compile = re.compile(input)
    return compile.pattern, vars, dir


model = Model().compile(loss="mse").eval().open()
print(model.forward(input_rows), model.type, model.vars(), open_count)
print(filter([{"type": "a"}, {"type": "b"}], type="a"), process("a+"))
print(re.compile("x").match("x"), json.loads("{}"), math.exp(1), evaluate["eval"])
print([type(x).__name__ for x in (1, "a", None)], isinstance(int, type), type(1) is int)
vars = {"x": 1}
for key, value in vars.items():
    print(key, value)
input = "1 2 3"
print([int(part) for part in input.split()])
