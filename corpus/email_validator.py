# presets: standard,data,open
import re

EMAIL = re.compile(r"(?P<local>[\w.+-]+)@(?P<domain>(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,})", re.I)
PHONE = re.compile(r"(?:\+(\d{1,3})[ -]?)?\(?(\d{3})\)?[ -]?(\d{3})[ -]?(\d{4})")
DATE = re.compile(r"\b(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])\b")

cases = {
    "simple@example.com": True,
    "very.common+tag@sub.example.co.uk": True,
    "no-at-sign.example.com": False,
    "two@@example.com": False,
    "trailing@example.": False,
    "-dash@exam-ple.org": True,
    "a@-example.com": False,
}
for address, expected in cases.items():
    got = EMAIL.fullmatch(address) is not None
    print(f"{'ok ' if got == expected else 'BAD'} {address:<36} {got}")
    assert got == expected

text = "Call (555) 123-4567 or +1 555-987-6543 before 2024-12-24; write to ann@example.org, bob@example.net."
print(["".join(m) for m in PHONE.findall(text)])
print(EMAIL.findall(text))
print(DATE.sub(lambda m: f"{m[3]}.{m[2]}.{m[1]}", text))
masked = EMAIL.sub(lambda m: m["local"][0] + "***@" + m["domain"], text)
print(masked)
print(re.split(r"[;,]\s*", "a; b,c ;d"), re.sub(r"(?<=\d)(?=(\d{3})+$)", ",", "1234567"))
print(re.findall(r"(?m)^(\w+):\s*(.*)$", "a: 1\nb:2\n c: 3\nd:   four"))
