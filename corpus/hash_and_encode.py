# presets: standard,data,open
import base64
import binascii
import hashlib
import struct
import uuid

payload = "Grüße, 世界! 🎉".encode("utf-8")
print(len(payload), payload.hex(" ", 4))
for name in ("md5", "sha1", "sha256"):
    print(f"{name:<7}", hashlib.new(name, payload).hexdigest())
print("blake2b", hashlib.blake2b(payload, digest_size=16).hexdigest())
print("crc32  ", f"{binascii.crc32(payload):08x}")

b64 = base64.b64encode(payload).decode()
print(b64, base64.urlsafe_b64encode(b"\xfb\xff\xfe").decode(), base64.b32encode(b"hello").decode())
assert base64.b64decode(b64) == payload
print(base64.b85encode(b"sixteen bytes!!!").decode())

record = struct.pack("<IhBf", 123456789, -42, 255, 1.5)
print(record.hex(), struct.unpack("<IhBf", record), struct.calcsize("<IhBf"))
print(uuid.uuid5(uuid.NAMESPACE_DNS, "example.org"))
print(uuid.UUID("12345678123456781234567812345678").variant)

h = hashlib.sha256()
for chunk in (payload[i : i + 5] for i in range(0, len(payload), 5)):
    h.update(chunk)
assert h.digest() == hashlib.sha256(payload).digest()
print("chunked digest matches")
