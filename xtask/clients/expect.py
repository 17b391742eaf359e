"""Checks and a program that Python clients share."""
import pathlib

PICTURE = pathlib.Path(__file__).with_name("picture.py").read_text()


def expect(what, got, wanted):
    if got != wanted:
        raise AssertionError("%s: %.300r, not %r" % (what, got, wanted))


def expect_in(what, part, text):
    if part not in text:
        raise AssertionError("%s: no %r in %.300r" % (what, part, text))
