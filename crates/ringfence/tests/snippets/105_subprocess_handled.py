# expect: ok
import shutil
import subprocess


def run(command):
    """Return the output of a command, or None if it could not be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
        return done.stdout.strip()
    except FileNotFoundError:
        print("not installed:", command[0])
    except (subprocess.SubprocessError, OSError) as e:
        print("could not run it:", e)
    return None


for command in (["uname", "-s"], ["no-such-program-xyz", "--help"]):
    output = run(command)
    print(command[0], "worked" if output else "gave nothing")
print("found:", shutil.which("no-such-program-xyz"))
