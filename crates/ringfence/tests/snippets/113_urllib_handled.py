# expect: ok
import urllib.error
import urllib.request


def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=3) as response:
            return response.read().decode("utf-8", errors="replace")
    except urllib.error.HTTPError as e:
        print("HTTP error", e.code)
    except urllib.error.URLError as e:
        print("Could not reach", url, "-", type(e.reason).__name__)
    except Exception as e:
        print("Unexpected:", e)
    return ""


page = fetch("http://site.example.invalid/")
print("length:", len(page))
with open("page.html", "w") as f:
    f.write("<h1>local</h1>")
import pathlib
print(fetch(pathlib.Path("page.html").resolve().as_uri()))
