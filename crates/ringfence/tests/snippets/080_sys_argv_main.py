# expect: ok
import sys


def main():
    args = sys.argv[1:]
    if not args:
        print("No arguments given, using the defaults", file=sys.stderr)
        args = ["10", "20", "x"]
    total = 0
    for arg in args:
        try:
            total += int(arg)
        except ValueError:
            print(f"ignored: {arg!r}")
    print("sum:", total)
    return 0


if __name__ == "__main__":
    sys.exit(main())
