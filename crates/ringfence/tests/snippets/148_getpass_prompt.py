# expect: error EOFError
import getpass

user = getpass.getuser()
password = getpass.getpass(f"Password for {user}: ")
if len(password) < 8:
    print("The password is too short")
else:
    print("Accepted")
