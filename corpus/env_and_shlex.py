# presets: data,open
import fnmatch
import hmac
import ipaddress
import mimetypes
import os
import secrets
import shlex

os.environ["APP_MODE"] = "test"
os.environ["APP_DEBUG"] = "1"
print({k: v for k, v in sorted(os.environ.items()) if k.startswith("APP_")})
print(os.getenv("APP_MISSING", "fallback"), os.path.expandvars("$APP_MODE/${APP_DEBUG}"))
del os.environ["APP_DEBUG"]
print("APP_DEBUG" in os.environ)

print(shlex.split("cp 'my file.txt' \"other dir\"/x --flag=a\\ b"), shlex.quote("it's"))
print(fnmatch.filter(["a.py", "b.txt", "c.PY"], "*.py"))

net = ipaddress.ip_network("192.168.4.0/22")
print(net.num_addresses, net.netmask, ipaddress.ip_address("192.168.7.9") in net, [str(s) for s in net.subnets(new_prefix=24)])
print(ipaddress.ip_address("2001:db8::1").exploded, ipaddress.ip_address("127.0.0.1").is_loopback)

print(mimetypes.guess_type("photo.jpeg"), mimetypes.guess_type("x.html"))
mac = hmac.new(b"key", "nächricht".encode(), "sha256").hexdigest()
print(mac[:32], hmac.compare_digest(mac, mac))
token = secrets.token_hex(8)
print(len(token), len(secrets.token_bytes(5)), secrets.choice([7]))
print(os.path.basename(os.getcwd()) != "", os.cpu_count() >= 1, os.sep, os.linesep == "\n")
pid, size = os.getpid(), os.get_terminal_size if hasattr(os, "get_terminal_size") else None
print(pid > 0, callable(size))
