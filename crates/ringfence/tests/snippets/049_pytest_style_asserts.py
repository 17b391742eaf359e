# expect: ok
def slugify(text):
    cleaned = "".join(c.lower() if c.isalnum() else "-" for c in text)
    return "-".join(part for part in cleaned.split("-") if part)


def test_lowercase():
    assert slugify("Hello World") == "hello-world"


def test_punctuation():
    assert slugify("  What's new?! ") == "what-s-new"


def test_empty():
    assert slugify("") == ""


if __name__ == "__main__":
    passed = 0
    for name, test in list(globals().items()):
        if name.startswith("test_") and callable(test):
            test()
            print("PASS", name)
            passed += 1
    print(f"{passed} passed")
