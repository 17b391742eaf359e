# expect: ok
import argparse


def main(argv=None):
    parser = argparse.ArgumentParser(description="Count words in a text")
    parser.add_argument("text", nargs="*", default=["the", "quick", "brown", "the"])
    parser.add_argument("-n", "--top", type=int, default=2, help="number of words to show")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args(argv)

    counts = {}
    for word in args.text:
        counts[word] = counts.get(word, 0) + 1
    if args.verbose:
        print("arguments:", vars(args))
    for word, n in sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))[: args.top]:
        print(word, n)


if __name__ == "__main__":
    main()
    main(["--verbose", "--top", "1", "a", "b", "a"])
