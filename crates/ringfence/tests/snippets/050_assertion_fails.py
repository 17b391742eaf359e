# expect: error AssertionError
def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle]  # wrong for an even number of values


assert median([3, 1, 2]) == 2
assert median([1, 2, 3, 4]) == 2.5, f"expected 2.5, got {median([1, 2, 3, 4])}"
print("All tests passed")
