# expect: ok
import html
from html.parser import HTMLParser

PAGE = """
<html><body><h1>News &amp; more</h1>
<p>Read <a href="/a?x=1&amp;y=2" class="ext">the first</a> or <a href="https://example.org">another</a>.</p>
<img src="logo.png"><script>var x = "<a href='no'>";</script>
</body></html>
"""


class LinkParser(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.links, self.text, self._current = [], [], None

    def handle_starttag(self, tag, attrs):
        if tag == "a":
            self._current = dict(attrs).get("href")

    def handle_endtag(self, tag):
        if tag == "a":
            self._current = None

    def handle_data(self, data):
        if self._current is not None:
            self.links.append((self._current, data.strip()))
        elif data.strip():
            self.text.append(data.strip())


parser = LinkParser()
parser.feed(PAGE)
print(parser.links)
print(parser.text[0], "|", html.escape('<b>"x"</b>'), "|", html.unescape("&euro;5"))
