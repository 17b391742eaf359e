# expect: ok
import sys

MENU = "1) list  2) add  q) quit"
tasks = ["write tests"]
while True:
    print(MENU)
    try:
        choice = input("> ").strip()
    except EOFError:
        print("\nNo input available, leaving.")
        break
    if choice == "1":
        print(tasks)
    elif choice == "2":
        tasks.append(input("task: "))
    elif choice == "q":
        break

rest = sys.stdin.read()
print(f"{len(rest)} characters left, {len(sys.stdin.readlines())} lines")
exit()
