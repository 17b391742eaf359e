# presets: standard,data,open
import re

SOURCE = """# Release notes

This is **bold**, *italic* and `code <b>`.
Second line of the paragraph with a [link](https://example.org/a?b=1&c=2).

- first item
- second *item*

1. one
2. two

> quoted text

```
raw & <unescaped>
```
"""


def escape(s):
    return s.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def inline(s):
    s = escape(s)
    s = re.sub(r"`([^`]+)`", r"<code>\1</code>", s)
    s = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", s)
    s = re.sub(r"\*(.+?)\*", r"<em>\1</em>", s)
    return re.sub(r"\[([^\]]+)\]\(([^)]+)\)", r'<a href="\2">\1</a>', s)


def convert(text):
    for block in re.split(r"\n{2,}", text.strip()):
        lines = block.splitlines()
        if m := re.match(r"(#{1,6}) (.+)", block):
            yield f"<h{len(m[1])}>{inline(m[2])}</h{len(m[1])}>"
        elif block.startswith("```"):
            yield "<pre>" + escape("\n".join(lines[1:-1])) + "</pre>"
        elif all(l.startswith("- ") for l in lines):
            yield "<ul>" + "".join(f"<li>{inline(l[2:])}</li>" for l in lines) + "</ul>"
        elif all(re.match(r"\d+\. ", l) for l in lines):
            yield "<ol>" + "".join(f"<li>{inline(l.split('. ', 1)[1])}</li>" for l in lines) + "</ol>"
        elif block.startswith("> "):
            yield f"<blockquote>{inline(block[2:])}</blockquote>"
        else:
            yield f"<p>{inline(' '.join(lines))}</p>"


print("\n".join(convert(SOURCE)))
