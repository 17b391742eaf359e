# presets: standard,data,open
from __future__ import annotations
from collections import deque
from dataclasses import dataclass
from typing import Iterator, Optional
import random


@dataclass
class Tree:
    key: int
    left: Optional[Tree] = None
    right: Optional[Tree] = None

    def insert(self, key: int) -> bool:
        if key == self.key:
            return False
        side = "left" if key < self.key else "right"
        child = self.left if side == "left" else self.right
        if child is not None:
            return child.insert(key)
        if side == "left":
            self.left = Tree(key)
        else:
            self.right = Tree(key)
        return True

    def inorder(self) -> Iterator[int]:
        if self.left:
            yield from self.left.inorder()
        yield self.key
        if self.right:
            yield from self.right.inorder()

    def height(self) -> int:
        return 1 + max((t.height() for t in (self.left, self.right) if t), default=0)

    def levels(self) -> Iterator[list[int]]:
        queue = deque([self])
        while queue:
            yield [t.key for t in queue]
            for _ in range(len(queue)):
                t = queue.popleft()
                queue.extend(c for c in (t.left, t.right) if c)


random.seed(3)
keys = random.sample(range(100), 15)
root = Tree(keys[0])
for k in keys[1:]:
    root.insert(k)
print("inserted:", keys)
print("in order:", list(root.inorder()))
print("height:", root.height(), "duplicate:", root.insert(keys[4]))
for depth, level in enumerate(root.levels()):
    print(f"level {depth}:", level)
