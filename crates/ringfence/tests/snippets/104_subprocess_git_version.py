# expect: error no child processes
import subprocess

version = subprocess.check_output(["git", "--version"], text=True).strip()
print(version)
subprocess.run("git init demo && cd demo && git status", shell=True, check=True)
