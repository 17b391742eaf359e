# presets: standard,data,open
# A tiny JSON parser, checked against the standard one.
import json
import re

NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "r": "\r"}


def skip(s, i):
    while i < len(s) and s[i] in " \t\r\n":
        i += 1
    return i


def parse(s, i=0):
    i = skip(s, i)
    c = s[i]
    if c == "{":
        out, i = {}, skip(s, i + 1)
        while s[i] != "}":
            key, i = parse(s, i)
            i = skip(s, i)
            assert s[i] == ":", i
            out[key], i = parse(s, i + 1)
            i = skip(s, i)
            if s[i] == ",":
                i = skip(s, i + 1)
        return out, i + 1
    if c == "[":
        out, i = [], skip(s, i + 1)
        while s[i] != "]":
            item, i = parse(s, i)
            out.append(item)
            i = skip(s, i)
            if s[i] == ",":
                i += 1
        return out, i + 1
    if c == '"':
        out, i = "", i + 1
        while s[i] != '"':
            if s[i] == "\\":
                i += 1
                if s[i] == "u":
                    out += chr(int(s[i + 1 : i + 5], 16))
                    i += 4
                else:
                    out += ESCAPES[s[i]]
            else:
                out += s[i]
            i += 1
        return out, i + 1
    for word, value in (("true", True), ("false", False), ("null", None)):
        if s.startswith(word, i):
            return value, i + len(word)
    m = NUMBER.match(s, i)
    return (float(m[0]) if m[1] or m[2] else int(m[0])), m.end()


samples = ['[1, 2.5, -3e2, "a\\nb\\u00e9"]', '{"k": {"nested": [true, false, null]}, "e": []}', ' "日本" ', "[]", "{}"]
for sample in samples:
    ours, end = parse(sample)
    assert ours == json.loads(sample), (ours, sample)
    print("ok", repr(ours))
