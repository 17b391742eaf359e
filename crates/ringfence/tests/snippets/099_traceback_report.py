# expect: ok
import sys
import traceback


def parse(text):
    return int(text)


def load(values):
    try:
        return [parse(v) for v in values]
    except ValueError as e:
        raise RuntimeError("cannot load the values") from e


try:
    load(["1", "two"])
except RuntimeError as e:
    print("".join(traceback.format_exception_only(type(e), e)).strip())
    print("caused by:", repr(e.__cause__))
    frames = traceback.extract_tb(e.__cause__.__traceback__)
    print("functions:", [f.name for f in frames if f.name in ("load", "parse")])
    kind, value, tb = sys.exc_info()
    print("line known:", tb.tb_lineno > 0, kind.__name__)
    text = traceback.format_exc()
    print("direct cause" in text, "int(text)" in text)
    traceback.print_exc(limit=1)
