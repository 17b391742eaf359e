# expect: error no child processes
from concurrent.futures import ProcessPoolExecutor


def is_prime(n):
    if n < 2:
        return False
    return all(n % d for d in range(2, int(n ** 0.5) + 1))


def main():
    numbers = [112272535095293, 112582705942171, 115280095190773, 115797848077099]
    with ProcessPoolExecutor(max_workers=4) as executor:
        for number, prime in zip(numbers, executor.map(is_prime, [n % 10007 for n in numbers])):
            print(f"{number} % 10007 is prime: {prime}")


if __name__ == "__main__":
    main()
