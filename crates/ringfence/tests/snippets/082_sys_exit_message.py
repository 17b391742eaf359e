# expect: error no input file
import os
import sys

path = sys.argv[1] if len(sys.argv) > 1 else "input.csv"
if not os.path.exists(path):
    sys.exit(f"no input file: {path}")
print(open(path).read())
