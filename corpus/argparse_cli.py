# presets: data,open
import argparse
import sys


def build():
    parser = argparse.ArgumentParser(prog="todo", description="A todo list.")
    parser.add_argument("-v", "--verbose", action="count", default=0)
    sub = parser.add_subparsers(dest="command", required=True)
    add = sub.add_parser("add")
    add.add_argument("title", nargs="+")
    add.add_argument("--priority", type=int, choices=range(1, 4), default=2)
    add.add_argument("--tag", action="append", default=[])
    done = sub.add_parser("done")
    done.add_argument("number", type=int)
    sub.add_parser("list").add_argument("--all", action="store_true")
    return parser


todos = []


def run(argv):
    args = build().parse_args(argv)
    if args.verbose:
        print(f"(verbosity {args.verbose})")
    if args.command == "add":
        todos.append({"title": " ".join(args.title), "priority": args.priority, "tags": args.tag, "done": False})
        print("added", len(todos))
    elif args.command == "done":
        todos[args.number - 1]["done"] = True
    else:
        for i, t in sorted(enumerate(todos, 1), key=lambda it: it[1]["priority"]):
            if args.all or not t["done"]:
                print(f"{i} {'x' if t['done'] else ' '} !{t['priority']} {t['title']} {t['tags']}")


print("arguments of this program:", sys.argv[1:])
for line in ["add buy milk", "add -h".replace("-h", "call Zoë") + " --priority 1 --tag home --tag phone", "-vv list", "done 1", "list", "list --all"]:
    print("$ todo", line)
    run(line.split())
sys.stderr = open("usage.txt", "w")
try:
    run(["add", "x", "--priority", "9"])
except SystemExit as e:
    print("exit code", e.code)
sys.stderr.close()
sys.stderr = sys.__stderr__
print("invalid choice: 9" in open("usage.txt").read())
