# expect: ok
import secrets
import string


def generate_password(length=16):
    alphabet = string.ascii_letters + string.digits + "!@#$%"
    while True:
        password = "".join(secrets.choice(alphabet) for _ in range(length))
        if (any(c.islower() for c in password) and any(c.isupper() for c in password)
                and any(c.isdigit() for c in password)):
            return password


passwords = {generate_password() for _ in range(20)}
print("all different:", len(passwords) == 20, "- lengths:", {len(p) for p in passwords})
print(len(secrets.token_hex(8)), len(secrets.token_bytes(12)), secrets.randbelow(10) < 10)
print(secrets.compare_digest("abc", "abc"))
