# presets: data,open
import io
import unittest
from unittest import mock


class Stack:
    def __init__(self):
        self.items = []

    def push(self, x):
        self.items.append(x)

    def pop(self):
        if not self.items:
            raise IndexError("pop from empty stack")
        return self.items.pop()


class StackTest(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()

    def test_push_pop(self):
        self.stack.push(1)
        self.stack.push(2)
        self.assertEqual(self.stack.pop(), 2)

    def test_empty(self):
        with self.assertRaisesRegex(IndexError, "empty"):
            self.stack.pop()

    def test_many(self):
        for n in (0, 3, 10):
            with self.subTest(n=n):
                s = Stack()
                for i in range(n):
                    s.push(i)
                self.assertEqual(len(s.items), n)

    @unittest.skip("not written yet")
    def test_skipped(self):
        pass

    def test_wrong(self):
        self.assertEqual(1 + 1, 3)

    def test_mock(self):
        sink = mock.Mock(return_value="ok")
        self.assertEqual(sink(1, a=2), "ok")
        sink.assert_called_once_with(1, a=2)
        with mock.patch.object(Stack, "pop", return_value=99):
            self.assertEqual(self.stack.pop(), 99)


suite = unittest.defaultTestLoader.loadTestsFromTestCase(StackTest)
result = unittest.TextTestRunner(stream=io.StringIO(), verbosity=2).run(suite)
print(f"failures {len(result.failures)}, errors {len(result.errors)}, skipped {len(result.skipped)}")
print("failed:", [test.id().split(".")[-1] for test, _ in result.failures])
print(result.failures[0][1].strip().splitlines()[-1])
