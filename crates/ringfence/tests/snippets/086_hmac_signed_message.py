# expect: ok
import base64
import hashlib
import hmac
import json

KEY = b"example"


def sign(payload):
    body = base64.urlsafe_b64encode(json.dumps(payload, sort_keys=True).encode())
    mac = hmac.new(KEY, body, hashlib.sha256).hexdigest()
    return body.decode() + "." + mac


def verify(message):
    body, _, mac = message.partition(".")
    expected = hmac.new(KEY, body.encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(mac, expected):
        raise ValueError("bad signature")
    return json.loads(base64.urlsafe_b64decode(body))


message = sign({"user": "demo", "role": "reader"})
print(verify(message))
try:
    verify(message[:-1] + ("0" if message[-1] != "0" else "1"))
except ValueError as e:
    print("rejected:", e)
