# presets: data,open
import xml.etree.ElementTree as ET
from html import escape, unescape
from html.parser import HTMLParser
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

CATALOG = """<?xml version="1.0"?>
<catalog>
  <cd id="1"><title>Blue Train</title><artist>Coltrane</artist><price currency="EUR">9.90</price></cd>
  <cd id="2"><title>Kind of Blue</title><artist>Davis</artist><price currency="USD">11.50</price></cd>
  <cd id="3"><title>Ágætis byrjun</title><artist>Sigur Rós</artist><price currency="EUR">12.00</price></cd>
</catalog>"""

root = ET.fromstring(CATALOG)
for cd in root.iter("cd"):
    price = cd.find("price")
    print(cd.get("id"), cd.findtext("title"), float(price.text), price.attrib)
print(sum(float(p.text) for p in root.findall("./cd/price[@currency='EUR']")))
for cd in root.findall("cd"):
    if cd.findtext("artist") == "Davis":
        root.remove(cd)
ET.SubElement(root, "cd", id="4").text = "a < b & c"
ET.ElementTree(root).write("out.xml", encoding="utf-8", xml_declaration=True)
print(open("out.xml", encoding="utf-8").read().splitlines()[-1].strip())


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.text = [], []

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self.links.append(dict(attrs).get("href"))

    def handle_data(self, data):
        if data.strip():
            self.text.append(data.strip())


p = Links()
p.feed('<h1>Hi &amp; bye</h1><p>See <a href="/docs?x=1&y=2">docs</a> or <a href="https://b.example/z">b</a><br>')
print(p.links, p.text)
for link in p.links:
    full = urlsplit(urljoin("https://a.example/start/", link))
    print(full.netloc, full.path, parse_qs(full.query))
print(urlencode({"q": "größe & mehr", "n": 2}), escape("<a b='c'>"), unescape("&eacute;&#8364;"))
