# expect: denied no child processes
import os

os.system("clear")
os.system("echo 'Disk usage:' && df -h .")
print("Files:", os.listdir("."))
