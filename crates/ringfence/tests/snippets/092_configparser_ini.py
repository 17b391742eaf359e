# expect: ok
import configparser

with open("settings.ini", "w") as f:
    f.write("""\
[DEFAULT]
base = /srv/app
retries = 3

[database]
path = %(base)s/data.db
timeout = 2.5
readonly = no

[mail]
to = ann@example.com, bob@example.com
retries = 5
""")

config = configparser.ConfigParser()
config.read("settings.ini")
print(config.sections())
db = config["database"]
print(db["path"], db.getfloat("timeout"), db.getboolean("readonly"), db.getint("retries"))
print([address.strip() for address in config.get("mail", "to").split(",")], config.getint("mail", "retries"))
print(config.get("mail", "cc", fallback="none"))

config.add_section("cache")
config.set("cache", "size", "100")
with open("settings.ini", "w") as f:
    config.write(f)
print("[cache]" in open("settings.ini").read())
