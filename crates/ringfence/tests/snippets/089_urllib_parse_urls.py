# expect: ok
from urllib.parse import parse_qs, quote, unquote, urlencode, urljoin, urlparse, urlsplit, urlunparse

url = "https://user@shop.example.com:8443/items/list;v=1?q=red+shoes&size=42&size=43#top"
parts = urlparse(url)
print(parts.scheme, parts.hostname, parts.port, parts.path, parts.params, parts.fragment)
print(parse_qs(parts.query))

query = urlencode({"q": "café & bar", "page": 2, "tag": ["a", "b"]}, doseq=True)
print(urlunparse(("https", "example.com", "/search", "", query, "")))
print(quote("a b/ü"), quote("a/b", safe=""), unquote("%C3%BC%20x"))
for base in ("https://example.com/docs/intro.html", "https://example.com/docs/"):
    print(urljoin(base, "../img/logo.png"), urljoin(base, "//cdn.example.net/x"))
print(urlsplit("mailto:ann@example.com").path)
