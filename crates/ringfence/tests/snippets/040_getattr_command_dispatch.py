# expect: ok
class Calculator:
    def __init__(self):
        self.stack = []

    def do_push(self, value):
        self.stack.append(float(value))

    def do_add(self):
        self.stack.append(self.stack.pop() + self.stack.pop())

    def do_mul(self):
        self.stack.append(self.stack.pop() * self.stack.pop())

    def do_show(self):
        print("stack:", self.stack)

    def run(self, line):
        command, *args = line.split()
        method = getattr(self, "do_" + command, None)
        if method is None:
            print(f"unknown command: {command}")
            return
        method(*args)


calc = Calculator()
for line in ["push 2", "push 3", "add", "push 4", "mul", "show", "sqrt"]:
    calc.run(line)
print([name[3:] for name in dir(calc) if name.startswith("do_")])
