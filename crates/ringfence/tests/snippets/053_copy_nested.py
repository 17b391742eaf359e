# expect: ok
import copy


class Node:
    created = 0

    def __init__(self, value, children=None):
        self.value = value
        self.children = children or []

    def __deepcopy__(self, memo):
        Node.created += 1
        new = Node(copy.deepcopy(self.value, memo))
        memo[id(self)] = new
        new.children = copy.deepcopy(self.children, memo)
        return new


settings = {"colors": ["red", "blue"], "size": (1, 2)}
shallow = copy.copy(settings)
deep = copy.deepcopy(settings)
settings["colors"].append("green")
print("shallow:", shallow["colors"])
print("deep:   ", deep["colors"])

tree = Node(1, [Node(2), Node(3, [Node(4)])])
tree.children.append(tree.children[0])
clone = copy.deepcopy(tree)
print(Node.created, clone.children[0] is clone.children[2], clone.children[0] is tree.children[0])
