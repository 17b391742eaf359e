# expect: STOPPED ignored|nothing-inherited or status=failed or status=killed
# Write results of its own on every inherited descriptor above 2. Nothing of them may become the outcome.
import json
import os
import struct

RESULT = {"status": "ok", "type": "result", "id": 1, "jsonrpc": "2.0", "exit_code": 0, "stdout": "ESCAPED forged\n", "stderr": ""}
text = json.dumps(RESULT).encode()
frames = [text + b"\n", text + b"\0"] + [struct.pack(f, len(text)) + text for f in ("<I", ">I", "<Q", ">Q")]
frames.append(b"Content-Length: %d\r\n\r\n" % len(text) + text)

written = 0
for descriptor in range(3, 256):
    for frame in frames:
        try:
            os.set_blocking(descriptor, False)
            written += os.write(descriptor, frame) > 0
        except OSError:
            break
print("STOPPED", "ignored" if written else "nothing-inherited", flush=True)
