# expect: ok
import unittest


def fizzbuzz(n):
    if n % 15 == 0:
        return "FizzBuzz"
    if n % 5 == 0:
        return "Buzz"
    return "Fizz" if n % 3 == 0 else str(n)


class FizzBuzzTest(unittest.TestCase):
    def test_plain_numbers(self):
        self.assertEqual(fizzbuzz(7), "7")

    def test_multiples(self):
        for n, expected in [(9, "Fizz"), (10, "Buzz"), (30, "FizzBuzz")]:
            with self.subTest(n=n):
                self.assertEqual(fizzbuzz(n), expected)

    def test_rejects_text(self):
        with self.assertRaises(TypeError):
            fizzbuzz("three")


if __name__ == "__main__":
    unittest.main()
