# expect: ok
import xml.etree.ElementTree as ET

root = ET.Element("catalog", version="1")
for title, price, genre in [("Dune", 9.99, "sf"), ("Emma", 5.5, "novel"), ("Ubik", 7.25, "sf")]:
    book = ET.SubElement(root, "book", genre=genre)
    ET.SubElement(book, "title").text = title
    ET.SubElement(book, "price", currency="EUR").text = str(price)

ET.ElementTree(root).write("catalog.xml", encoding="utf-8", xml_declaration=True)

tree = ET.parse("catalog.xml")
for book in tree.getroot().findall("book[@genre='sf']"):
    price = book.find("price")
    price.text = f"{float(price.text) * 0.9:.2f}"
    print(book.findtext("title"), price.text, price.get("currency"))

total = sum(float(p.text) for p in tree.iter("price"))
print(f"total {total:.2f}", len(ET.tostring(tree.getroot())))
try:
    ET.fromstring("<a><b></a>")
except ET.ParseError as e:
    print("Parse error:", e)
