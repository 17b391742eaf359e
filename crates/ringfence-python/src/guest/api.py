"""Finds things in the files of a session, from inside a run.

    import code_api

    hits = code_api.search("where are retries configured", limit=50)
    hits = code_api.filtering.without_tests(hits)
    hits = code_api.reranking.mmr(hits, "retry backoff")
    print([(h.path, h.start_line) for h in hits[:5]])

search(query)      ranked pieces of files          grep(pattern)   lines that match
files(path)        what is there                   read(path)      the text of a file
chunks(path)       a file cut at its definitions   wrap(text)      text as data for another model
filtering, reranking   work on what the others return, without a call

Calls are answered by the host, for this session only, and count: after too many of them BudgetExceeded is raised.
"""
import dataclasses
import fnmatch
import functools
import math
import re
import sys
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Union

__all__ = [
    "BudgetExceeded", "CallError", "Chunk", "File", "Hit", "Match", "chunks", "files", "filtering", "grep", "read",
    "reranking", "search", "wrap",
]


class CallError(RuntimeError):
    """A call that the host refused or could not do. `code` is the host's name for the reason."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class BudgetExceeded(CallError):
    """The run has made all the calls that it may."""


@dataclasses.dataclass(frozen=True)
class Hit:
    """A piece of a file that fits a query."""

    path: str
    start_line: int
    end_line: int
    score: float
    text: str
    language: Optional[str] = None
    symbol: Optional[str] = None
    modified: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Match:
    """A line that matches a pattern."""

    path: str
    line: int
    text: str
    before: List[str] = dataclasses.field(default_factory=list)
    after: List[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class File:
    """An entry of a directory."""

    path: str
    kind: str
    size: int
    modified: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Chunk:
    """A piece of a file, cut at its definitions, headings or paragraphs."""

    path: str
    start_line: int
    end_line: int
    text: str
    language: Optional[str] = None
    symbol: Optional[str] = None


def _made(kind: Any, rows: Iterable[Dict[str, Any]]) -> List[Any]:
    names = [field.name for field in dataclasses.fields(kind)]
    return [kind(**{name: row[name] for name in names if name in row}) for row in rows]


def search(
    query: str, limit: int = 10, path: Optional[str] = None, language: Optional[str] = None
) -> List[Hit]:
    """Returns the pieces of the session's files that fit a query best: words, or the name of a definition.

    `path` is a glob such as `src/**/*.py`. The index is brought up to date first.
    """
    asked = {"query": query, "limit": limit, "path": path, "language": language}
    return _made(Hit, _call("search", asked)["hits"])


def grep(
    pattern: Union[str, List[str]],
    path: str = ".",
    glob: Optional[str] = None,
    literal: bool = False,
    ignore_case: bool = False,
    context: int = 0,
    limit: int = 100,
    *,
    before: Optional[int] = None,
    after: Optional[int] = None,
    words: bool = False,
    invert: bool = False,
    multiline: bool = False,
    smart_case: bool = False,
    type: Union[str, List[str], None] = None,
    hidden: bool = True,
    ignore: bool = False,
    files_only: bool = False,
    count: bool = False,
) -> Any:
    """Returns the lines that match a regular expression, or one of several, as a list of Match, at most `limit`.

    `context`, `before`, `after`: lines around each, 30 at most. `words`: whole words only. `invert`: lines that do not
    match. `multiline`: a match may span lines. `type`: a language or an extension, such as `py`. `hidden=False` skips
    hidden files, `ignore=True` skips what a .gitignore names.
    With `files_only` returns a list of paths, with `count` a dict of paths and numbers of lines; `limit` is on files.
    """
    asked = {"pattern": pattern, "path": path, "glob": glob, "literal": literal, "ignore_case": ignore_case}
    asked.update(context=context, limit=limit, before=before, after=after, words=words, invert=invert)
    asked.update(multiline=multiline, smart_case=smart_case, type=type, hidden=hidden, ignore=ignore)
    found = _call("grep", dict(asked, files=files_only, counts=count))
    if files_only:
        return [file["path"] for file in found.get("files", [])]
    if count:
        return {file["path"]: file["count"] for file in found.get("files", [])}
    return _made(Match, found["matches"])


def read(path: str, offset: int = 0, limit: Optional[int] = None) -> str:
    """Returns the text of a file, or `limit` bytes of it from `offset` on."""
    return _call("read", {"path": path, "offset": offset, "limit": limit})["text"]


def files(path: str = ".", depth: int = 8, glob: Optional[str] = None) -> List[File]:
    """Returns the files below a directory, directories themselves left out."""
    found = _made(File, _call("files", {"path": path, "depth": depth})["files"])
    if glob is None:
        return found
    return [file for file in found if _fits(file.path, glob)]


def chunks(path: str, lines: int = 60, prompt: bool = False) -> List[Chunk]:
    """Returns a file cut at its definitions, headings or paragraphs, each piece of about so many lines.

    With `prompt` the text of each is wrapped as data, for another model.
    """
    asked = {"path": path, "lines": lines, "prompt": prompt, "offset": 0}
    rows = []
    while asked["offset"] is not None:
        page = _call("chunks", asked)
        rows += page["chunks"]
        asked["offset"] = page["next"]
    return _made(Chunk, rows)


def wrap(text: str, label: str = "text") -> str:
    """Returns the text inside a boundary that it cannot contain, marked as data, for the prompt of another model.

    `label` says where it is from, such as a path.
    """
    return _call("wrap", {"text": text, "label": label})["text"]


def _fits(path: str, glob: str) -> bool:
    return fnmatch.fnmatchcase(path, glob) or fnmatch.fnmatchcase(path.rpartition("/")[2], glob)


class _Submodule(type(sys)):
    """A module that can be called: `code_api.search(…)` and `import code_api.search` are the same search."""

    def __init__(self, name: str, doc: str, members: Dict[str, Any], call: Optional[Callable[..., Any]] = None) -> None:
        super().__init__("code_api." + name, doc)
        self.__dict__.update(members)
        self.__dict__["__all__"] = sorted(members)
        self.__dict__["_called"] = call
        sys.modules["code_api." + name] = self

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        called = self.__dict__["_called"]
        if called is None:
            raise TypeError("%s is a module: call one of %s" % (self.__name__, ", ".join(self.__all__)))
        return called(*arguments, **named)


# Filtering: what search, grep, files and chunks return, fewer of them.


def by_path(items: Iterable[Any], *globs: str) -> List[Any]:
    """Keeps what lies at a path that fits one of the globs."""
    return [item for item in items if any(_fits(item.path, glob) for glob in globs)]


def by_language(items: Iterable[Any], *languages: str) -> List[Any]:
    """Keeps what is written in one of the languages."""
    wanted = {language.lower() for language in languages}
    return [item for item in items if (item.language or "").lower() in wanted]


def by_score(hits: Iterable[Hit], least: float) -> List[Hit]:
    """Keeps hits with at least this share of the best score: 0.5 drops those half as good."""
    hits = list(hits)
    best = max((hit.score for hit in hits), default=0.0)
    return [hit for hit in hits if hit.score >= least * best]


def by_text(items: Iterable[Any], pattern: str, ignore_case: bool = False) -> List[Any]:
    """Keeps what contains a match of a regular expression."""
    compiled = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    return [item for item in items if compiled.search(item.text)]


_TESTS = re.compile(r"(^|/)(tests?|specs?|__tests__|testdata|fixtures)/|(^|/)(test_[^/]*|[^/]*[._-](test|spec))\.[^/]+$")


def without_tests(items: Iterable[Any]) -> List[Any]:
    """Drops what lies in tests."""
    return [item for item in items if not _TESTS.search(item.path.lower())]


def unique(items: Iterable[Any], key: Callable[[Any], Any] = lambda item: item.path) -> List[Any]:
    """Keeps the first of each path, or of each value of `key`."""
    seen: set = set()
    return [item for item in items if not (key(item) in seen or seen.add(key(item)))]


# Reranking: the same hits in another order.

# The parts of names: `parseHTTPHeader` is parse, http and header.
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[^\W\d_A-Z]+|[A-Z][^\W\d_A-Z]*|\d+")
# The same for most texts, in two thirds of the time.
_ASCII_WORDS = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]*|[0-9]+")


@functools.lru_cache(maxsize=1024)
def _words(text: str) -> Dict[str, int]:
    """Words of a text, and how often each is there."""
    words: Dict[str, int] = {}
    for word in map(str.lower, (_ASCII_WORDS if text.isascii() else _WORDS).findall(text)):
        words[word] = words.get(word, 0) + 1
    return words


def _mask(words: Iterable[str], bits: Dict[str, int]) -> int:
    """The words as bits of one number: the words that two texts share are counted in one step."""
    mask = 0
    for word in words:
        mask |= 1 << bits.setdefault(word, len(bits))
    return mask


# int.bit_count is of Python 3.10.
_n_bits: Callable[[int], int] = getattr(int, "bit_count", lambda mask: bin(mask).count("1"))


def bm25(hits: Sequence[Any], query: str, k1: float = 1.2, b: float = 0.75) -> List[Any]:
    """Orders by BM25 among these hits alone."""
    hits = list(hits)
    texts = [(_words(hit.text), _words(hit.path)) for hit in hits]
    lengths = [sum(text.values()) + sum(path.values()) for text, path in texts]
    mean = sum(lengths) / len(lengths) if lengths else 1.0
    wanted = set(_words(query))
    n_with = {word: sum(word in text or word in path for text, path in texts) for word in wanted}
    scores = []
    for (text, path), length in zip(texts, lengths):
        score = 0.0
        for word in wanted:
            n = text.get(word, 0) + path.get(word, 0)
            if n:
                rare = math.log(1 + (len(texts) - n_with[word] + 0.5) / (n_with[word] + 0.5))
                score += rare * n * (k1 + 1) / (n + k1 * (1 - b + b * length / (mean or 1.0)))
        scores.append(score)
    return _ordered(hits, scores)


def mmr(hits: Sequence[Any], query: str = "", diversity: float = 0.3, limit: Optional[int] = None) -> List[Any]:
    """Orders by maximal marginal relevance: a hit that resembles a better one comes later."""
    left = list(bm25(hits, query)) if query else list(hits)
    bits: Dict[str, int] = {}
    masks = [_mask(_words(hit.text), bits) for hit in left]
    sizes = [_n_bits(mask) for mask in masks]
    scores = [getattr(hit, "score", 1.0) for hit in left]
    best = max(scores, default=1.0) or 1.0
    worth = [(1 - diversity) * score / best for score in scores]
    likest = [0.0] * len(left)
    open_ones = list(range(len(left)))
    taken: List[Any] = []
    while open_ones and (limit is None or len(taken) < limit):
        chosen = max(open_ones, key=lambda i: worth[i] - diversity * likest[i])
        open_ones.remove(chosen)
        taken.append(left[chosen])
        mask, size = masks[chosen], sizes[chosen]
        for i in open_ones:
            shared = _n_bits(masks[i] & mask)
            alike = shared / ((sizes[i] + size - shared) or 1)
            if alike > likest[i]:
                likest[i] = alike
    return taken


def recency(hits: Sequence[Any], half_life_days: float = 30.0, weight: float = 0.5) -> List[Any]:
    """Orders by score and age: a file changed `half_life_days` ago counts half as new."""
    hits, now = list(hits), time.time()
    best = max((getattr(hit, "score", 1.0) for hit in hits), default=1.0) or 1.0
    scores = []
    for hit in hits:
        age = (now - hit.modified) / 86400 if hit.modified else math.inf
        new = 0.5 ** (max(age, 0.0) / half_life_days) if age < math.inf else 0.0
        scores.append((1 - weight) * getattr(hit, "score", 1.0) / best + weight * new)
    return _ordered(hits, scores)


def vectors(hits: Sequence[Any], query: str) -> List[Any]:
    """Orders by the likeness of meaning, where the operator configured an embedding model."""
    hits = list(hits)
    scores = _call("vectors", {"query": query, "texts": [hit.text for hit in hits]})["scores"]
    return _ordered(hits, scores)


def _ordered(hits: List[Any], scores: List[float]) -> List[Any]:
    order = sorted(range(len(hits)), key=lambda i: -scores[i])
    return [dataclasses.replace(hits[i], score=scores[i]) if hasattr(hits[i], "score") else hits[i] for i in order]


filtering = _Submodule(
    "filtering",
    "Keeps some of what search, grep, files and chunks return.",
    {f.__name__: f for f in (by_path, by_language, by_score, by_text, without_tests, unique)},
)
reranking = _Submodule(
    "reranking",
    "Puts what search returns into another order.",
    {f.__name__: f for f in (bm25, mmr, recency, vectors)},
)
search = _Submodule("search", search.__doc__, {"search": search, "Hit": Hit}, search)
grep = _Submodule("grep", grep.__doc__, {"grep": grep, "Match": Match}, grep)
