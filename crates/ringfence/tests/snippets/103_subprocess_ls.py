# expect: error no child processes
import subprocess

result = subprocess.run(["ls", "-la"], capture_output=True, text=True)
print("Exit code:", result.returncode)
print(result.stdout)
if result.stderr:
    print("Errors:", result.stderr)
