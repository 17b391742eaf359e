# expect: error RecursionError
def factorial(n):
    return n * factorial(n - 1)  # no base case


print(factorial(5))
