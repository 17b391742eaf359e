# expect: ok
import base64
import binascii

pixel = (
    b"GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00"
    b",\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"
)
with open("pixel.gif", "wb") as f:
    f.write(pixel)

with open("pixel.gif", "rb") as f:
    encoded = base64.b64encode(f.read()).decode("ascii")
uri = f"data:image/gif;base64,{encoded}"
print(len(uri), uri[:40])
assert base64.b64decode(uri.split(",", 1)[1]) == pixel

print(base64.b32encode(b"hello").decode(), base64.b16encode(b"hi").decode())
print(base64.urlsafe_b64encode(bytes([251, 255])).decode(), binascii.hexlify(b"abc"), hex(binascii.crc32(b"abc")))
try:
    base64.b64decode("abc")
except binascii.Error as e:
    print("Error:", e)
