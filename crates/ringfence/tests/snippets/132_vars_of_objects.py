# expect: ok
class Robot:
    wheels = 4

    def __init__(self, name, **options):
        self.name = name
        vars(self).update(options)


r = Robot("R2", color="blue", speed=3)
print(vars(r))
for key, value in sorted(vars(r).items()):
    print(f"{key:<6} {type(value).__name__:<4} {value}")
print("wheels" in vars(r), "wheels" in vars(Robot), r.wheels)
print([name for name, member in vars(Robot).items() if callable(member)])


def difference(a, b):
    return {k: (vars(a).get(k), vars(b).get(k)) for k in vars(a).keys() | vars(b).keys()
            if vars(a).get(k) != vars(b).get(k)}


print(sorted(difference(r, Robot("R2", color="red", speed=3)).items()))
