# expect: error no child processes
import subprocess
import sys

subprocess.check_call([sys.executable, "-m", "pip", "install", "--quiet", "tabulate"])

from tabulate import tabulate

print(tabulate([["apples", 3], ["pears", 5]], headers=["fruit", "count"]))
