# presets: standard,data,open
class Node:
    def __init__(self, value, next=None):
        self.value = value
        self.next = next


class LinkedList:
    def __init__(self, values=()):
        self.head = None
        self.size = 0
        for v in values:
            self.append(v)

    def append(self, value):
        node = Node(value)
        if self.head is None:
            self.head = node
        else:
            cur = self.head
            while cur.next:
                cur = cur.next
            cur.next = node
        self.size += 1

    def reverse(self):
        prev, cur = None, self.head
        while cur:
            cur.next, prev, cur = prev, cur, cur.next
        self.head = prev

    def remove(self, value):
        prev, cur = None, self.head
        while cur and cur.value != value:
            prev, cur = cur, cur.next
        if cur is None:
            raise ValueError(f"{value} not in list")
        if prev is None:
            self.head = cur.next
        else:
            prev.next = cur.next
        self.size -= 1

    def __iter__(self):
        cur = self.head
        while cur:
            yield cur.value
            cur = cur.next

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index < 0:
            index += self.size
        for i, v in enumerate(self):
            if i == index:
                return v
        raise IndexError(index)

    def __str__(self):
        return " -> ".join(map(str, self)) or "(empty)"


ll = LinkedList([1, 2, 3, 4])
print(ll, len(ll))
ll.reverse()
print(ll, ll[0], ll[-1])
ll.remove(3)
ll.append("five")
print(ll, 4 in ll, 3 in ll)
try:
    ll.remove(99)
except ValueError as e:
    print(e)
print(LinkedList())
