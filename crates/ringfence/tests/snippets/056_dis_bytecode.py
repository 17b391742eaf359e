# expect: ok
import dis


def scale(values, factor=2):
    total = 0
    for v in values:
        total += v * factor
    return total


dis.dis(scale)
names = {instruction.opname for instruction in dis.get_instructions(scale)}
print("loop:", "FOR_ITER" in names)

code = scale.__code__
print("arguments:", code.co_varnames[: code.co_argcount])
print("locals:", code.co_varnames[code.co_argcount:], "constants:", code.co_consts)
print("defaults:", scale.__defaults__)
