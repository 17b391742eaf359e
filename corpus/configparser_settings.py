# presets: data,open
import configparser
import io

DEFAULTS = """
[DEFAULT]
timeout = 30
base = /srv/app

[web]
host = localhost
port = 8080
root = %(base)s/static

[db]
url = sqlite:///%(base)s/data.db
timeout = 5
pool = on
hosts =
    alpha
    beta
"""

config = configparser.ConfigParser()
config.read_string(DEFAULTS)
with open("local.ini", "w", encoding="utf-8") as f:
    f.write("[web]\nport = 9999\nmotto = Grüß Gott\n\n[extra]\nkey = value\n")
print(config.read(["missing.ini", "local.ini"], encoding="utf-8"))
for section in config.sections():
    print(section, {k: v for k, v in config[section].items() if k not in config.defaults()})
print(config["web"]["root"], config.getint("web", "port"), config.getboolean("db", "pool"), config.getfloat("db", "timeout"))
print(config["db"]["hosts"].split(), config.get("web", "missing", fallback="none"))
try:
    config.get("nope", "x")
except configparser.NoSectionError as e:
    print(e)
config.remove_section("db")
config.set("extra", "n", "1")
out = io.StringIO()
config.write(out)
print(out.getvalue().strip().splitlines()[-2:])
