# expect: ok
import io
import unittest


class Stack:
    def __init__(self):
        self._items = []

    def push(self, item):
        self._items.append(item)

    def pop(self):
        return self._items.pop()


class StackTest(unittest.TestCase):
    def setUp(self):
        self.stack = Stack()

    def test_push_and_pop(self):
        self.stack.push(1)
        self.assertEqual(self.stack.pop(), 1)

    def test_pop_empty(self):
        self.assertRaises(IndexError, self.stack.pop)

    @unittest.skip("not written yet")
    def test_peek(self):
        pass


suite = unittest.defaultTestLoader.loadTestsFromTestCase(StackTest)
result = unittest.TextTestRunner(stream=io.StringIO(), verbosity=2).run(suite)
print(f"run {result.testsRun}, failed {len(result.failures)}, skipped {len(result.skipped)}")

unittest.main(argv=["ignored", "StackTest.test_pop_empty"], exit=False)
